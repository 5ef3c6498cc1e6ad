//! Self time is exact, however a trace is cut into chunks and pieces.

use proptest::prelude::*;
use ringscope_analyzer::{
    budget::Budget,
    filter::Filter,
    load::Traces,
    summary::{Answer, Key, Question},
};
use ringscope_format::{Kind, Record, TraceWriter, TrackKind};

use crate::{
    making::header,
    nested_traces::{Made, NAMES, Step, make, steps, sums},
};

fn by_name(traces: &Traces) -> Answer {
    let loaded = &traces.list[0];
    let ids = 0..=loaded.name_of.len() as u32;
    let question = Question {
        traces,
        sieves: Filter::default().sieves(traces, Budget::default()).unwrap(),
        kinds: Kind::is_timed,
        key: Key::Name,
        group_of: vec![ids.map(|id| loaded.name_index(id)).collect()],
        groups: traces.names.len(),
        percentiles: Vec::new(),
        self_time: true,
        top: None,
        bounds_ns: Vec::new(),
    };
    question.answer().unwrap()
}

fn check(made: &Made, chunks_in_a_piece: usize) -> Result<(), TestCaseError> {
    let mut traces = Traces::open(&[made.file.path().to_owned()]).unwrap();
    traces.chunks_in_a_piece = chunks_in_a_piece;
    let answer = by_name(&traces);
    let naive = sums(made, |_, span| span.name);
    for name in 0..NAMES {
        let text = format!("n{name}");
        let at = traces.names.iter().position(|it| *it == text).unwrap();
        let group = &answer.groups[at];
        let (count, total, own) = naive.get(&name).copied().unwrap_or_default();
        let found = (group.count, group.total_ns, group.self_ns);
        prop_assert_eq!(found, (count, total as f64, Some(own as f64)), "{}", text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn self_time_is_that_of_the_spans_as_made(
        steps in steps(150),
        loses in any::<bool>(),
        chunks_in_a_piece in 1_usize..4,
    ) {
        check(&make(&steps, loses), chunks_in_a_piece)?;
    }
}

#[test]
fn spans_whose_parents_were_lost_belong_to_the_ancestor_of_their_own_time() {
    // Two rounds under one root, in pieces before the root's; the middle spans
    // are lost, so that orphans of one depth have and have not a parent.
    let mut steps = vec![(0, 5, Step::Open(1)), (0, 5, Step::Open(2))];
    steps.push((0, 5, Step::Close { spans: 1, lost: false }));
    steps.push((0, 5, Step::Close { spans: 1, lost: true }));
    steps.extend([(0, 5, Step::Open(0)), (0, 5, Step::Open(2))]);
    steps.push((0, 5, Step::Close { spans: 1, lost: false }));
    steps.push((0, 5, Step::NewChunk));
    steps.push((0, 5, Step::Close { spans: 1, lost: false }));
    check(&make(&steps, true), 1).unwrap();
}

#[test]
fn durations_that_64_bits_cannot_add_up_neither_panic_nor_wrap() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::new(file.reopen().unwrap(), header()).unwrap();
    let (name, track) = (writer.name("n0"), writer.track(TrackKind::Thread, 1, "t0"));
    for depth in [1, 1, 1, 0] {
        let mut span = Record::timed(Kind::SPAN, name, track, 100, i64::MAX as u64);
        span.depth = depth;
        if depth == 0 {
            writer.end_chunk().unwrap();
        }
        writer.event(span, &[], &[]).unwrap();
    }
    writer.finish().unwrap();
    let mut traces = Traces::open(&[file.path().to_owned()]).unwrap();
    traces.chunks_in_a_piece = 1;
    let group = by_name(&traces).groups.pop().unwrap();
    assert_eq!((group.count, group.self_ns), (4, Some(i64::MAX as f64)));
}
