//! Of a part of a recording, what its table of losses tells, and when that is not all.

use std::{fs, path::Path};

use ringscope_format::{
    FileHeader, Loss, LostCause, Mode, RecordingState, TraceWriter, VITALS_LENGTH, VITALS_OFFSET,
    Vitals, write_twin,
};
use serde_json::Value;
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    making::{self, THREAD},
};

const FULL: usize = LostCause::RingFull as usize;
const FILE: usize = LostCause::File as usize;

/// A chunk: how many spans, when they begin and how long they take, and how many events were lost
/// in its time and why.
struct Chunk {
    spans: u64,
    begin: u64,
    duration: u64,
    lost: (usize, u64),
}

/// A chunk of ten short spans, in the time of which so many events were lost.
fn chunk(begin: u64, lost: u64) -> Chunk {
    Chunk { spans: 10, begin, duration: 900, lost: (FULL, lost) }
}

/// A file of chunks, of which the first are left out, with these vitals.
fn file(path: &Path, mode: Mode, number: u32, skip: usize, chunks: &[Chunk], vitals: &Vitals) {
    let header = FileHeader { mode, file_number: number, ..making::header() };
    let mut writer = TraceWriter::new(fs::File::create(path).unwrap(), header).unwrap();
    for _ in 0..skip {
        writer.end_chunk().unwrap();
    }
    let (main, name) = (writer.track(THREAD, 1, "main"), writer.name("step"));
    for Chunk { spans, begin, duration, lost: (cause, lost) } in chunks {
        for at in 0..*spans {
            let span = making::span(name, main, begin + at * 1_000, *duration);
            writer.event(span, &[], &[]).unwrap();
        }
        let (not_before, not_after) = (begin + 100, begin + 9_000);
        let loss = Loss { track: main, class: Loss::LOST, cause: *cause as u8, ..Loss::default() };
        if *lost > 0 {
            writer.loss(Loss { events: *lost, not_before, not_after, total: *lost, ..loss });
        }
        writer.end_chunk().unwrap();
    }
    writer.finish().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let block = &mut bytes[VITALS_OFFSET..VITALS_OFFSET + VITALS_LENGTH];
    write_twin(block, 2, &vitals.to_bytes());
    fs::write(path, bytes).unwrap();
}

/// Vitals of a recording that stored and lost so many events.
fn vitals(state: RecordingState, stored: u64, lost: &[(usize, u64)]) -> Vitals {
    let mut vitals = Vitals { state, stored, tick: 900_000, ..Vitals::default() };
    lost.iter().for_each(|(cause, events)| vitals.lost[*cause] = *events);
    vitals
}

#[test]
fn files_of_one_recording_side_by_side_say_what_figures_are_not_and_which_are_missing() {
    let dir = tempdir().unwrap();
    crate::accounts::rotation(dir.path());
    let said = |files: &[&str]| analyze(dir.path(), &[&["tree"], files].concat()).stderr;
    let parts = "run.trace and 1 more are parts of one recording: the self time of a span";
    let missing = "of that recording, file 1 is not among these";
    let all = said(&["run.2.trace", "run.trace", "run.1.trace"]);
    assert!(all.contains(&parts.replace("1 more", "2 more")) && !all.contains("among these"));
    let some = said(&["run.trace", "run.2.trace"]);
    assert!(some.contains(parts) && some.contains(missing), "{some}");
    assert!(!said(&["run.2.trace"]).contains("parts of one recording"));
    let is_exact = |files: &[&str]| {
        let spans = analyze(dir.path(), &[&["spans", "--format", "json"], files].concat());
        spans.json()["exact"].clone()
    };
    assert_eq!(
        (is_exact(&["run.trace"]), is_exact(&["run.trace", "run.1.trace"])),
        (true.into(), false.into())
    );
}

/// What a file says was lost.
fn loss(dir: &Path, name: &str) -> Value {
    analyze(dir, &["info", name, "--format", "json"]).json()["loss"].clone()
}

/// Of what a file counts its losses, how many, and how many before.
fn counted(dir: &Path, name: &str) -> (String, u64, Option<u64>) {
    let loss = loss(dir, name);
    let of = loss["of"].as_str().unwrap().to_owned();
    (of, loss["lost"].as_u64().unwrap(), loss["before"]["lost"].as_u64())
}

