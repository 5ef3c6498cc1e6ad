//! JUnit's XML: a test case for each name, for whatever shows test results.

use std::fmt::Write;

use super::{
    counters::JudgedCounter,
    decision::Verdict,
    gate::everything,
    perf_budget::Severity,
    run_summary::Metric,
    view::{View, ratio},
};
use crate::output::count;

pub(super) fn text(view: &View<'_>) -> String {
    let mut cases = String::new();
    let (mut failures, mut errors, mut skipped, mut tests) = (0, 0, 0, 0);
    let mut case = |class: &str, name: &str, element: &str, message: &str| {
        tests += 1;
        let open =
            format!("  <testcase classname=\"{}\" name=\"{}\"", escaped(class), escaped(name));
        let _ = if element.is_empty() {
            writeln!(cases, "{open}/>")
        } else {
            writeln!(
                cases,
                "{open}>\n    <{element} message=\"{}\"/>\n  </testcase>",
                escaped(message)
            )
        };
    };
    let undecided = view.gate.verdict == "undecided";
    if undecided {
        errors += 1;
        case("diff", "(runs)", "error", &view.gate.sentence);
    }
    if let Some(common) = view.gate.common {
        failures += 1;
        case("diff", "(everything)", "failure", &everything(common));
    }
    for (at, counter) in view.counters.iter().enumerate() {
        let ruling = view.gate.counters.iter().find(|it| it.0 == at).map(|it| it.1.severity);
        if ruling == Some(Severity::Error) {
            failures += 1;
            case("counter", counter.name, "failure", &describe_counter(counter));
        }
    }
    for at in view.order() {
        let judged = &view.decision.names[at];
        let class = judged.name.what.to_string();
        let severity = view.gate.finding(at).map(|it| it.severity);
        let (element, message) = match judged.verdict {
            Verdict::Regression if severity == Some(Severity::Error) => {
                failures += 1;
                ("failure", describe(view, at))
            }
            Verdict::Inconclusive | Verdict::InsufficientData => {
                skipped += 1;
                ("skipped", view.verdict(at))
            }
            _ => ("", String::new()),
        };
        case(&class, &view.label(at), element, &message);
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"analyze diff\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" \
         skipped=\"{skipped}\">\n{cases}</testsuite>\n"
    )
}

/// A regression in a sentence.
pub(super) fn describe(view: &View<'_>, at: usize) -> String {
    let finding = view.gate.finding(at);
    let judged = &view.decision.names[at];
    let Some(test) = finding.and_then(|it| judged.tests.get(it.test)) else {
        return view.verdict(at);
    };
    let metric = view.decision.metrics[test.metric];
    let (value, how): (fn(f64) -> String, _) = match metric {
        Metric::Count => (|n| count(n.round() as u64), "more"),
        _ => (crate::report::about::in_words, "slower"),
    };
    let because =
        finding.and_then(|it| it.because.as_ref()).map_or_else(String::new, |it| format!("; {it}"));
    format!(
        "{metric} {:.1} % {how}: {} to {}, 95 % interval {} to {}{because}",
        100.0 * test.own.exp_m1(),
        value(test.base),
        value(test.head),
        ratio(test.interval.0),
        ratio(test.interval.1),
    )
}

/// A counter of which there is more, in a sentence.
pub(super) fn describe_counter(counter: &JudgedCounter<'_>) -> String {
    let figure = counter.figure.key();
    let side = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |it| it.to_string());
    let sides = format!("{} to {}", side(counter.base), side(counter.head));
    match counter.change {
        Some((change, (low, high))) => format!(
            "{figure} {:.1} % more: {sides}, 95 % interval {} to {}",
            100.0 * change.exp_m1(),
            ratio(low),
            ratio(high)
        ),
        None => format!("{figure}: {sides}"),
    }
}

/// Text as XML takes it; what XML has no place for is left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c < ' ' || c == '\u{fffe}' || c == '\u{ffff}' => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_an_attribute() {
        assert_eq!(escaped("a<b>\"&\u{1}\n"), "a&lt;b&gt;&quot;&amp; ");
    }
}
