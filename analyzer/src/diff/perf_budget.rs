//! `perf-budget.toml`: which regressions fail a build, and which are allowed for now.
//!
//! Of several rules that match a name and a figure, the last one counts. What no rule
//! matches is held to the usual: any sure regression fails. Figures of whole runs,
//! `total`, `count`, `sum` and `peak`, are held to nothing but the rules that ask for
//! them.

use std::{fs, path::Path};

use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use crate::{Error, Result};

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    rule: Vec<WrittenRule>,
    #[serde(default)]
    allow: Vec<WrittenAllow>,
    common: Option<WrittenCommon>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    name: String,
    metric: Option<String>,
    max_regression: Option<f64>,
    #[serde(default)]
    severity: Severity,
    #[serde(default)]
    min_share: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAllow {
    name: String,
    metric: Option<String>,
    until: toml::value::Datetime,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCommon {
    max_regression: f64,
}

/// What a regression comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// It fails.
    #[default]
    Error,
    /// It is said.
    Warning,
    /// It is left alone.
    Ignore,
}

/// Figures of a run, which only rules that name them are about.
pub(super) const OF_RUNS: [&str; 4] = ["total", "count", "sum", "peak"];

/// Which names and figures something is about.
#[derive(Debug)]
struct Pattern {
    glob: GlobMatcher,
    text: String,
    metric: Option<String>,
}

impl Pattern {
    fn matches(&self, name: &str, metric: &str) -> bool {
        let is_of_run = OF_RUNS.contains(&metric);
        let takes = self.metric.as_deref().map_or(!is_of_run, |it| it == metric);
        takes && self.glob.is_match(name)
    }

    fn describe(&self) -> String {
        match &self.metric {
            Some(metric) => format!("{:?} ({metric})", self.text),
            None => format!("{:?}", self.text),
        }
    }
}

#[derive(Debug)]
struct Limit {
    pattern: Pattern,
    max_regression: f64,
    severity: Severity,
    min_share: f64,
}

#[derive(Debug)]
struct Allowed {
    pattern: Pattern,
    until: String,
    reason: String,
}

/// What is asked of names.
#[derive(Debug, Default)]
pub(super) struct PerfBudget {
    limits: Vec<Limit>,
    allowed: Vec<Allowed>,
    /// How much slower everything may get, as a part of the whole.
    pub(super) max_common: Option<f64>,
}

/// What the budget says about one regression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ruling {
    /// What it comes to.
    pub(super) severity: Severity,
    /// Why it is not what it would be otherwise.
    pub(super) because: Option<String>,
}

