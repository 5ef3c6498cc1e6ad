//! How much of a file is read to open it.

use crate::build::*;
use ringscope_format::*;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that counts the bytes it is asked for.
struct Counted {
    bytes: Vec<u8>,
    asked: AtomicU64,
}

impl Source for Counted {
    fn len(&self) -> io::Result<u64> {
        Source::len(&self.bytes)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.asked.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(buf, offset)
    }
}

/// Opens a file of so many data chunks. Returns how often each of its bytes was read, on average.
fn times_read(file: TraceFile, chunks: usize) -> f64 {
    let length = file.bytes.len() as f64;
    let source = Counted { bytes: file.bytes, asked: AtomicU64::new(0) };
    let trace = Trace::open(&source).unwrap();
    assert_eq!(trace.chunks().len(), chunks);
    source.asked.load(Ordering::Relaxed) as f64 / length
}

/// A chunk of spans whose times are noise, of 25 bytes or so each.
fn noisy_chunk(encoder: &mut ChunkEncoder, sequence: u64, count: usize) -> Vec<u8> {
    let mut content = spans(sequence, count, sequence * 1_000_000);
    let mut noise = sequence;
    for record in &mut content.events {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (record.start, record.link) = (noise, (noise >> 32) as u32);
    }
    encoder.data(&content, &[]).unwrap().to_vec()
}

/// A ring of 4 MiB with chunks of so many spans, and so much of what is left of older ones after each.
fn ring(spans: usize, left_over: usize) -> (TraceFile, usize) {
    let layout = Layout::live(0, 0, 0, 4 << 20);
    let mut file = TraceFile::new(FileHeader { mode: Mode::KeepLast, ..header(layout) });
    let mut chunks = 0;
    let (mut at, end) = (layout.ring_offset as usize, layout.log_offset as usize);
    loop {
        let chunk = noisy_chunk(&mut file.encoder, chunks as u64 + 1, spans);
        if at + chunk.len() > end {
            return (file, chunks);
        }
        file.bytes[at..at + chunk.len()].copy_from_slice(&chunk);
        at += chunk.len();
        let left_over = left_over.min(end - at);
        file.bytes[at..at + left_over].fill(0x5A);
        at += left_over;
        chunks += 1;
    }
}

#[test]
fn ring_is_read_once_however_small_its_chunks_are() {
    for (spans, left_over) in [(320, 0), (320, 4096), (320, 64), (20, 0), (100, 0), (20, 192)] {
        let (file, chunks) = ring(spans, left_over);
        assert!(chunks > 400, "{chunks}");
        let times = times_read(file, chunks);
        assert!(times < 1.05, "{times} times, {spans} spans and {left_over} bytes in turn");
    }
}

#[test]
fn log_of_small_chunks_is_read_once_with_garbage_between_them_too() {
    for (spans, garbage) in [(320, 4096), (320, 0), (20, 0), (20, 192), (100, 64)] {
        for finished in [true, false] {
            let mut file = TraceFile::finished();
            for sequence in 1..=500 {
                let chunk = noisy_chunk(&mut file.encoder, sequence, spans);
                file.append(&chunk);
                file.append(&vec![0x5A; garbage]);
            }
            if finished {
                file.finish(500 * spans as u64);
            }
            // What looks damaged in a file that is not finished is looked at again.
            let looks = if finished || garbage == 0 { 1.0 } else { 2.0 };
            let times = times_read(file, 500) / looks;
            assert!(times < 1.15, "{times} times, {spans} spans and {garbage} bytes in turn");
        }
    }
}

#[test]
fn large_chunks_are_not_read_to_open_a_file() {
    let mut file = TraceFile::finished();
    for sequence in 1..=20 {
        file.append_names(sequence, &[(sequence as u32, "name")]);
        let chunk = noisy_chunk(&mut file.encoder, sequence, 16_384);
        file.append(&chunk);
    }
    file.finish(20 * 16_384);
    let times = times_read(file, 20);
    assert!(times < 0.05, "{times} times");
}

/// A file in which a chunk gets its header while the one before it is read.
struct Overtaken {
    bytes: Mutex<Vec<u8>>,
    before: u64,
    at: usize,
    header: Vec<u8>,
}

impl Source for Overtaken {
    fn len(&self) -> io::Result<u64> {
        Source::len(&*self.bytes.lock().unwrap())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap();
        bytes.read_exact_at(buf, offset)?;
        if offset == self.before {
            bytes[self.at..self.at + self.header.len()].copy_from_slice(&self.header);
        }
        Ok(())
    }
}

#[test]
fn header_that_is_written_while_the_chunk_before_it_is_read_is_found() {
    let mut file = TraceFile::live(1, 10);
    let before = file.append_data(&spans(1, 10, 100));
    let at = file.append_data(&spans(2, 10, 1_000)) as usize;
    assert!(file.bytes.len() - (before as usize) < 4096, "both are read at once");
    let header = file.bytes[at..at + CHUNK_HEADER_LENGTH].to_vec();
    file.bytes[at..at + CHUNK_HEADER_LENGTH].fill(0);
    let source = Overtaken { bytes: Mutex::new(file.bytes), before, at, header };
    assert_eq!(Trace::open(&source).unwrap().chunks().len(), 2);
}
