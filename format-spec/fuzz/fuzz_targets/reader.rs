//! Any bytes through the reader. The checksums would keep a fuzzer out of all
//! that lies behind them, so the first byte says whether to put them right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringscope_format::{Batch, Columns, Trace};

fuzz_target!(|input: &[u8]| {
    let Some((mode, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if mode & 1 != 0 {
        put_checksums_right(&mut bytes);
    }
    read(&bytes);
});

fn read(bytes: &[u8]) {
    let Ok(trace) = Trace::open(bytes) else { return };
    let mut batch = Batch::default();
    for chunk in trace.chunks() {
        let whole = Columns::ALL | Columns::LONG_TEXTS;
        for columns in [whole, Columns::START, Columns::NAME | Columns::SLOTS] {
            match trace.decode_into(chunk, columns, &mut batch) {
                Ok(()) => {
                    assert_eq!(batch.events, chunk.events as usize);
                    drop(batch.long_texts_error.as_ref().map(ToString::to_string));
                    for (_, slots) in batch.records() {
                        batch.details(slots);
                    }
                }
                Err(error) => drop(error.to_string()),
            }
        }
    }
    for damage in trace.damage() {
        assert!(damage.bytes.start <= damage.bytes.end);
        drop(damage.to_string());
    }
    let clock = trace.clock();
    for tick in [0, 1 << 40, u64::MAX] {
        let _ = (clock.mono_ns(tick), clock.wall_ns(tick));
    }
    let _ = trace.in_flight();
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 4].iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte))
}

fn put(bytes: &mut [u8], at: usize, crc: u32) {
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Makes valid headers of whatever stands where headers are looked for.
fn put_checksums_right(bytes: &mut [u8]) {
    if bytes.len() < 256 {
        return;
    }
    bytes[..16].copy_from_slice(b"\x89RSCP\r\n\x1a\x01\0\0\0\0\x10\0\0");
    let crc = crc32c::crc32c(&bytes[..252]);
    put(bytes, 252, crc);
    let recording: [u8; 16] = bytes[16..32].try_into().unwrap_or_default();
    for half in [256, 768] {
        twin(bytes, half, 512);
    }
    let (entries, stride) = (u32_at(bytes, 88), u32_at(bytes, 92));
    let offset = u32_at(bytes, 80);
    for copy in 0..entries.min(64) * 2 {
        twin(bytes, offset.saturating_add(copy * (stride / 2)), stride / 2);
    }
    let (slots, stride) = (u32_at(bytes, 104), u32_at(bytes, 108));
    let offset = u32_at(bytes, 96);
    for slot in 0..slots.min(16) {
        let start = offset.saturating_add(slot.saturating_mul(stride));
        batches(bytes, start, stride);
    }
    for at in (4096..bytes.len().saturating_sub(128)).step_by(64) {
        if bytes[at..].starts_with(b"\x89RSCK\r\n\x1a") {
            bytes[at + 8..at + 24].copy_from_slice(&recording);
            chunk(&mut bytes[at..]);
        }
    }
}

fn twin(bytes: &mut [u8], at: usize, length: usize) {
    let Some(copy) = bytes.get_mut(at..).and_then(|it| it.get_mut(..length)) else { return };
    if copy.len() < 16 {
        return;
    }
    let payload = u32_at(copy, 8).min(copy.len() - 16);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&copy[..12]), &copy[16..16 + payload]);
    put(copy, 12, crc);
}

fn batches(bytes: &mut [u8], at: usize, length: usize) {
    let Some(slot) = bytes.get_mut(at..).and_then(|it| it.get_mut(..length)) else { return };
    if slot.len() < 64 {
        return;
    }
    let (head, mut units) = slot.split_at_mut(64);
    while units.len() >= 32 {
        let payload = u32_at(units, 12);
        let Some(covered) = units.get(4..32 + payload) else { return };
        let crc = crc32c::crc32c_append(crc32c::crc32c(&head[8..16]), covered);
        put(units, 0, crc);
        let next = 32_usize.saturating_add(u32_at(units, 8).saturating_mul(32));
        let Some(rest) = units.get_mut(next..) else { return };
        units = rest;
    }
}

fn chunk(bytes: &mut [u8]) {
    let sections = usize::from(bytes[34]);
    let directory = 80 + 32 * sections;
    if directory > bytes.len() {
        return;
    }
    let mut at = directory;
    for section in 0..sections {
        let entry = 80 + 32 * section;
        let stored = u32_at(bytes, entry + 8);
        if let Some(bytes_of_section) = bytes.get(at..).and_then(|it| it.get(..stored)) {
            let crc = crc32c::crc32c(bytes_of_section);
            put(bytes, entry + 24, crc);
        }
        at = at.saturating_add(stored);
    }
    let crc = crc32c::crc32c(&bytes[80..directory]);
    put(bytes, 64, crc);
    let crc = crc32c::crc32c(&bytes[..76]);
    put(bytes, 76, crc);
}
