//! `hist` counts exactly, whatever its buckets are.

use std::process::Command;

use proptest::prelude::*;

use crate::{
    inference_trace::inference,
    nested_traces::{make, run, steps},
};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_duration_is_in_the_bucket_that_holds_it(
        steps in steps(100),
        linear in any::<bool>(),
        buckets in prop::option::of(1_usize..40),
    ) {
        let made = make(&steps, false);
        let number = buckets.map(|buckets| format!("--buckets={buckets}"));
        let mut command = vec!["hist", "n[12]"];
        command.extend(linear.then_some("--linear"));
        command.extend(number.as_deref());
        let document = made.analyze(&command);
        let rows = document["rows"].as_array().unwrap();
        let mut durations: Vec<f64> = made
            .stored()
            .filter(|(_, span)| matches!(span.name, 1 | 2))
            .map(|(_, span)| span.duration() as f64)
            .collect();
        durations.sort_by(f64::total_cmp);
        prop_assert_eq!(rows.is_empty(), durations.is_empty());
        let mut so_far = 0;
        for (at, row) in rows.iter().enumerate() {
            let (from, to) = (row["from_ns"].as_f64().unwrap(), row["to_ns"].as_f64().unwrap());
            let last = at + 1 == rows.len();
            let inside = |it: &&f64| **it >= from && (**it < to || last && **it <= to);
            let count = durations.iter().filter(inside).count() as u64;
            prop_assert_eq!(row["count"].as_u64(), Some(count), "{} to {}", from, to);
            so_far += count;
            if at > 0 {
                prop_assert_eq!(&rows[at - 1]["to_ns"], &row["from_ns"]);
            }
        }
        prop_assert_eq!(so_far, durations.len() as u64);
        if let Some(buckets) = buckets.filter(|_| linear && durations.first() != durations.last()) {
            prop_assert_eq!(rows.len(), buckets);
        }
    }
}

#[test]
fn people_see_bars_and_where_the_percentiles_lie() {
    let file = inference(0);
    let path = file.path().to_str().unwrap();
    let command = ["hist", "sdpa", "--buckets", "3", path];
    let expected = "\
sdpa
  160 of them, min 40.00 us, p50 41.00 us, p95 41.90 us, p99 440.59 us, max 441.70 us, mean 48.45 us, std 54.44 us

       from         to  count  cumulative %
   40.00 us   89.07 us    157          98.1  ████████████████████████████████████████  p50 p95
   89.07 us  198.35 us      0          98.1
  198.35 us  441.70 us      3         100.0  ▊                                         p99
";
    assert_eq!(String::from_utf8(run(&command).stdout).unwrap(), expected);
    let plain = Command::new(env!("CARGO_BIN_EXE_analyze"))
        .args(command)
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    assert!(plain.stdout.is_ascii());
    let nothing = run(&["hist", "nothing", path]).stdout;
    let text = String::from_utf8(nothing).unwrap();
    assert!(text.starts_with("  nothing with a duration matches \"nothing\""), "{text}");
}

#[test]
fn too_many_buckets_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_analyze"))
        .args(["hist", "a", "--buckets", "0", "x.trace"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "analyze: --buckets: give 1 to 10000\n");
}