impl PerfBudget {
    /// Reads a file, for the figures that are compared.
    pub(super) fn read(path: &Path, metrics: &[String]) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| Error::of(path, error))?;
        let written: Written = toml::from_str(&text).map_err(|error| {
            let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
            let line = error.span().map(|span| line(span.start));
            let line = line.map_or_else(String::new, |line| format!("line {line}: "));
            Error::of(path, format!("{line}{}", error.message().replace('\n', " ")))
        })?;
        Self::of(written, metrics).map_err(|what| Error::of(path, what))
    }

    fn of(written: Written, metrics: &[String]) -> std::result::Result<Self, String> {
        let pattern = |name: String, metric: Option<String>| {
            let glob = Glob::new(&name).map_err(|error| format!("pattern {name:?}: {error}"))?;
            let is_known = |it: &String| metrics.contains(it) || OF_RUNS.contains(&it.as_str());
            if let Some(metric) = metric.as_ref().filter(|it| !is_known(it)) {
                let known = metrics.iter().map(String::as_str).chain(OF_RUNS);
                let known = known.collect::<Vec<_>>().join(", ");
                return Err(format!("rule {name:?}: no figure {metric:?}; there are {known}"));
            }
            Ok(Pattern { glob: glob.compile_matcher(), text: name, metric })
        };
        let percent = |what: &str, value: f64, most: f64| {
            if value.is_finite() && (0.0..=most).contains(&value) {
                return Ok(value / 100.0);
            }
            Err(format!("{what}: {value} is no percentage between 0 and {most}"))
        };
        let mut budget = PerfBudget::default();
        for rule in written.rule {
            let max = percent("max_regression", rule.max_regression.unwrap_or(0.0), 1e6)?;
            let min_share = percent("min_share", rule.min_share, 100.0)?;
            budget.limits.push(Limit {
                pattern: pattern(rule.name, rule.metric)?,
                max_regression: max,
                severity: rule.severity,
                min_share,
            });
        }
        for allow in written.allow {
            let Some(date) = allow.until.date.filter(|_| allow.until.time.is_none()) else {
                return Err(format!(
                    "allow {:?}: until: give a date, such as 2030-01-31",
                    allow.name
                ));
            };
            budget.allowed.push(Allowed {
                pattern: pattern(allow.name, allow.metric)?,
                until: date.to_string(),
                reason: allow.reason,
            });
        }
        if let Some(common) = written.common {
            budget.max_common = Some(percent("common.max_regression", common.max_regression, 1e6)?);
        }
        Ok(budget)
    }

    /// What comes of a regression by so much, of a name with so large a share of the
    /// whole, on a day such as `2030-01-31`.
    pub(super) fn rule(
        &self,
        name: &str,
        metric: &str,
        by: f64,
        share: f64,
        today: &str,
    ) -> Ruling {
        let limit = self.limits.iter().rev().find(|it| it.pattern.matches(name, metric));
        let ignored =
            |because: String| Ruling { severity: Severity::Ignore, because: Some(because) };
        if let Some(limit) = limit {
            let rule = limit.pattern.describe();
            if share < limit.min_share {
                return ignored(format!("smaller than min_share of {rule}"));
            }
            if by <= limit.max_regression {
                return ignored(format!("within max_regression of {rule}"));
            }
        }
        let mut expired = None;
        for allowed in self.allowed.iter().filter(|it| it.pattern.matches(name, metric)) {
            // Dates of this form are in order as texts.
            if today <= allowed.until.as_str() {
                let reason = if allowed.reason.is_empty() {
                    String::new()
                } else {
                    format!(": {}", allowed.reason)
                };
                return ignored(format!("allowed until {}{reason}", allowed.until));
            }
            expired = Some(format!("was allowed until {}", allowed.until));
        }
        Ruling { severity: limit.map_or(Severity::Error, |it| it.severity), because: expired }
    }

    /// Whether a rule asks for this figure of a name.
    pub(super) fn asks(&self, name: &str, metric: &str) -> bool {
        self.limits.iter().any(|it| it.pattern.matches(name, metric))
    }

    /// Whether a name's figure is subject to the gate at all.
    pub(super) fn is_gated(&self, name: &str, metric: &str, share: f64) -> bool {
        let limit = self.limits.iter().rev().find(|it| it.pattern.matches(name, metric));
        limit.is_none_or(|it| it.severity == Severity::Error && share >= it.min_share)
    }

    /// Rules and permissions that match none of these names, nor any of these counters.
    pub(super) fn unmatched(&self, names: &[&str], counters: &[(&str, &str)]) -> Vec<String> {
        let patterns = self.limits.iter().map(|it| ("rule", &it.pattern));
        let patterns = patterns.chain(self.allowed.iter().map(|it| ("allow", &it.pattern)));
        let is_for_nobody = |pattern: &Pattern| {
            let mut figures = counters.iter().filter(|it| pattern.metric.as_deref() == Some(it.1));
            match pattern.metric.as_deref() {
                Some("sum" | "peak") => !figures.any(|it| pattern.glob.is_match(it.0)),
                _ => !names.iter().any(|name| pattern.glob.is_match(name)),
            }
        };
        patterns
            .filter(|(_, pattern)| is_for_nobody(pattern))
            .map(|(what, pattern)| format!("{what} {} matches no name", pattern.describe()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(text: &str) -> std::result::Result<PerfBudget, String> {
        let written = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        PerfBudget::of(written, &["p50".to_owned(), "p95".to_owned(), "mean".to_owned()])
    }

    #[test]
    fn the_last_rule_that_matches_counts() {
        let budget = budget(
            "[[rule]]\nname = \"*\"\nmax_regression = 5\n\
             [[rule]]\nname = \"load*\"\nseverity = \"warning\"\n\
             [[rule]]\nname = \"tiny\"\nmin_share = 1\n",
        )
        .unwrap();
        let severity = |name, by, share| budget.rule(name, "p50", by, share, "2026-01-01").severity;
        assert_eq!(severity("decode", 0.04, 0.5), Severity::Ignore);
        assert_eq!(severity("decode", 0.06, 0.5), Severity::Error);
        assert_eq!(severity("load_all", 0.01, 0.5), Severity::Warning);
        assert_eq!(severity("tiny", 0.9, 0.001), Severity::Ignore);
        assert_eq!(severity("tiny", 0.9, 0.02), Severity::Error);
        assert!(budget.is_gated("decode", "p50", 0.1) && !budget.is_gated("load_all", "p50", 0.1));
    }

    #[test]
    fn a_permission_ends_on_its_day() {
        let budget =
            budget("[[allow]]\nname = \"sdpa\"\nuntil = 2026-12-31\nreason = \"#7\"\n").unwrap();
        let on = |day| budget.rule("sdpa", "p50", 0.2, 0.1, day);
        assert_eq!(on("2026-12-31").because.as_deref(), Some("allowed until 2026-12-31: #7"));
        assert_eq!(on("2027-01-01").severity, Severity::Error);
        assert_eq!(on("2027-01-01").because.as_deref(), Some("was allowed until 2026-12-31"));
    }

    #[test]
    fn a_budget_that_says_nothing_sensible_is_refused() {
        let said = |text| budget(text).unwrap_err();
        assert!(said("[[rule]]\nnmae = \"x\"\n").contains("unknown field `nmae`"));
        assert!(
            said("[[rule]]\nname = \"x\"\nmax_regression = nan\n").contains("NaN is no percentage")
        );
        assert!(said("[[rule]]\nname = \"x\"\nmax_regression = -3\n").contains("-3"));
        assert!(
            said("[[rule]]\nname = \"x\"\nmetric = \"p42\"\n")
                .contains("there are p50, p95, mean, total, count, sum, peak")
        );
        assert!(said("[[rule]]\nname = \"[x\"\n").contains("pattern"));
        assert!(said("[[allow]]\nname = \"x\"\n").contains("until"));
        assert!(said("[[allow]]\nname = \"x\"\nuntil = 07:30:00\n").contains("give a date"));
    }

    #[test]
    fn rules_without_a_name_to_match_are_told() {
        let budget = budget("[[rule]]\nname = \"gone_*\"\n[[rule]]\nname = \"d*\"\n").unwrap();
        assert_eq!(budget.unmatched(&["decode"], &[]), ["rule \"gone_*\" matches no name"]);
    }

    #[test]
    fn figures_of_runs_are_held_to_the_rules_that_name_them() {
        let budget = budget(
            "[[rule]]\nname = \"*\"\nmax_regression = 5\n\
             [[rule]]\nname = \"load*\"\nmetric = \"total\"\nmax_regression = 20\n\
             [[rule]]\nname = \"tokens\"\nmetric = \"sum\"\n",
        )
        .unwrap();
        assert!(budget.asks("load_all", "total") && !budget.asks("load_all", "count"));
        assert!(!budget.asks("decode", "total") && budget.asks("tokens", "sum"));
        let by = |by| budget.rule("load_all", "total", by, 1.0, "2026-01-01").severity;
        assert_eq!((by(0.1), by(0.3)), (Severity::Ignore, Severity::Error));
        let nobody = "rule \"tokens\" (sum) matches no name";
        assert_eq!(budget.unmatched(&["load", "tokens"], &[("tokens", "peak")]), [nobody]);
        assert!(budget.unmatched(&["load"], &[("tokens", "sum")]).is_empty());
    }
}
