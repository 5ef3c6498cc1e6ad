//! Many threads decode one trace at once.

use crate::build::*;
use ringscope_format::*;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn chunks_decoded_by_many_threads_from_a_file_are_the_same_as_by_one() {
    let mut file = TraceFile::finished();
    for sequence in 1..=40 {
        file.append_data(&spans(sequence, 500 + sequence as usize, sequence * 100_000));
    }
    let mut on_disk = tempfile::tempfile().unwrap();
    on_disk.write_all(&file.bytes).unwrap();
    let trace = Trace::open(on_disk).unwrap();
    let expected = events(&trace);
    let next = AtomicUsize::new(0);
    let mut parts: Vec<(u64, Vec<Event>)> = std::thread::scope(|scope| {
        let work = || {
            let mut batch = Batch::default();
            let mut parts = Vec::new();
            while let Some(chunk) = trace.chunks().get(next.fetch_add(1, Ordering::Relaxed)) {
                trace.decode_into(chunk, Columns::ALL, &mut batch).unwrap();
                let events = batch.records().map(|(record, slots)| (record, slots.to_vec()));
                parts.push((chunk.sequence, events.collect()));
            }
            parts
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    parts.sort_by_key(|(sequence, _)| *sequence);
    let decoded: Vec<_> = parts.into_iter().flat_map(|(_, events)| events).collect();
    assert_eq!(decoded, expected);
    assert_eq!(decoded.len(), (1..=40).map(|sequence| 500 + sequence).sum::<usize>());
}
