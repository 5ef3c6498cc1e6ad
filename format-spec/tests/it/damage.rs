//! Damaged files: cut at every byte, flipped at every byte, with holes.

use crate::allocation::most_held;
use crate::build::*;
use crate::golden::{annotated, killed};
use ringscope_format::*;
use std::collections::HashSet;

/// What a reader may hold for files of some kilobytes.
const LITTLE: usize = 4 << 20;
/// Bits to flip, in turn.
const FLIPS: [u8; 3] = [0x01, 0x80, 0xFF];

fn distinct(file: &TraceFile) -> HashSet<Vec<u8>> {
    let trace = file.open();
    assert_eq!(trace.damage(), []);
    events(&trace).iter().map(bytes_of).collect()
}

fn bytes_of((record, slots): &Event) -> Vec<u8> {
    let mut bytes = bytemuck::bytes_of(record).to_vec();
    bytes.extend_from_slice(bytemuck::cast_slice(slots));
    bytes
}

/// Reads everything there is. Every event must be one that was written, and none
/// may be there twice; if one is missing, the reader must have said so.
fn check(bytes: &[u8], written: &HashSet<Vec<u8>>, what: &str, silent: bool) {
    let ((), held) = most_held(|| {
        let Ok(trace) = Trace::open(bytes) else { return };
        let mut said = !trace.damage().is_empty();
        let mut found = HashSet::new();
        for chunk in trace.chunks() {
            match trace.decode(chunk, Columns::ALL) {
                Ok(batch) => {
                    for (record, slots) in batch.records() {
                        let event = bytes_of(&(record, slots.to_vec()));
                        assert!(written.contains(&event), "{what}: {record:?} was never written");
                        assert!(found.insert(event), "{what}: {record:?} is there twice");
                    }
                }
                Err(error) => {
                    said = true;
                    assert!(!error.to_string().is_empty());
                }
            }
        }
        for it in trace.damage() {
            assert!(!it.to_string().is_empty());
            assert!(it.bytes.start <= it.bytes.end);
        }
        trace.in_flight().unwrap();
        for (_, slots) in events(&trace) {
            parse_slots(&slots);
        }
        assert!(said || silent || found.len() == written.len(), "{what}: a silent loss");
    });
    assert!(held < LITTLE, "{what}: {held} bytes");
}

#[test]
fn finished_file_cut_at_any_byte_says_so() {
    let file = annotated();
    let written = distinct(&file);
    for length in 0..file.bytes.len() {
        check(&file.bytes[..length], &written, &format!("cut at {length:#x}"), false);
    }
}

#[test]
fn killed_file_cut_at_any_byte_gives_what_is_left() {
    let file = killed();
    let written = distinct(&file);
    let log = file.header.layout.log_offset as usize;
    for length in 0..file.bytes.len() {
        // Where the log of a killed recording ends, nobody knows.
        check(&file.bytes[..length], &written, &format!("cut at {length:#x}"), length >= log);
    }
}

#[test]
fn finished_file_with_any_byte_flipped_says_so() {
    let mut file = annotated();
    let written = distinct(&file);
    for at in 0..file.bytes.len() {
        let flip = FLIPS[at % 3];
        file.bytes[at] ^= flip;
        check(&file.bytes, &written, &format!("{at:#x} flipped by {flip:#x}"), false);
        file.bytes[at] ^= flip;
    }
}

#[test]
fn killed_file_with_any_byte_flipped_says_so() {
    let mut file = killed();
    let written = distinct(&file);
    let layout = file.header.layout;
    for at in 0..file.bytes.len() {
        // Units published may be any number, as far as a reader can tell.
        let in_raw = at as u64 >= layout.raw_offset && (at as u64) < layout.log_offset;
        let in_slot = (at as u64 - layout.raw_offset.min(at as u64)) % u64::from(layout.raw_stride);
        let published = in_raw && (20..24).contains(&in_slot);
        let flip = FLIPS[at % 3];
        file.bytes[at] ^= flip;
        check(&file.bytes, &written, &format!("{at:#x} flipped by {flip:#x}"), published);
        file.bytes[at] ^= flip;
    }
}

/// Five chunks of 100, 101, ... events; returns where each begins.
fn five_chunks() -> (TraceFile, Vec<usize>) {
    let mut file = TraceFile::finished();
    let mut places = Vec::new();
    for sequence in 1..=5 {
        let content = spans(sequence, 99 + sequence as usize, sequence * 10_000);
        places.push(file.append_data(&content) as usize);
    }
    file.finish(100 + 101 + 102 + 103 + 104);
    (file, places)
}

