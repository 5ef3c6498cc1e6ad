//! Where the runs of both sides come from, as far as they say: machines, builds and
//! command lines that differ, builds that do not, and runs that are on both sides.
//!
//! Builds differ as a rule, since that is what is compared. Machines must not:
//! another machine reads as a change of the code, and no test can tell the two apart.

use std::collections::BTreeSet;

use globset::GlobSet;

use super::run_summary::{NameSummary, RunSummary};

/// Something about which the sides do not agree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// For people.
    pub(super) text: String,
    /// Whether it is about the machine.
    pub(super) is_machine: bool,
}

/// What the sides say and do not agree on, but for the keys that may differ.
pub(super) fn differences(
    base: &[&RunSummary],
    head: &[&RunSummary],
    may_differ: &GlobSet,
) -> Vec<Difference> {
    let all = || base.iter().chain(head);
    let keys: BTreeSet<&String> = all().flat_map(|run| run.metadata.keys()).collect();
    let mut found = Vec::new();
    for key in keys.into_iter().filter(|key| !may_differ.is_match(key)) {
        let (base, head) = (values(base, key), values(head, key));
        let is_machine = key.starts_with("host.") || key.starts_with("device.");
        // What differs from run to run anyway, such as a seed, tells nothing.
        let varies = |side: &Values| side.len() > 1;
        if base == head || (!is_machine && (varies(&base) || varies(&head))) {
            continue;
        }
        let what = if is_machine { "machine" } else { "build or run" };
        let said = format!(
            "{what} differs: {key} is {} in base, {} in head",
            in_words(&base),
            in_words(&head)
        );
        let remedy = if is_machine {
            format!("; if they can be compared nonetheless: --may-differ '{key}'")
        } else {
            String::new()
        };
        found.push(Difference { text: said + &remedy, is_machine });
    }
    found
}

type Values = BTreeSet<Option<String>>;

/// What the runs of a side say about a key.
fn values(side: &[&RunSummary], key: &str) -> Values {
    let value = |run: &&RunSummary| {
        let value = run.metadata.get(key)?;
        Some(if key == COMMAND { arguments(value, &run.label) } else { value.clone() })
    };
    side.iter().map(value).collect()
}

fn in_words(side: &Values) -> String {
    let each = side.iter().map(|it| match it.as_deref() {
        None => "not said",
        Some("") => "empty",
        Some(text) => text,
    });
    each.collect::<Vec<_>>().join(" or ")
}

const COMMAND: &str = "process.command";

/// A command line without the program's place and the trace that it writes, which
/// differ between any two builds and any two runs.
fn arguments(command: &str, label: &str) -> String {
    let words = command.split_whitespace().skip(1);
    words.filter(|word| !word.ends_with(label)).collect::<Vec<_>>().join(" ")
}

/// Keys of metadata that name a state of the code.
const STATES_OF_CODE: [&str; 3] = ["build.commit", "build.id", "commit"];

/// Says so if both sides are of the same state of the code.
pub(super) fn same_build(base: &[&RunSummary], head: &[&RunSummary]) -> Option<String> {
    STATES_OF_CODE.iter().find_map(|&key| {
        let (base, head) = (values(base, key), values(head, key));
        let mut all = base.union(&head);
        match (all.next(), all.next()) {
            (Some(Some(state)), None) => {
                Some(format!("{key} is {state} on both sides: the code is the same"))
            }
            _ => None,
        }
    })
}

/// Two runs that are one: the same calls, begun at the same nanosecond.
pub(super) fn is_same_run(a: &RunSummary, b: &RunSummary) -> bool {
    // Sums that went through a file may have lost their last digit.
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    let same_calls = |(a, b): (&NameSummary, &NameSummary)| {
        a.name == b.name && a.count == b.count && near(a.total_ns, b.total_ns)
    };
    a.begun_unix_ns.is_some()
        && a.begun_unix_ns == b.begun_unix_ns
        && a.names.len() == b.names.len()
        && a.names.iter().zip(&b.names).all(same_calls)
}

/// A run of the base that is a run of the head, too.
pub(super) fn on_both_sides<'a>(
    base: &[&'a RunSummary],
    head: &[&'a RunSummary],
) -> Option<(&'a RunSummary, &'a RunSummary)> {
    base.iter().find_map(|&a| head.iter().find(|b| is_same_run(a, b)).map(|&b| (a, b)))
}

#[cfg(test)]
mod tests {
    use globset::Glob;

    use super::*;

    fn run(label: &str, pairs: &[(&str, &str)]) -> RunSummary {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        RunSummary {
            label: label.to_owned(),
            metadata: pairs.iter().map(pair).collect(),
            ..RunSummary::default()
        }
    }

    fn texts(found: Vec<Difference>) -> Vec<String> {
        found.into_iter().map(|it| it.text).collect()
    }

    #[test]
    fn other_machines_and_builds_are_said_and_what_varies_anyway_is_not() {
        let a = run("a", &[("host.cpus", "2"), ("seed", "1"), ("commit", "aa")]);
        let b = run("b", &[("host.cpus", "2"), ("seed", "2"), ("commit", "aa")]);
        let c = run("c", &[("host.cpus", "8"), ("seed", "3"), ("commit", "bb")]);
        let found = differences(&[&a, &b], &[&c], &GlobSet::empty());
        assert_eq!(found.iter().map(|it| it.is_machine).collect::<Vec<_>>(), [false, true]);
        assert_eq!(
            texts(found),
            [
                "build or run differs: commit is aa in base, bb in head",
                "machine differs: host.cpus is 2 in base, 8 in head; if they can be compared \
                 nonetheless: --may-differ 'host.cpus'"
            ]
        );
        let hosts = GlobSet::new([Glob::new("host.*").unwrap()]).unwrap();
        assert_eq!(differences(&[&a, &b], &[&c], &hosts).len(), 1);
        assert_eq!(same_build(&[&a, &b], &[&c]), None);
        let same = same_build(&[&a], &[&b]);
        assert_eq!(same.as_deref(), Some("commit is aa on both sides: the code is the same"));
    }

    #[test]
    fn command_lines_are_compared_without_program_and_trace() {
        let a = run("b1.trace", &[(COMMAND, "base/app --batch 8 --trace out/b1.trace")]);
        let b = run("h1.trace", &[(COMMAND, "head/app --batch 8 --trace out/h1.trace")]);
        let c = run("h1.trace", &[(COMMAND, "head/app --batch 9 --trace out/h1.trace")]);
        assert!(differences(&[&a], &[&b], &GlobSet::empty()).is_empty());
        let found = texts(differences(&[&a], &[&c], &GlobSet::empty()));
        assert_eq!(
            found,
            ["build or run differs: process.command is --batch 8 --trace in base, \
                 --batch 9 --trace in head"]
        );
    }

    #[test]
    fn a_run_is_known_by_when_it_began_and_what_it_did() {
        let at = |begun| RunSummary { begun_unix_ns: begun, ..run("a", &[]) };
        assert!(is_same_run(&at(Some(7)), &RunSummary { label: "b".to_owned(), ..at(Some(7)) }));
        assert!(!is_same_run(&at(Some(7)), &at(Some(8))) && !is_same_run(&at(None), &at(None)));
    }
}
