//! `slow` finds the longest and tells what was around them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{
    inference_trace::inference,
    nested_traces::{make, run, steps},
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_longest_come_with_ancestry_children_and_neighbours(steps in steps(100)) {
        let made = make(&steps, true);
        let document = made.analyze(&["slow", "--limit", "4", "--name", "n[0-2]"]);
        let rows = document["rows"].as_array().unwrap();
        let mut all: Vec<usize> =
            made.stored().filter(|(_, span)| span.name < 3).map(|(at, _)| at).collect();
        all.sort_by_key(|&at| {
            let span = &made.spans[at];
            (std::cmp::Reverse(span.duration()), span.start, span.track)
        });
        prop_assert_eq!(rows.len(), all.len().min(4));
        let children_ns = made.children_ns();
        let first = made.stored().map(|(_, span)| span.start).min().unwrap_or(0);
        for (row, &at) in rows.iter().zip(&all) {
            let span = &made.spans[at];
            prop_assert_eq!(row["duration_ns"].as_u64(), Some(span.duration()));
            prop_assert_eq!(row["start_ns"].as_u64(), Some(span.start - first));
            prop_assert_eq!(row["self_ns"].as_u64(), Some(span.duration() - children_ns[at]));
            let ancestry: Vec<(String, u64)> = row["ancestry"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| (it["name"].as_str().unwrap().to_owned(), it["into_ns"].as_u64().unwrap()))
                .collect();
            let mut above: Vec<(String, u64)> =
                std::iter::successors(span.parent, |&at| made.spans[at].parent)
                    .map(|it| &made.spans[it])
                    .map(|it| (format!("n{}", it.name), span.start - it.start))
                    .collect();
            above.reverse();
            prop_assert_eq!(ancestry, above);

            let mut children: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            let mut beside: BTreeMap<String, i64> = BTreeMap::new();
            for (_, it) in made.stored() {
                if it.parent == Some(at) {
                    let sum = children.entry(format!("n{}", it.name)).or_default();
                    *sum = (sum.0 + 1, sum.1 + it.duration());
                }
                let overlap =
                    it.end.min(span.end).saturating_sub(it.start.max(span.start)) as i64;
                if it.track != span.track && overlap > 0 {
                    *beside.entry(format!("n{}", it.name)).or_default() += overlap;
                    if let Some(parent) = it.parent {
                        let name = format!("n{}", made.spans[parent].name);
                        *beside.entry(name).or_default() -= overlap;
                    }
                }
            }
            beside.retain(|_, ns| *ns > 0);
            let found: BTreeMap<String, (u64, u64)> = row["children"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| {
                    let sum = (it["count"].as_u64().unwrap(), it["total_ns"].as_u64().unwrap());
                    (it["name"].as_str().unwrap().to_owned(), sum)
                })
                .collect();
            prop_assert_eq!(found, children);
            let found: BTreeMap<String, i64> = row["beside"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| (it["name"].as_str().unwrap().to_owned(), it["self_ns"].as_i64().unwrap()))
                .collect();
            prop_assert_eq!(found, beside);
        }
    }
}

#[test]
fn people_see_what_it_ran_in_and_beside() {
    let file = inference(0);
    let path = file.path().to_str().unwrap();
    let text = String::from_utf8(run(&["slow", "--limit", "1", path]).stdout).unwrap();
    let expected = "\
Slowest
  1. 1.01 ms  step  on main, at 11.63 ms
       of it     forward 1.00 ms, sample 8.17 us; itself 2.83 us
       fields    tokens = 145, model = \"tiny\"
       beside    encode 200.00 us
       devices   sdpa 733.60 us
";
    assert_eq!(text, expected);
    let command = ["slow", "--limit", "1", "--name", "sdpa", path];
    let text = String::from_utf8(run(&command).stdout).unwrap();
    let expected = "\
Slowest
  1. 441.70 us  sdpa  on gpu 0, at 11.86 ms, kernel
       launched  step +229.10 us > forward +227.10 us > block_3 +8.70 us > attn +8.20 us > launch +8.00 us on main
       beside    attn 441.70 us
";
    assert_eq!(text, expected);
}
