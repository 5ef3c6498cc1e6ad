//! The end-to-end change is split without a rest.

use proptest::prelude::*;
use ringscope_analyzer::diff::{NameSummary, Rule, RunSummary, attribute, decide, split};

fn run(names: &[(u8, u16, f64, f64)]) -> RunSummary {
    let name = |&(name, count, duration, own): &(u8, u16, f64, f64)| {
        let durations = vec![duration; usize::from(count)];
        let mut summary = NameSummary::of_durations(&format!("n{name}"), &durations, &[50.0]);
        summary.self_ns = own * summary.total_ns;
        summary
    };
    let mut names: Vec<NameSummary> = names.iter().map(name).collect();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    names.dedup_by(|a, b| a.name == b.name);
    RunSummary { percentiles: vec![50.0], names, ..RunSummary::default() }
}

fn names() -> impl Strategy<Value = Vec<(u8, u16, f64, f64)>> {
    prop::collection::vec((0..12_u8, 1..40_u16, 1.0..1e6, 0.0..=1.0), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_of_all_names_add_up_to_the_whole_change(
        base in prop::collection::vec(names(), 1..4),
        head in prop::collection::vec(names(), 1..4),
    ) {
        let base: Vec<RunSummary> = base.iter().map(|it| run(it)).collect();
        let head: Vec<RunSummary> = head.iter().map(|it| run(it)).collect();
        let total = |runs: &[RunSummary]| {
            let own = runs.iter().flat_map(|run| &run.names).map(|it| it.self_ns);
            own.sum::<f64>() / runs.len() as f64
        };
        let (base_refs, head_refs): (Vec<_>, Vec<_>) = (base.iter().collect(), head.iter().collect());
        let decision = decide(&base_refs, &head_refs, &Rule::default());
        let all = attribute(&decision);
        let change = total(&head) - total(&base);
        let size = total(&head).max(total(&base));
        prop_assert!((all[0].change_ns() - change).abs() <= 1e-9 * size);
        let named = all[0].shares.len() + all[0].noise.0;
        prop_assert_eq!(named, decision.names.len());
    }

    #[test]
    fn both_parts_of_a_name_are_its_change(
        count in (0..1_000_u32, 0..1_000_u32),
        mean in (0.0..1e9, 0.0..1e9),
    ) {
        let count = (f64::from(count.0), f64::from(count.1));
        let total = (count.0 * mean.0, count.1 * mean.1);
        let part = split(count, total);
        let change = total.1 - total.0;
        prop_assert!((part.total_ns() - change).abs() <= 1e-9 * total.0.max(total.1).max(1.0));
    }
}

#[test]
fn calls_that_are_longer_and_calls_that_are_more_are_told_apart() {
    let longer = split((10.0, 10.0), (100.0, 150.0));
    assert_eq!((longer.by_count_ns, longer.by_call_ns), (0.0, 50.0));
    let more = split((10.0, 20.0), (100.0, 200.0));
    assert_eq!((more.by_count_ns, more.by_call_ns), (100.0, 0.0));
    let both = split((10.0, 20.0), (100.0, 400.0));
    assert_eq!((both.by_count_ns, both.by_call_ns), (150.0, 150.0));
    let new = split((0.0, 5.0), (0.0, 75.0));
    assert_eq!((new.by_count_ns, new.by_call_ns), (75.0, 0.0));
}
