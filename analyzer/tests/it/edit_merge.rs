//! `merge` puts several traces on one line of time and loses nothing of them.

use std::{fs::File, io::BufWriter, path::Path};

use proptest::prelude::*;
use ringscope_format::{
    ClockPair, Columns, Counter, FileHeader, Kind, Link, LinkRole, LostCause, OpenSpan, OwnedValue,
    Record, Trace, TraceWriter, TrackKind, Value, parse_slots,
};
use serde_json::Value as Json;
use tempfile::tempdir;

use crate::{analyze::analyze, edit_cut::alike_within, making::Writer};

const EPOCH: i64 = 1_700_000_000_000_000_000;

/// A trace whose ticks are so many a second and begin at this time of day.
fn trace(path: &Path, id: u8, hz: u64, wall_ns: i64, fill: impl FnOnce(&mut Writer)) {
    let header = FileHeader { nominal_hz: hz, ..FileHeader::converted([id; 16], wall_ns) };
    let file = BufWriter::new(File::create(path).unwrap());
    let mut writer = TraceWriter::new(file, header).unwrap();
    fill(&mut writer);
    writer.finish().unwrap();
}

/// Steps with a kernel each, and a barrier at the end of each step.
fn rank(path: &Path, id: u8, wall_ns: i64, late: u64) {
    trace(path, id, 1_000_000_000, wall_ns, |writer| {
        writer.metadata(&[("host.name", &format!("host {id}"))]).unwrap();
        let main = writer.track(TrackKind::Thread, 7, "main");
        let queue = writer.track(TrackKind::GpuQueue, 1, "gpu 0");
        let (step, barrier) = (writer.name(&format!("step {id}")), writer.name("barrier"));
        let (kernel, key) = (writer.name("matmul"), writer.name("id"));
        for at in 0..4_u64 {
            let start = 10_000 + 1_000 * at;
            let link = at as u32 + 1;
            let own = Link { id: 40 + u128::from(at), track: 0, role: LinkRole::Own };
            let request = Link { id: 9, track: 0, role: LinkRole::Request };
            let launch = Record {
                link,
                depth: 1,
                ..Record::timed(Kind::LAUNCH, kernel, main, start + 10, 5)
            };
            writer.event(launch, &[(key, Value::U64(at))], &[own, request]).unwrap();
            let work =
                Record { link, ..Record::timed(Kind::KERNEL, kernel, queue, start + 30, 100) };
            writer.event(work, &[], &[]).unwrap();
            let waits = Record {
                depth: 1,
                ..Record::timed(Kind::SPAN, barrier, main, start + 500 + late, 300 - late)
            };
            writer.event(waits, &[], &[]).unwrap();
            writer.event(Record::timed(Kind::SPAN, step, main, start, 900), &[], &[]).unwrap();
        }
        writer.lose(main, LostCause::RingFull, u64::from(id));
        writer.open_span(OpenSpan { start: 20_000, id: 0, name: step, track: main }, 0);
    });
}

fn merge(dir: &Path, more: &[&str]) -> (String, Trace<Vec<u8>>) {
    let mut all = vec!["merge", "-o", "all.trace"];
    all.extend(more);
    let run = analyze(dir, &all);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let merged = Trace::open(std::fs::read(dir.join("all.trace")).unwrap()).unwrap();
    assert!(merged.damage().is_empty());
    (run.stderr, merged)
}

/// Wall clock at the end of each `barrier`, by track.
fn barriers(trace: &Trace<Vec<u8>>, track: &str) -> Vec<i64> {
    let id = trace.tracks().iter().find(|it| it.name == track).expect(track).id;
    let mut ends = Vec::new();
    for chunk in trace.chunks() {
        let batch = trace.decode(chunk, Columns::ALL).unwrap();
        let is_it = |record: &Record| {
            record.track == id && trace.names().get(record.name) == Some("barrier")
        };
        let records = batch.records().map(|(record, _)| record).filter(is_it);
        ends.extend(records.map(|record| trace.clock().wall_ns(record.end())));
    }
    ends
}

