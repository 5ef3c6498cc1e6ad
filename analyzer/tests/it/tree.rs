//! `tree` finds every path, and what is on it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use crate::{
    inference_trace::inference,
    nested_traces::{Made, make, percentile, run, steps, sums},
};

fn check(made: &Made) -> Result<(), TestCaseError> {
    let document = made.analyze(&["tree", "--percentiles", "50,99.9"]);
    prop_assert_eq!(&document["schema"], "ringscope.tree/1");
    let naive = sums(made, |at, _| made.path(at));
    let mut durations: BTreeMap<Vec<String>, Vec<u64>> = BTreeMap::new();
    for (at, span) in made.stored() {
        durations.entry(made.path(at)).or_default().push(span.duration());
    }
    let rows = document["rows"].as_array().unwrap();
    prop_assert_eq!(rows.len(), naive.len());
    for row in rows {
        let path: Vec<String> = serde_json::from_value(row["path"].clone()).unwrap();
        let (count, total, own) = naive[&path];
        let found = (&row["count"], &row["total_ns"], &row["self_ns"], &row["depth"]);
        let made = (count.into(), total.into(), own.into(), (path.len() - 1).into());
        let made: (&Value, &Value, &Value, &Value) = (&made.0, &made.1, &made.2, &made.3);
        prop_assert_eq!(found, made, "{:?}", &path);
        prop_assert_eq!(&row["name"], path.last().unwrap().as_str());
        let durations = durations.get_mut(&path).unwrap();
        for (key, wanted) in [("p50_ns", 50.0), ("p99.9_ns", 99.9)] {
            let exact = percentile(durations, wanted);
            prop_assert!((row[key].as_f64().unwrap() - exact).abs() < 1e-6, "{} {:?}", key, &path);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn paths_counts_totals_and_self_times_are_those_of_the_spans_as_made(
        steps in steps(100),
        loses in any::<bool>(),
    ) {
        check(&make(&steps, loses))?;
    }

    #[test]
    fn tracks_are_kept_apart_when_asked_for(steps in steps(80)) {
        let made = make(&steps, true);
        let document = made.analyze(&["tree", "--by", "track"]);
        let naive = sums(&made, |at, span| (format!("t{}", span.track), made.path(at)));
        let rows = document["rows"].as_array().unwrap();
        prop_assert_eq!(rows.len(), naive.len());
        for row in rows {
            let path: Vec<String> = serde_json::from_value(row["path"].clone()).unwrap();
            let sum = naive[&(row["track"].as_str().unwrap().to_owned(), path)];
            let found = (row["count"].as_u64(), row["total_ns"].as_u64(), row["self_ns"].as_u64());
            prop_assert_eq!(found, (Some(sum.0), Some(sum.1), Some(sum.2)));
        }
    }

    #[test]
    fn collapsed_rows_add_up_their_members(steps in steps(100)) {
        let made = make(&steps, true);
        let document = made.analyze(&["tree", "--collapse", "--percentiles", "50"]);
        let mut by_depth: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (at, span) in made.stored() {
            by_depth.entry(made.path(at).len() - 1).or_default().push(span.duration());
        }
        // All names differ only in a number, so a row is left for each depth.
        let rows = document["rows"].as_array().unwrap();
        prop_assert_eq!(rows.len(), by_depth.len());
        for row in rows {
            let all = by_depth.get_mut(&(row["depth"].as_u64().unwrap() as usize)).unwrap();
            prop_assert_eq!(row["count"].as_u64(), Some(all.len() as u64));
            prop_assert_eq!(row["total_ns"].as_u64(), Some(all.iter().sum()));
            let exact = percentile(all, 50.0);
            prop_assert!((row["p50_ns"].as_f64().unwrap() - exact).abs() < 1e-6);
        }
    }
}

fn people(arguments: &[&str]) -> String {
    let file = inference(0);
    let path = file.path().to_str().unwrap();
    let mut all = arguments.to_vec();
    all.push(path);
    String::from_utf8(run(&all).stdout).unwrap()
}

#[test]
fn people_see_blocks_as_one_row_with_their_spread() {
    let expected = "\
Tree
  name                  total     %       self  count       mean        p50        p95        p99
  step               13.37 ms  77.0   58.10 us     20  668.40 us  610.00 us    1.01 ms    1.01 ms
    forward          13.15 ms  75.7   20.00 us     20  657.40 us  599.00 us  998.08 us    1.00 ms
      block_{0..7}   13.13 ms  75.6  144.00 us    160   82.05 us   74.65 us   78.50 us  473.69 us
        attn          9.22 ms  53.1    8.74 ms    160   57.65 us   50.20 us   51.10 us  449.79 us
          launch    480.00 us   2.8  480.00 us    160    3.00 us    3.00 us    3.00 us    3.00 us
        mlp           3.76 ms  21.6    3.76 ms    160   23.50 us   23.50 us   27.00 us   27.00 us
    sample          161.90 us   0.9  161.90 us     20    8.10 us    8.10 us    8.18 us    8.19 us
  encode              4.00 ms  23.0    4.00 ms     20  200.00 us  200.00 us  200.00 us  200.00 us
  block_{0..7}: 8 of them, 1.42 ms (block_0) to 2.68 ms (block_3)
  % is of all outermost spans together, 17.37 ms
";
    assert_eq!(people(&["tree"]), expected);
}

#[test]
fn what_is_hidden_is_told_and_adds_up() {
    let text =
        people(&["tree", "--min-percent", "3", "--depth", "2", "--columns", "name,total_ns"]);
    let expected = "\
Tree
  name          total
  step       13.37 ms
    forward  13.15 ms
  encode      4.00 ms
  % is of all outermost spans together, 17.37 ms
  1 small branches hidden, 161.90 us together (0.9 %)
  3 deeper rows: --depth
";
    assert_eq!(text, expected);
    let text = people(&["tree", "--limit", "2", "--columns", "name"]);
    assert!(text.starts_with("Tree\n  name\n  step\n    forward\n  %"), "{text}");
    assert!(text.ends_with("  … 6 smaller rows: --limit 0\n"), "{text}");
}

#[test]
fn filtered_spans_keep_their_place_and_an_empty_tree_says_so() {
    let text = people(&["tree", "--name", "attn", "--columns", "name,count"]);
    let expected = "\
Tree
  name              count
  step
    forward
      block_{0..7}
        attn          160
  % is of all outermost spans together, 9.22 ms
";
    assert_eq!(text, expected);
    let text = people(&["tree", "--name", "nothing"]);
    assert_eq!(
        text,
        "Tree\n  no spans here that nest, or none that pass the filters; `span!` records them\n"
    );
    let flat = people(&["tree", "--sort", "-self_ns", "--limit", "1", "--columns", "name"]);
    assert!(flat.contains("\n  step > forward > block_{0..7} > attn\n"), "{flat}");
}