/// Makes a file one of an earlier minor version.
fn make_older(path: &Path, minor: u8) {
    let crc32c = |bytes: &[u8]| {
        let bit = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 };
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
    };
    let mut bytes = fs::read(path).unwrap();
    bytes[10] = minor;
    let crc = crc32c(&bytes[..252]);
    bytes[252..256].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_a_full_disk_cost_an_earlier_file_is_not_counted_again_in_the_last_one() {
    let dir = tempdir().unwrap();
    let lost = [(FILE, 30), (FULL, 4)];
    let last = vitals(RecordingState::Finished, 30, &lost);
    file(&dir.path().join("run.2.trace"), Mode::Full, 2, 0, &[chunk(7_000, 4)], &last);
    assert_eq!(counted(dir.path(), "run.2.trace"), ("file".to_owned(), 4, Some(30)));
}

#[test]
fn of_a_part_that_could_not_write_all_its_losses_down_nobody_knows_what_it_lost() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("part.trace");
    use RecordingState::{Continued, FatalSignal, Finished, GivenUp, Recording, Unknown};
    for mode in [Mode::Full, Mode::KeepLast, Mode::Dump] {
        let overwritten = if mode == Mode::Full { 0 } else { 20 };
        let number = u32::from(mode == Mode::Full);
        let scope = |state, untold, waiting, lost: (usize, u64), minor| {
            let counts = vitals(state, 30, &[lost]);
            let counts = Vitals { overwritten, untold, waiting, ..counts };
            file(&path, mode, number, 0, &[chunk(7_000, 0)], &counts);
            make_older(&path, minor);
            let (of, lost, before) = counted(dir.path(), "part.trace");
            assert_eq!(lost, if of == "file" { 0 } else { 9 }, "{mode:?} {state:?}");
            assert_eq!(before, (of == "file").then_some(9), "{mode:?} {state:?}");
            of
        };
        let full = (FULL, 9);
        for state in [Recording, Finished, FatalSignal, Continued] {
            assert_eq!(scope(state, 0, 0, full, 2), "file", "{mode:?} {state:?}");
            assert_eq!(scope(state, 1, 0, full, 2), "recording", "{mode:?} {state:?}");
            assert_eq!(scope(state, 0, 0, (FILE, 9), 2), "file", "{mode:?} {state:?}");
        }
        // What waits is not lost.
        assert_eq!(scope(Recording, 0, 5, full, 2), "file", "{mode:?}");
        for state in [GivenUp, Unknown(77)] {
            assert_eq!(scope(state, 0, 0, full, 2), "recording", "{mode:?} {state:?}");
        }
        // Earlier versions do not say.
        assert_eq!(scope(Recording, 0, 0, full, 1), "recording", "{mode:?}");
        for state in [Finished, FatalSignal] {
            assert_eq!(scope(state, 0, 0, full, 1), "file", "{mode:?} {state:?}");
            assert_eq!(scope(state, 0, 0, (FILE, 9), 1), "recording", "{mode:?} {state:?}");
        }
        assert_eq!(scope(Continued, 0, 0, (FILE, 9), 1), "file", "{mode:?}");
    }
}

#[test]
fn losses_that_are_written_down_count_though_the_vitals_are_older() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("dump.trace");
    for known in [0, 2] {
        let state = RecordingState::Finished;
        let counts = Vitals { overwritten: 20, ..vitals(state, 30, &[(FULL, known)]) };
        file(&path, Mode::Dump, 0, 0, &[chunk(7_000, 7)], &counts);
        assert_eq!(counted(dir.path(), "dump.trace"), ("file".to_owned(), 7, Some(0)));
        let run = analyze(dir.path(), &["report", "dump.trace", "--section", "header"]);
        let said = "7 of 17 events were lost (41.18 %): 7 ring full";
        assert!(run.stderr.contains(said), "{}", run.stderr);
        assert!(!run.stdout.contains("before what is kept"), "{}", run.stdout);
    }
}

