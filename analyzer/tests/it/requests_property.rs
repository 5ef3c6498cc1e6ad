//! For which request a record was, worked out anew for made-up traces: one look at all scopes
//! for each record.

use std::{cmp::Reverse, collections::BTreeMap, process::Command};

use proptest::prelude::*;
use ringscope_format::{Kind, Link, LinkRole, Record, TraceWriter, TrackKind, ValueType};
use tempfile::NamedTempFile;

use crate::making::header;

const TRACKS: u32 = 2;
const REQUESTS: u128 = 4;

/// What is recorded; 0 is nobody's request.
#[derive(Clone, Copy, Debug)]
enum What {
    Scope(u128),
    /// Of what says so itself, with its request.
    Span(Option<u128>),
    Point(Option<u128>),
}

#[derive(Clone, Copy, Debug)]
struct One {
    what: What,
    track: u32,
    start: u64,
    ticks: u64,
    depth: u8,
    new_chunk: bool,
}

fn records() -> impl Strategy<Value = Vec<One>> {
    let own = || prop_oneof![4 => Just(None), 1 => (0..REQUESTS).prop_map(Some)];
    let what = prop_oneof![
        (0..REQUESTS).prop_map(What::Scope),
        own().prop_map(What::Span),
        own().prop_map(What::Point),
    ];
    let one = (what, 0..TRACKS, 0_u64..40, 0_u64..20, 0_u8..3, 0_u8..10);
    let one = one.prop_map(|(what, track, start, ticks, depth, chunk)| One {
        what,
        track,
        start,
        ticks,
        depth,
        new_chunk: chunk == 0,
    });
    prop::collection::vec(one, 1..60)
}

impl One {
    fn end(&self) -> u64 {
        self.start + if matches!(self.what, What::Point(_)) { 0 } else { self.ticks }
    }

    fn id(&self) -> Option<u128> {
        match self.what {
            What::Scope(id) => Some(id),
            What::Span(id) | What::Point(id) => id,
        }
    }

    fn is_scope(&self) -> bool {
        matches!(self.what, What::Scope(_))
    }

    /// The request it was done for, by the words of SPEC 10.1.
    fn request(&self, all: &[One]) -> Option<u128> {
        let innermost = || {
            let holding = all.iter().enumerate().filter(|(_, it)| {
                let began_before = it.start == self.start && self.depth < it.depth;
                let ends_with_it = self.start == it.end() && self.end() == it.end();
                it.is_scope()
                    && it.track == self.track
                    && it.start <= self.start
                    && !began_before
                    && (self.start < it.end() || ends_with_it)
            });
            let last = holding
                .max_by_key(|(at, it)| (it.start, it.depth, Reverse(it.end()), Reverse(*at)));
            last.and_then(|(_, it)| it.id())
        };
        self.id().or_else(innermost).filter(|&id| id != 0)
    }
}

/// Ids of which four digits tell the first.
fn full_id(id: u128) -> u128 {
    id << 124 | id
}

fn written(all: &[One]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::new(file.reopen().unwrap(), header()).unwrap();
    let tracks: Vec<u32> =
        (0..TRACKS).map(|at| writer.track(TrackKind::Thread, 0, &format!("t{at}"))).collect();
    for (at, one) in all.iter().enumerate() {
        if one.new_chunk {
            writer.end_chunk().unwrap();
        }
        // Names tell them apart.
        let (name, track) = (writer.name(&format!("r{at}")), tracks[one.track as usize]);
        let record = match one.what {
            What::Scope(_) => Record::timed(Kind::SCOPE, name, track, one.start, one.ticks),
            What::Span(_) => Record::timed(Kind::ASYNC_SPAN, name, track, one.start, one.ticks),
            What::Point(_) => {
                Record::point(Kind::EVENT, name, track, one.start, (ValueType::None, 0))
            }
        };
        let link = |id| Link { id: full_id(id), track: 0, role: LinkRole::Request };
        let links: Vec<Link> = one.id().into_iter().map(link).collect();
        writer.event(Record { depth: one.depth, ..record }, &[], &links).unwrap();
    }
    writer.finish().unwrap();
    file
}

fn analyze(arguments: &[&str], file: &NamedTempFile) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_analyze"));
    let output = command.args(arguments).arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// How long the union of these is.
fn union(mut times: Vec<(u64, u64)>) -> u64 {
    times.sort_unstable();
    let mut reached = 0;
    let mut sum = 0;
    for (start, end) in times {
        sum += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_and_what_was_done_for_them_are_those_that_a_look_at_all_scopes_finds(
        all in records(),
    ) {
        let file = written(&all);
        let mut expected: BTreeMap<String, Vec<&One>> = BTreeMap::new();
        for one in &all {
            if let Some(id) = one.request(&all) {
                expected.entry(format!("{:032x}", full_id(id))).or_default().push(one);
            }
        }
        let said = analyze(&["requests", "--format", "json"], &file);
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
        let rows = said["rows"].as_array().unwrap();
        prop_assert_eq!(rows.len(), expected.len());
        let first = all.iter().map(|it| it.start).min().unwrap();
        for row in rows {
            let id = row["request"].as_str().unwrap();
            let of = &expected[id];
            let number = |key: &str| row[key].as_u64().unwrap();
            let scopes: Vec<&&One> = of.iter().filter(|it| it.is_scope()).collect();
            let busy = |track| {
                let on_it = scopes.iter().filter(|it| it.track == track);
                union(on_it.map(|it| (it.start, it.end())).collect())
            };
            let begun = of.iter().map(|it| it.start).min().unwrap();
            let ended = of.iter().map(|it| it.end()).max().unwrap();
            let threads = (0..TRACKS).filter(|&at| of.iter().any(|it| it.track == at)).count();
            prop_assert_eq!(number("start_ns"), begun - first);
            prop_assert_eq!(number("wall_ns"), ended - begun);
            prop_assert_eq!(number("busy_ns"), (0..TRACKS).map(busy).sum::<u64>());
            prop_assert_eq!(number("threads"), threads as u64);
            prop_assert_eq!(number("scopes"), scopes.len() as u64);
            prop_assert_eq!(number("events"), (of.len() - scopes.len()) as u64);

            let lines = analyze(&["export", "--to", "jsonl", "--request", &id[..4]], &file);
            let lines = String::from_utf8(lines).unwrap();
            let mut kept: Vec<String> = lines
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
                .map(|line| line["name"].as_str().unwrap().to_owned())
                .collect();
            kept.sort();
            let is_its = |it: &One| it.request(&all).map(full_id) == u128::from_str_radix(id, 16).ok();
            let mut its: Vec<String> = (0..all.len())
                .filter(|&at| is_its(&all[at]))
                .map(|at| format!("r{at}"))
                .collect();
            its.sort();
            prop_assert_eq!(kept, its);
        }
    }
}
