//! `threads` knows what each track did with its time.

use proptest::prelude::*;
use serde_json::Value;

use crate::{
    analyze::analyze,
    inference_trace::inference,
    making,
    nested_traces::{Made, Span, make, run, steps},
};

/// Busy time and longest gap of some spans, tick by tick between their edges.
fn union(spans: &[&Span]) -> (u64, u64) {
    let mut edges: Vec<u64> = spans.iter().flat_map(|span| [span.start, span.end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let (mut busy, mut gap, mut longest) = (0, 0, 0);
    for pair in edges.windows(2) {
        let is_inside = |span: &&&Span| span.start <= pair[0] && pair[1] <= span.end;
        if spans.iter().any(|span| is_inside(&span)) {
            busy += pair[1] - pair[0];
            gap = 0;
        } else {
            // A span without a duration ends a gap and begins another.
            let is_edge = spans.iter().any(|span| span.start == pair[0] && span.end == pair[0]);
            gap = if is_edge { 0 } else { gap } + pair[1] - pair[0];
            longest = longest.max(gap);
        }
    }
    (busy, longest)
}

fn check(made: &Made, rows: &[Value], counts: impl Fn(&Span) -> bool) -> Result<(), TestCaseError> {
    let mut seen = 0;
    for track in 0..crate::nested_traces::TRACKS {
        let spans: Vec<&Span> = made
            .stored()
            .map(|(_, span)| span)
            .filter(|span| span.track == track && counts(span))
            .collect();
        let row = rows.iter().find(|row| row["track"] == format!("t{track}"));
        prop_assert_eq!(row.is_some(), !spans.is_empty());
        let Some(row) = row else { continue };
        seen += 1;
        let (busy, gap) = union(&spans);
        prop_assert_eq!(row["busy_ns"].as_u64(), Some(busy));
        prop_assert_eq!(row["longest_gap_ns"].as_u64().unwrap_or(0), gap);
        prop_assert_eq!(row["spans"].as_u64(), Some(spans.len() as u64));
        let first = spans.iter().map(|span| span.start).min().unwrap();
        let last = spans.iter().map(|span| span.end).max().unwrap();
        prop_assert_eq!(row["life_ns"].as_u64(), Some(last - first));
    }
    prop_assert_eq!(seen, rows.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn busy_time_is_that_of_the_spans_as_made(steps in steps(120), loses in any::<bool>()) {
        let made = make(&steps, loses);
        let document = made.analyze(&["threads"]);
        check(&made, document["rows"].as_array().unwrap(), |_| true)?;
        let children = made.children_ns();
        for row in document["rows"].as_array().unwrap() {
            let mut own = [0; crate::nested_traces::NAMES as usize];
            for (at, span) in made.stored() {
                if row["track"] == format!("t{}", span.track) {
                    own[usize::from(span.name)] += span.duration() - children[at];
                }
            }
            let most = own.iter().max().copied().filter(|&most| most > 0);
            prop_assert_eq!(row["top_self_ns"].as_u64(), most);
        }
    }

    #[test]
    fn with_a_filter_only_what_is_in_counts(steps in steps(120)) {
        let made = make(&steps, true);
        let document = made.analyze(&["threads", "--name", "n1"]);
        check(&made, document["rows"].as_array().unwrap(), |span| span.name == 1)?;
    }

    #[test]
    fn stragglers_are_those_of_a_naive_account(
        ranks in prop::collection::vec(prop::collection::vec((0..4_usize, 0..1_000_u64), 0..12), 2..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut totals = vec![[None; 4]; ranks.len()];
        let mut arguments: Vec<String> = ["threads", "--format", "json"].map(str::to_owned).into();
        for (rank, spans) in ranks.iter().enumerate() {
            let label = format!("rank{rank}.trace");
            making::trace(&dir.path().join(&label), |writer| {
                let track = writer.track(making::THREAD, 1, "t");
                for (at, &(name, length)) in spans.iter().enumerate() {
                    *totals[rank][name].get_or_insert(0) += length;
                    let name = writer.name(&format!("n{name}"));
                    let span = making::span(name, track, at as u64 * 1_000, length);
                    writer.event(span, &[], &[]).unwrap();
                }
            });
            arguments.push(label);
        }
        let document = analyze(dir.path(), &arguments).json();
        let rows = document["sections"]["stragglers"].as_array().unwrap();
        let mut compared = 0;
        for name in [0, 1, 2, 3] {
            let of_rank = |rank: usize| totals[rank][name];
            let mut known: Vec<u64> = (0..ranks.len()).filter_map(of_rank).collect();
            known.sort_unstable();
            let row = rows.iter().find(|row| row["name"] == format!("n{name}"));
            prop_assert_eq!(row.is_some(), known.len() >= 2);
            let Some(row) = row else { continue };
            compared += 1;
            let middle = known.len() / 2;
            let median = (known[(known.len() - 1) / 2] + known[middle]) as f64 / 2.0;
            let most = *known.last().unwrap();
            prop_assert_eq!(row["median_total_ns"].as_f64(), Some(median));
            prop_assert_eq!(row["slowest_total_ns"].as_u64(), Some(most));
            prop_assert_eq!(row["excess_ns"].as_f64(), Some(most as f64 - median));
            prop_assert_eq!(row["traces"].as_u64(), Some(known.len() as u64));
            for rank in 0..ranks.len() {
                prop_assert_eq!(row[format!("total_ns:rank{rank}.trace")].as_u64(), of_rank(rank));
            }
            let slowest = (0..ranks.len()).find(|&rank| of_rank(rank) == Some(most)).unwrap();
            let named = (most as f64 > median).then(|| format!("rank{slowest}.trace"));
            prop_assert_eq!(row["slowest_trace"].as_str(), named.as_deref());
        }
        prop_assert_eq!(rows.len(), compared);
    }
}

#[test]
fn people_see_each_thread_and_its_loss() {
    let file = inference(0);
    let output = run(&["threads", file.path().to_str().unwrap()]);
    let expected = "\
Threads
  thread     kind    spans      busy  % of life  % of trace      first      last  longest gap  lost  most self time in
  main       thread    700  13.37 ms       95.9        95.9    0.00 ns  13.94 ms     30.00 us     0  attn
  gpu 0      queue       0   7.75 ms       55.8        55.6   10.70 us  13.90 ms     79.10 us     0  sdpa
  tokenizer  thread     20   4.00 ms       29.5        28.7  341.80 us  13.88 ms    844.40 us    12  encode
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn of_several_traces_the_one_that_is_behind_is_named() {
    let ranks: Vec<_> = [0, 30, 5].into_iter().map(inference).collect();
    let paths: Vec<&str> = ranks.iter().map(|file| file.path().to_str().unwrap()).collect();
    for command in [&["threads"][..], &["spans", "--by", "trace"]] {
        let mut all = command.to_vec();
        all.extend(["--format", "json"]);
        all.extend(&paths);
        let document: Value = serde_json::from_slice(&run(&all).stdout).unwrap();
        let stragglers = document["sections"]["stragglers"].as_array().unwrap();
        let attn = stragglers.iter().find(|row| row["name"] == "attn").unwrap();
        let slowest = ranks[1].path().file_name().unwrap().to_str().unwrap();
        assert_eq!(attn["slowest_trace"], slowest);
        let total = |rank: usize| {
            let label = ranks[rank].path().file_name().unwrap().to_str().unwrap();
            attn[format!("total_ns:{label}")].as_f64().unwrap()
        };
        assert_eq!(attn["median_total_ns"].as_f64().unwrap(), total(2));
        assert_eq!(attn["excess_ns"].as_f64().unwrap(), total(1) - total(2));
        let mlp = stragglers.iter().find(|row| row["name"] == "mlp").unwrap();
        assert_eq!((&mlp["slowest_trace"], mlp["excess_ns"].as_f64()), (&Value::Null, Some(0.0)));
    }
}