#[test]
fn what_chunks_without_events_tell_counts_from_the_first_event_on() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("flight.trace");
    let silent = |begin, lost| Chunk { spans: 0, ..chunk(begin, lost) };
    // A span that began before all of this is no sign that anything else of that time is here.
    let long = Chunk { spans: 1, begin: 500, duration: 900_000, lost: (FULL, 0) };
    for first in [chunk(400_000, 2), long] {
        let own = first.lost.1 + 32 + 64;
        let chunks = [
            silent(100_000, 8),
            silent(200_000, 16),
            first,
            silent(500_000, 32),
            chunk(600_000, 64),
        ];
        let events: u64 = chunks.iter().map(|chunk| chunk.spans).sum();
        for mode in [Mode::KeepLast, Mode::Dump] {
            let state = RecordingState::Finished;
            let counts = vitals(state, events + 5, &[(FULL, 1_000 + own + 8 + 16)]);
            let counts = Vitals { overwritten: 5, ..counts };
            file(&path, mode, 0, 0, &chunks, &counts);
            let found = counted(dir.path(), "flight.trace");
            assert_eq!(found, ("file".to_owned(), own, Some(1_024)), "{mode:?}");
            let run = analyze(dir.path(), &["cut", "flight.trace", "-o", "copy.trace"]);
            assert_eq!(run.code, 0, "{}", run.stderr);
            assert_eq!(loss(dir.path(), "copy.trace")["lost"], own, "{mode:?}");
        }
        // As long as nothing is overwritten, all of it is here.
        let counts = vitals(RecordingState::Finished, events, &[(FULL, own + 8 + 16)]);
        file(&path, Mode::KeepLast, 0, 0, &chunks, &counts);
        assert_eq!(counted(dir.path(), "flight.trace"), ("file".to_owned(), own + 24, None));
    }
}

#[test]
fn dumps_of_one_recording_that_share_no_chunk_are_one_account() {
    let dir = tempdir().unwrap();
    let merged = |early: Vitals, late: Vitals| {
        let path = |name| dir.path().join(name);
        file(&path("early.trace"), Mode::Dump, 0, 0, &[chunk(7_000, 3)], &early);
        file(&path("late.trace"), Mode::Dump, 0, 4, &[chunk(90_000, 5)], &late);
        for files in [["early.trace", "late.trace"], ["late.trace", "early.trace"]] {
            let run = analyze(dir.path(), &["merge", "-o", "all.trace", files[0], files[1]]);
            assert_eq!(run.code, 0, "{}", run.stderr);
        }
        let loss = loss(dir.path(), "all.trace");
        let report = analyze(dir.path(), &["report", "all.trace", "--section", "header"]).stdout;
        let said = report.lines().find_map(|line| line.strip_prefix("  late.trace: "));
        let number = |key: &str| loss[key].as_u64().unwrap();
        let counts = (number("stored"), number("lost"), number("overwritten"));
        (counts, said.unwrap_or_default().to_owned())
    };
    let state = RecordingState::Finished;
    let counts = |stored, overwritten, lost, untold| Vitals {
        overwritten,
        untold,
        ..vitals(state, stored, &[(FULL, lost)])
    };
    let both = merged(counts(30, 20, 40, 0), counts(100, 90, 60, 0));
    let said = "in what is not here of its recording, 52 of 132 events were lost (52 ring full)";
    assert_eq!(both, ((20, 8, 80), said.to_owned()));
    let unknown = "what is counted as lost or skipped is of the whole recording up to here: how much \
                   of it of this file is not known";
    // What was lost before the early one ended, and then in the time of the late one.
    let both = merged(counts(30, 20, 40, 1), counts(100, 90, 60, 0));
    assert_eq!(both, ((20, 45, 80), unknown.to_owned()));
    let both = merged(counts(30, 20, 40, 0), counts(100, 90, 60, 1));
    assert_eq!(both, ((20, 60, 80), unknown.to_owned()));
    // Of both, each would have what the other has.
    let both = merged(counts(30, 20, 40, 1), counts(100, 90, 60, 1));
    assert_eq!(both, ((20, 60, 80), unknown.to_owned()));
}

