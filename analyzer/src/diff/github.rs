//! GitHub's annotations: lines that a workflow prints to be shown beside the run.
//! GitHub keeps ten of a kind for a step, so there are at most nine and one that says
//! how many more.

use std::fmt::Write;

use super::{
    junit::{describe, describe_counter},
    perf_budget::Severity,
    view::View,
};
use crate::output::shorten_middle;

const MOST: usize = 9;

pub(super) fn text(view: &View<'_>) -> String {
    let mut lines: Vec<(&str, String, String)> = Vec::new();
    let mut say =
        |level, title: &str, message: String| lines.push((level, title.to_owned(), message));
    if view.gate.exit != crate::Exit::Ok || view.gate.verdict == "regression" {
        let level = if view.gate.exit == crate::Exit::Ok { "warning" } else { "error" };
        say(level, "analyze diff", view.gate.sentence.clone());
    }
    for at in view.order() {
        let Some(finding) = view.gate.finding(at) else { continue };
        let level = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Ignore => "notice",
        };
        say(level, &view.short_label(at), describe(view, at));
    }
    for (at, ruling) in &view.gate.counters {
        let level = match ruling.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Ignore => "notice",
        };
        let counter = &view.counters[*at];
        let title = shorten_middle(counter.name, 100);
        say(level, &title, describe_counter(counter));
    }
    for remark in view.remarks.iter().filter(|it| it.is_warning) {
        say("warning", remark.key, remark.text.clone());
    }
    if lines.is_empty() {
        lines.push(("notice", "analyze diff".to_owned(), view.gate.sentence.clone()));
    }
    let rank = |level: &str| ["error", "warning", "notice"].iter().position(|it| *it == level);
    lines.sort_by_key(|(level, ..)| rank(level));
    let mut out = String::new();
    for (level, title, message) in lines.iter().take(MOST) {
        let _ = writeln!(out, "::{level} title={}::{}", property(title), data(message));
    }
    if lines.len() > MOST {
        let _ = writeln!(out, "::notice title=analyze diff::{} more", lines.len() - MOST);
    }
    out
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_the_command() {
        assert_eq!(property("a::b, 5 %\n"), "a%3A%3Ab%2C 5 %25%0A");
    }
}