#[test]
fn traces_are_aligned_by_wall_time_and_tracks_say_whose_they_are() {
    let dir = tempdir().unwrap();
    rank(&dir.path().join("a.trace"), 1, EPOCH, 0);
    rank(&dir.path().join("b.trace"), 2, EPOCH + 5_000, 100);
    let (said, merged) = merge(dir.path(), &["a.trace", "b.trace"]);
    assert!(
        said.ends_with("analyze: all.trace: 32 events of 2 traces kept, 0 left out\n"),
        "{said}"
    );
    assert!(
        said.contains(
            "b.trace: aligned by the time of day in its header; how exact that is is not known"
        ),
        "{said}"
    );
    let tracks: Vec<&str> = merged.tracks().iter().map(|track| track.name.as_str()).collect();
    assert_eq!(tracks, ["a.trace: main", "a.trace: gpu 0", "b.trace: main", "b.trace: gpu 0"]);
    let (a, b) = (barriers(&merged, "a.trace: main"), barriers(&merged, "b.trace: main"));
    assert_eq!(a[0], EPOCH + 10_800);
    assert!(a.iter().zip(&b).all(|(a, b)| b - a == 5_000), "{a:?} {b:?}");
    assert_eq!(merged.metadata()["a.trace/host.name"], "host 1");
    assert_eq!(merged.metadata()["b.trace/host.name"], "host 2");
    assert_eq!(merged.metadata()["edit"], "merge");
    assert_eq!(merged.vitals().unwrap().total_lost(), 3);
    let lost: Vec<(u32, u64)> = merged.losses().iter().map(|it| (it.track, it.events)).collect();
    assert_eq!(lost, [(1, 1), (3, 2)]);
    assert_eq!(merged.in_flight().unwrap().len(), 2);
}

#[test]
fn shared_events_align_what_wall_clocks_do_not_and_the_error_is_told() {
    let dir = tempdir().unwrap();
    rank(&dir.path().join("a.trace"), 1, EPOCH, 0);
    rank(&dir.path().join("b.trace"), 2, EPOCH - 3_000_000_000, 100);
    let (said, merged) = merge(dir.path(), &["a.trace", "b.trace", "--align", "barrier"]);
    let moved = "b.trace: moved 3.00 s later by 4 \"barrier\": off by at most 0.00 ns, \
                 half of them by at most 0.00 ns\n";
    assert!(said.contains(moved), "{said}");
    assert_eq!(barriers(&merged, "a.trace: main"), barriers(&merged, "b.trace: main"));
    assert_eq!(merged.metadata()["b.trace/merge.shift_ns"], "3000000000");
    assert_eq!(merged.metadata()["b.trace/merge.residual_ns"], "0");
    let missing = ["merge", "-o", "c.trace", "a.trace", "b.trace", "--align", "nothing"];
    assert_eq!(
        analyze(dir.path(), &missing).refusal(),
        "analyze: a.trace: no event \"nothing\"; align by one that every trace has\n"
    );
    assert!(!dir.path().join("c.trace").exists());
}

#[test]
fn readings_of_the_clock_align_counters_of_different_speed() {
    let dir = tempdir().unwrap();
    let at = |tick: u64, ns: i64| ClockPair {
        tick_before: tick,
        tick_after: tick,
        mono_ns: ns,
        wall_ns: EPOCH + ns,
        boot_ns: ns,
        ..ClockPair::default()
    };
    let two = |path: &str, id, ticks_a_us: u64, from: u64| {
        trace(&dir.path().join(path), id, 1_000_000_000, 0, |writer| {
            writer.clock_pair(at(from, 0));
            writer.clock_pair(at(from + ticks_a_us * 1_000, 1_000_000));
            let (main, name) = (writer.track(TrackKind::Thread, 7, "main"), writer.name("barrier"));
            let key = writer.name("queue");
            let start = from + ticks_a_us * 100;
            let record = Record::timed(Kind::SPAN, name, main, start, ticks_a_us * 30);
            writer.event(record, &[(key, Value::Ticks(ticks_a_us * 7))], &[]).unwrap();
        });
    };
    two("a.trace", 1, 2_400, 1 << 50);
    two("b.trace", 2, 3_000, 77);
    let (said, merged) = merge(dir.path(), &["a.trace", "b.trace"]);
    assert!(
        said.contains("a.trace: aligned by its wall clock, which its own readings tell to 0.00 ns"),
        "{said}"
    );
    assert_eq!(barriers(&merged, "a.trace: main"), [EPOCH + 130_000]);
    assert_eq!(barriers(&merged, "b.trace: main"), [EPOCH + 130_000]);
    let batch = merged.decode(&merged.chunks()[0], Columns::ALL).unwrap();
    for (record, slots) in batch.records() {
        assert_eq!(merged.clock().ns(record.value), 30_000.0);
        let OwnedValue::Ticks(ticks) = parse_slots(slots).fields[0].1 else { panic!("ticks") };
        assert_eq!(merged.clock().ns(ticks), 7_000.0);
    }
}