#[test]
fn texts_that_stayed_cut_are_said_to_be_of_the_recording_where_they_may_be_of_another_file() {
    let dir = tempdir().unwrap();
    let cut = |texts_cut, state, stored| Vitals { texts_cut, ..vitals(state, stored, &[]) };
    use RecordingState::{Continued, Finished};
    for (name, number, counts) in [
        ("run.trace", 0, cut(3, Continued, 10)),
        ("run.1.trace", 1, cut(7, Continued, 20)),
        ("run.2.trace", 2, cut(7, Finished, 30)),
    ] {
        let begin = 20_000 * u64::from(number);
        file(&dir.path().join(name), Mode::Full, number, 0, &[chunk(begin, 0)], &counts);
    }
    let said = |command: &str, name: &str| analyze(dir.path(), &[command, name]);
    let info = said("info", "run.trace").stderr;
    assert!(info.contains(": 3 of 3 long texts of errors were cut: "), "{info}");
    let info = said("info", "run.1.trace").stderr;
    let of_all = ": 7 of 7 long texts of errors in the whole recording were cut: ";
    assert!(info.contains(of_all), "{info}");
    let check = said("check", "run.1.trace").stdout;
    assert!(check.contains("too much of one error in the whole recording\n"), "{check}");
    assert_eq!(loss(dir.path(), "run.trace")["texts_cut_of"], "file");
    assert_eq!(loss(dir.path(), "run.1.trace")["texts_cut_of"], "recording");
    let somewhere = "7 long texts of errors were cut in the whole recording";
    for command in ["recover", "cut", "scrub"] {
        let run = analyze(dir.path(), &[command, "run.1.trace", "-o", "copy.trace"]);
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
        let copied = loss(dir.path(), "copy.trace");
        let cut = (&copied["texts_cut"], &copied["texts_cut_of"]);
        assert_eq!(cut, (&0.into(), &"file".into()), "{command}");
        let report = said("report", "copy.trace").stdout;
        assert!(report.contains(&format!("\n  {somewhere}\n")), "{command}: {report}");
    }
    let merged = |files: &[&str]| {
        let arguments: Vec<&str> =
            ["merge", "-o", "all.trace"].iter().chain(files).copied().collect();
        assert_eq!(analyze(dir.path(), &arguments).code, 0);
        let is_said = said("report", "all.trace").stdout.contains(somewhere);
        (loss(dir.path(), "all.trace")["texts_cut"].as_u64().unwrap(), is_said)
    };
    assert_eq!(merged(&["run.trace", "run.1.trace", "run.2.trace"]), (7, false));
    assert_eq!(merged(&["run.1.trace", "run.2.trace"]), (0, true));
}

#[test]
fn what_is_recovered_of_a_damaged_later_file_has_losses_of_the_recording_and_says_so() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.1.trace");
    let counts = vitals(RecordingState::Finished, 30, &[(FULL, 45)]);
    file(&path, Mode::Full, 1, 0, &[chunk(7_000, 5), chunk(50_000, 0)], &counts);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 64]).unwrap();
    let run = analyze(dir.path(), &["recover", "run.1.trace", "-o", "copy.trace"]);
    let said = ", beside 45 in the whole recording when it was recorded\n";
    assert!(run.stderr.ends_with(said), "{}", run.stderr);
}

#[test]
fn what_users_call_the_account_of_the_source_is_none_of_a_recording() {
    let dir = tempdir().unwrap();
    for (pairs, is_said) in [
        (&[("source.account", "of the bank")][..], false),
        (&[("source.account", "of the bank"), ("edit", "cut")], true),
    ] {
        making::trace(&dir.path().join("run.trace"), |writer| writer.metadata(pairs).unwrap());
        let report = analyze(dir.path(), &["report", "run.trace", "--section", "header"]).stdout;
        assert_eq!(report.contains("of the bank"), is_said, "{report}");
    }
}

#[test]
fn a_track_without_events_does_not_hide_those_that_are_in_one_of_many_chunks() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let tracks = ["main", "idle", "late"].map(|name| writer.track(THREAD, 1, name));
        let name = writer.name("step");
        for at in 0..200 {
            let track = if at == 150 { tracks[2] } else { tracks[0] };
            writer.event(making::span(name, track, at * 1_000, 900), &[], &[]).unwrap();
            writer.end_chunk().unwrap();
        }
    });
    let info = analyze(dir.path(), &["info", "run.trace"]).clean();
    assert!(info.contains(", 2 of 3 tracks\n"), "{info}");
}