fn problems(file: &TraceFile) -> Vec<String> {
    file.open().damage().iter().map(Damage::to_string).collect()
}

#[test]
fn damaged_middle_chunk_is_named_with_its_events_and_the_next_one_found() {
    let (mut file, places) = five_chunks();
    let length = places[3] - places[2];
    file.bytes[places[2]] ^= 1;
    let trace = file.open();
    let sequences: Vec<u64> = trace.chunks().iter().map(|it| it.sequence).collect();
    assert_eq!(sequences, [1, 2, 4, 5]);
    assert_eq!(trace.events_missing(), Some(102));
    let expected = Damage {
        bytes: places[2] as u64..places[3] as u64,
        what: Damaged::Chunks { sequences: vec![3..=3], events: Some(102) },
        why: Why::NoHeader,
    };
    assert_eq!(trace.damage(), [expected]);
    let at = places[2];
    assert_eq!(
        problems(&file),
        [format!(
            "{length} bytes at {at:#x}: no chunk header; chunk 3 is missing; 102 events are lost"
        )]
    );
}

#[test]
fn damaged_directory_costs_the_chunk_and_its_header_tells_the_events() {
    let (mut file, places) = five_chunks();
    file.bytes[places[1] + 90] ^= 1;
    // Even without the vitals, which know the total.
    file.bytes[VITALS_OFFSET..VITALS_OFFSET + VITALS_LENGTH].fill(0);
    let trace = file.open();
    assert_eq!(trace.chunks().len(), 4);
    let at = places[1];
    assert_eq!(
        problems(&file),
        [format!("chunk 2 at byte {at:#x}: checksum mismatch; 101 events are lost")]
    );
}

#[test]
fn damaged_column_costs_its_chunk_that_column_and_nothing_else() {
    let (mut file, places) = five_chunks();
    let chunk = &file.bytes[places[4]..];
    let (_, place) = section(chunk, 8);
    let at = places[4] + place.start;
    file.bytes[at] ^= 1;
    let trace = file.open();
    assert_eq!(trace.damage(), []);
    let chunk = &trace.chunks()[4];
    let error = trace.decode(chunk, Columns::DEPTH).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "depth column of chunk 5 at byte {at:#x}: checksum mismatch; \
             other columns and chunks are not affected"
        )
    );
    assert!(trace.decode(chunk, Columns::START).is_err(), "starts are predicted from depths");
    let batch = trace.decode(chunk, Columns::NAME | Columns::VALUE).unwrap();
    assert_eq!((batch.name.len(), batch.value.len()), (104, 104));
}

#[test]
fn hole_over_several_chunks_names_them_all() {
    let (mut file, places) = five_chunks();
    for fill in [0, 0x5A] {
        file.bytes[places[1]..places[4]].fill(fill);
        let trace = file.open();
        let [Damage { bytes, what: Damaged::Chunks { sequences, events }, .. }] = trace.damage()
        else {
            panic!("{:?}", trace.damage())
        };
        assert_eq!(*bytes, places[1] as u64..places[4] as u64);
        assert_eq!((sequences.as_slice(), *events), (&[2..=4][..], Some(101 + 102 + 103)));
    }
}

#[test]
fn first_chunk_that_is_damaged_is_named() {
    let (mut file, places) = five_chunks();
    file.bytes[places[0] + 40] ^= 1;
    let at = places[0];
    let length = places[1] - at;
    assert_eq!(
        problems(&file),
        [format!(
            "{length} bytes at {at:#x}: checksum mismatch; chunk 1 is missing; 100 events are lost"
        )]
    );
}

#[test]
fn chunk_that_was_cut_out_leaves_a_gap() {
    let (mut file, places) = five_chunks();
    file.bytes.drain(places[1]..places[3]);
    let at = places[1];
    assert_eq!(
        problems(&file),
        [format!(
            "chunks 2 to 3 before byte {at:#x}: missing between chunks that are there; 203 events are lost"
        )]
    );
}

#[test]
fn end_that_was_cut_off_is_noticed_even_between_two_chunks() {
    let (mut file, places) = five_chunks();
    file.bytes.truncate(places[3]);
    let at = places[3];
    assert_eq!(
        problems(&file),
        [format!("end of the file at byte {at:#x}: chunks are missing; 207 events are lost")]
    );
}