#[test]
fn ids_of_different_traces_do_not_coincide_and_those_of_requests_do() {
    let dir = tempdir().unwrap();
    rank(&dir.path().join("a.trace"), 1, EPOCH, 0);
    rank(&dir.path().join("b.trace"), 2, EPOCH, 0);
    let (_, merged) = merge(dir.path(), &["a.trace", "b.trace"]);
    let (mut links, mut own, mut requests, mut fields) = (vec![], vec![], vec![], vec![]);
    for chunk in merged.chunks() {
        let batch = merged.decode(chunk, Columns::ALL).unwrap();
        for (record, slots) in batch.records().filter(|(it, _)| it.kind == Kind::LAUNCH) {
            let details = parse_slots(slots);
            links.push(record.link);
            own.push(details.links[0].id);
            requests.push(details.links[1].id);
            fields.extend(details.fields.into_iter().map(|(_, value)| format!("{value:?}")));
        }
    }
    links.sort_unstable();
    assert_eq!(links, [1, 2, 3, 4, 5, 6, 7, 8]);
    let distinct = |mut ids: Vec<String>| {
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    };
    assert_eq!(distinct(own.iter().map(ToString::to_string).collect()), 8);
    assert_eq!(distinct(requests.iter().map(ToString::to_string).collect()), 1);
    assert_eq!(distinct(fields), 8);
    let launches = |trace: &[&str]| {
        let all = [&["kernels", "--format", "json"][..], trace].concat();
        let json = analyze(dir.path(), &all).json();
        let rows =
            json["kernels"].as_array().or(json["rows"].as_array()).cloned().unwrap_or_default();
        rows.iter().map(|row| row["count"].as_u64().unwrap_or(0)).sum::<u64>()
    };
    assert_eq!(launches(&["all.trace"]), launches(&["a.trace", "b.trace"]));
}

type Made = (u8, u8, u64, u64);

#[test]
fn links_between_spans_with_slices_lead_to_the_same_spans_as_before() {
    let dir = tempdir().unwrap();
    for (file, id) in [("a.trace", 1), ("b.trace", 2)] {
        trace(&dir.path().join(file), id, 1_000_000_000, EPOCH, |writer| {
            let main = writer.track(TrackKind::Thread, 7, "main");
            let (request, query) = (writer.name("request"), writer.name("query"));
            let link = |id: u128, role| Link { id, track: 0, role };
            let task = |name, number, start| Record {
                link: number,
                ..Record::timed(Kind::TASK, name, main, start, 10)
            };
            writer.event(task(request, 5, 100), &[], &[link(5, LinkRole::Own)]).unwrap();
            let links = [link(6, LinkRole::Own), link(5, LinkRole::Parent)];
            writer.event(task(query, 6, 200), &[], &links).unwrap();
        });
    }
    let (_, merged) = merge(dir.path(), &["a.trace", "b.trace"]);
    let mut pairs = Vec::new();
    let names = merged.names();
    for chunk in merged.chunks() {
        let batch = merged.decode(chunk, Columns::ALL).unwrap();
        for (record, slots) in batch.records() {
            let links = parse_slots(slots).links;
            let of = |role| links.iter().find(|link| link.role == role).map(|link| link.id);
            assert_eq!(of(LinkRole::Own), Some(record.link.into()));
            pairs.push((
                names.get(record.name).unwrap().to_owned(),
                record.link,
                of(LinkRole::Parent),
            ));
        }
    }
    let named = |name: &'static str| pairs.iter().filter(move |pair| pair.0 == name);
    let requests: Vec<u128> = named("request").map(|pair| pair.1.into()).collect();
    let parents: Vec<u128> = named("query").filter_map(|pair| pair.2).collect();
    assert_eq!(requests, parents);
    assert_ne!(requests[0], requests[1]);
}

