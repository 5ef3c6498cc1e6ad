//! JUnit's XML: a test case for each name, for whatever shows test results.

use std::fmt::Write;

use super::{
    decision::Verdict,
    perf_budget::Severity,
    view::{View, ratio},
};

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
    if let Some(by) = view.gate.common {
        failures += 1;
        case("diff", "(everything)", "failure", &format!("{:.1} % slower", 100.0 * by));
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
    let time = |ns: f64| crate::report::about::in_words(ns);
    let because =
        finding.and_then(|it| it.because.as_ref()).map_or_else(String::new, |it| format!("; {it}"));
    format!(
        "{} {:.1} % slower: {} to {}, 95 % interval {} to {}{because}",
        view.decision.metrics[test.metric],
        100.0 * test.own.exp_m1(),
        time(test.base),
        time(test.head),
        ratio(test.interval.0),
        ratio(test.interval.1),
    )
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