#[test]
fn damage_of_a_recording_that_was_killed_has_an_unknown_number_of_events() {
    let (mut file, places) = five_chunks();
    file.vitals(&Vitals { stored: 510, ..Vitals::default() });
    file.bytes[places[2]] ^= 1;
    let trace = file.open();
    assert_eq!(trace.events_missing(), None);
    assert!(
        problems(&file)[0].ends_with("chunk 3 is missing; how many events were there is unknown")
    );
}

#[test]
fn two_holes_share_what_the_vitals_say_is_missing() {
    let (mut file, places) = five_chunks();
    file.bytes[places[1]] ^= 1;
    file.bytes[places[3]] ^= 1;
    let trace = file.open();
    assert_eq!(trace.events_missing(), Some(101 + 103));
    let sequences: Vec<_> = trace
        .damage()
        .iter()
        .map(|it| match &it.what {
            Damaged::Chunks { sequences, events: None } => sequences.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sequences, [[2..=2], [4..=4]]);
}

#[test]
fn chunk_of_another_recording_is_not_taken_for_one_of_this() {
    let (mut file, places) = five_chunks();
    let mut other = ChunkEncoder::new(*b"someone else's!!").unwrap();
    let chunk = other.data(&spans(3, 102, 30_000), &[]).unwrap();
    assert_eq!(chunk.len(), places[3] - places[2]);
    file.bytes[places[2]..places[3]].copy_from_slice(chunk);
    let trace = file.open();
    assert_eq!(trace.chunks().len(), 4);
    assert_eq!(trace.damage()[0].why, Why::OtherRecording);
}

#[test]
fn names_that_are_damaged_are_lost_and_events_are_not() {
    let mut file = TraceFile::finished();
    let names = file.append_names(1, &[(1, "child"), (2, "parent")]) as usize;
    file.append_data(&spans(1, 10, 100));
    file.finish(10);
    file.bytes[names + 80 + 32 + 9] ^= 1;
    let trace = file.open();
    assert_eq!((trace.names().len(), events(&trace).len()), (0, 10));
    assert!(problems(&file)[0].starts_with("names of chunk 1 at byte 0x1070: checksum mismatch"));
    file.bytes[names] ^= 1;
    let trace = file.open();
    assert_eq!(trace.events_missing(), Some(0));
    assert!(problems(&file)[0].ends_with("no chunk header; no chunk is missing; no event is lost"));
    assert_eq!(events(&trace).len(), 10);
}

#[test]
fn dump_that_was_cut_off_between_two_chunks_says_how_many_events_are_missing() {
    let (mut file, places) = five_chunks();
    file.header.mode = Mode::Dump;
    file.bytes[..256].copy_from_slice(&file.header.to_bytes());
    // It goes back to the third chunk: the rest counts as overwritten.
    file.bytes.drain(places[0]..places[2]);
    let (stored, overwritten) = (100 + 101 + 102 + 103 + 104, 100 + 101);
    let state = RecordingState::Finished;
    file.vitals(&Vitals { state, stored, overwritten, ..Vitals::default() });
    assert_eq!((file.open().events_missing(), problems(&file).len()), (Some(0), 0));
    file.bytes.truncate(places[4] - (places[2] - places[0]));
    assert_eq!(file.open().events_missing(), Some(104));
    let end = file.bytes.len();
    assert_eq!(
        problems(&file),
        [format!("end of the file at byte {end:#x}: chunks are missing; 104 events are lost")]
    );
    // Before version 1.2 a dump counted as stored what it did not go back to.
    file.bytes[10] = 1;
    let crc = crc32c::crc32c(&file.bytes[..252]);
    file.bytes[252..256].copy_from_slice(&crc.to_le_bytes());
    let trace = file.open();
    assert_eq!((trace.events_missing(), trace.damage()), (None, &[][..]));
    assert!(!trace.counts_untold());
}

#[test]
fn vitals_survive_in_one_copy_and_are_missed_without_both() {
    let mut file = TraceFile::finished();
    file.vitals(&Vitals { stored: 1, ..Vitals::default() });
    file.vitals(&Vitals { stored: 2, ..Vitals::default() });
    file.bytes[VITALS_OFFSET + 40] ^= 1;
    let trace = file.open();
    assert_eq!((trace.vitals().map(|it| it.stored), trace.damage()), (Some(1), &[][..]));
    file.bytes[VITALS_OFFSET + 512 + 40] ^= 1;
    let trace = file.open();
    assert_eq!(trace.vitals(), None);
    assert_eq!(
        problems(&file),
        ["vitals at byte 0x100: checksum mismatch; what was lost is unknown"]
    );
}