fn write(path: &Path, id: u8, hz: u64, spans: &[Made]) {
    trace(path, id, hz, EPOCH + i64::from(id) * 1_234, |writer| {
        let tracks: Vec<u32> =
            (0..3).map(|at| writer.track(TrackKind::Thread, at, &format!("thread {at}"))).collect();
        for &(name, track, start, duration) in spans {
            let name = writer.name(&format!("name {name}"));
            let track = tracks[usize::from(track)];
            let record = Record::timed(Kind::SPAN, name, track, start, duration);
            writer.event(record, &[], &[]).unwrap();
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_and_totals_are_those_of_the_sources_together(
        sources in prop::collection::vec(
            (
                prop::sample::select(vec![1_000_000_000_u64, 2_500_000_000, 24_000_000]),
                prop::collection::vec((0..4_u8, 0..3_u8, 0..1_000_000_000_u64, 0..1_000_000_u64), 0..100),
            ),
            1..4,
        ),
    ) {
        let dir = tempdir().unwrap();
        let mut paths = Vec::new();
        for (at, (hz, spans)) in sources.iter().enumerate() {
            paths.push(format!("{at}.trace"));
            write(&dir.path().join(&paths[at]), at as u8, *hz, spans);
        }
        let sources: Vec<&str> = paths.iter().map(String::as_str).collect();
        let (_, merged) = merge(dir.path(), &sources);
        prop_assert!(merged.damage().is_empty());
        let rows = |traces: &[&str]| {
            let all = [&["summary", "--sort", "name", "--columns", "name,count,total_ns,errors,min_ns,max_ns,p50_ns"][..], traces].concat();
            let json = analyze(dir.path(), &all).json();
            let mut rows: Vec<Json> = json["rows"].as_array().unwrap().clone();
            rows.sort_by_key(|row| row["name"].as_str().unwrap().to_owned());
            Json::Array(rows)
        };
        let (together, apart) = (rows(&["all.trace"]), rows(&sources));
        // Up to 300 records, each off by no more than two roundings to a picosecond.
        prop_assert!(alike_within(0.6, &together, &apart), "{together}\n{apart}");
    }
}

/// A trace whose clock was read twice, each time for so many ticks.
fn read_for(path: &Path, id: u8, hz: u64, width: u64) {
    trace(path, id, hz, EPOCH, |writer| {
        let per_second = |second: i64| ClockPair {
            tick_before: second as u64 * hz + 1_000,
            tick_after: second as u64 * hz + 1_000 + width,
            mono_ns: second * 1_000_000_000,
            wall_ns: EPOCH + second * 1_000_000_000,
            boot_ns: second * 1_000_000_000,
            ..ClockPair::default()
        };
        writer.clock_pair(per_second(0));
        writer.clock_pair(per_second(1));
        let (main, step) = (writer.track(TrackKind::Thread, 7, "main"), writer.name("step"));
        writer.event(Record::timed(Kind::SPAN, step, main, 2_000, 400_000), &[], &[]).unwrap();
    });
}

fn said_of_the_clock(dir: &Path, trace: &str) -> String {
    let report = analyze(dir, &["report", "--section", "header", trace]);
    assert_eq!(report.code, 0, "{}", report.stderr);
    let line = report.stdout.lines().find_map(|line| line.split_once("; clock ")).unwrap();
    line.1.to_owned()
}

#[test]
fn the_clock_of_a_merged_trace_is_as_exact_as_the_least_exact_of_its_sources() {
    let dir = tempdir().unwrap();
    read_for(&dir.path().join("a.trace"), 1, 1_000_000_000, 80);
    read_for(&dir.path().join("b.trace"), 2, 2_500_000_000, 301);
    assert_eq!(said_of_the_clock(dir.path(), "a.trace"), "error at most 40.00 ns");
    assert_eq!(said_of_the_clock(dir.path(), "b.trace"), "error at most 60.20 ns");
    let (_, merged) = merge(dir.path(), &["a.trace", "b.trace"]);
    assert_eq!(merged.clock().ns_per_tick(), 0.001);
    let not_known = "error at most 60.20 ns within each source, not known between them";
    assert_eq!(said_of_the_clock(dir.path(), "all.trace"), not_known);
    for edit in ["cut", "scrub", "recover"] {
        let run = analyze(dir.path(), &[edit, "all.trace", "-o", "edited.trace"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(said_of_the_clock(dir.path(), "edited.trace"), not_known, "{edit}");
    }
    merge(dir.path(), &["a.trace", "b.trace", "--align", "step"]);
    let known = "error at most 60.20 ns within each source; \
                 shared events are off by at most 0.00 ns between them";
    assert_eq!(said_of_the_clock(dir.path(), "all.trace"), known);
    let json = analyze(dir.path(), &["info", "all.trace", "--format", "json"]).json();
    assert_eq!(json["trace"]["clock_error_ns"], 60.2);
    assert_eq!(json["trace"]["shared_events_apart_ns"], 0.0);
}

#[test]
fn the_clock_of_a_merged_trace_is_not_known_if_that_of_a_source_is_not() {
    let dir = tempdir().unwrap();
    read_for(&dir.path().join("a.trace"), 1, 1_000_000_000, 80);
    let header = FileHeader {
        counter: Counter::X86Tsc,
        nominal_hz: 3_000_000_000,
        ..FileHeader::converted([9; 16], EPOCH)
    };
    let file = BufWriter::new(File::create(dir.path().join("b.trace")).unwrap());
    let mut writer = TraceWriter::new(file, header).unwrap();
    let (main, step) = (writer.track(TrackKind::Thread, 7, "main"), writer.name("step"));
    writer.event(Record::timed(Kind::SPAN, step, main, 2_000, 300), &[], &[]).unwrap();
    writer.finish().unwrap();
    assert_eq!(said_of_the_clock(dir.path(), "b.trace"), "error not known");
    merge(dir.path(), &["a.trace", "b.trace"]);
    let said = said_of_the_clock(dir.path(), "all.trace");
    assert_eq!(said, "error not known within each source, not known between them");
}
