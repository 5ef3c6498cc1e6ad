//! What to record less of: on or off by name, one in N, only if longer than.
//!
//! Rules are text, so that code, the environment and a control file can give
//! the same ones:
//!
//! ```text
//! off                  nothing at all
//! tokenize=off         not this name
//! block_*=1/100        one in a hundred of these
//! io.*=10us            only those that took at least 10 microseconds
//! io.read=on           but all of these
//! ```
//!
//! Rules are separated by commas or new lines. For each name the last rule that
//! matches counts, one of them alone. `*` stands for any characters, `?` for one.

use std::{fmt, str::FromStr, time::Duration};

/// What a rule does with the names that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Records everything; what also happens where no rule matches.
    On,
    /// Records nothing.
    Off,
    /// Records one of every so many: the very first, and then any.
    OneIn(u32),
    /// Records only spans that took at least this long.
    AtLeast(Duration),
}

/// A name pattern and what to do with the names that match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pattern: String,
    action: Action,
}

/// A list of rules; the last one that matches a name counts.
///
/// ```
/// use ringscope::{Action, Rules};
///
/// let rules: Rules = "block_*=1/100, block_0=on, debug.*=off".parse()?;
/// assert_eq!(rules.action("block_7"), Action::OneIn(100));
/// assert_eq!(rules.action("block_0"), Action::On);
/// assert_eq!(rules.action("matmul"), Action::On);
/// # Ok::<(), ringscope::RuleError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// No rules: everything is recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule that goes before all earlier ones.
    #[must_use]
    pub fn with(mut self, pattern: impl Into<String>, action: Action) -> Self {
        let action = match action {
            Action::OneIn(n) => Action::OneIn(n.max(1)),
            other => other,
        };
        self.0.push(Rule { pattern: pattern.into(), action });
        self
    }

    /// Adds another list, which goes before this one.
    pub fn extend(&mut self, later: Rules) {
        self.0.extend(later.0);
    }

    /// What these rules say about a name.
    pub fn action(&self, name: &str) -> Action {
        let last = self.0.iter().rev().find(|rule| matches(&rule.pattern, name));
        last.map_or(Action::On, |rule| rule.action)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a name matches a pattern in which `*` stands for any characters and `?` for one.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on after the last `*` when what follows it did not fit.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((after_star, taken)) => {
                    retry = Some((after_star, taken + 1));
                    p = after_star;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// A rule that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    rule: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rule `{}`: not understood; write `NAME=on`, `NAME=off`, `NAME=1/100` or `NAME=10us`",
            self.rule
        )
    }
}

impl std::error::Error for RuleError {}

impl FromStr for Rules {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let rules = text.split([',', '\n']).map(str::trim).filter(|rule| !rule.is_empty());
        rules.map(parse_rule).collect::<Result<_, _>>().map(Rules)
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, rule) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}={}", rule.pattern, rule.action)?;
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::On => f.write_str("on"),
            Action::Off => f.write_str("off"),
            Action::OneIn(n) => write!(f, "1/{n}"),
            Action::AtLeast(duration) => write!(f, "{}ns", duration.as_nanos()),
        }
    }
}

fn parse_rule(rule: &str) -> Result<Rule, RuleError> {
    let wrong = || RuleError { rule: rule.to_owned() };
    // The last `=`: a name may hold one, an action never does.
    let (pattern, action) = rule.rsplit_once('=').unwrap_or(("*", rule));
    let action = match action.trim() {
        "on" => Action::On,
        "off" => Action::Off,
        other => match other.strip_prefix("1/") {
            Some(n) => Action::OneIn(n.parse().ok().filter(|&n| n > 0).ok_or_else(wrong)?),
            None => Action::AtLeast(parse_duration(other).ok_or_else(wrong)?),
        },
    };
    Ok(Rule { pattern: pattern.trim().to_owned(), action })
}

/// `250ns`, `10us`, `1.5ms`, `30s`, `5min`, `1h`: what `analyze` takes.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name) in [
            ("*", ""),
            ("a*", "a"),
            ("a*c", "abbc"),
            ("*.x", "a.b.x"),
            ("a?c", "äöc".replace('ä', "a").as_str()),
            ("**a", "ba"),
        ] {
            assert!(matches(pattern, name), "{pattern} should match {name}");
        }
        for (pattern, name) in
            [("", "a"), ("a", "ab"), ("a?", "a"), ("*b", "abc"), ("a*b*c", "acb")]
        {
            assert!(!matches(pattern, name), "{pattern} should not match {name}");
        }
    }

    #[test]
    fn the_last_matching_rule_counts() {
        let rules: Rules = "*=off\nload*=on, load.slow = 1.5ms".parse().unwrap();
        assert_eq!(rules.action("other"), Action::Off);
        assert_eq!(rules.action("load"), Action::On);
        assert_eq!(rules.action("load.slow"), Action::AtLeast(Duration::from_micros(1_500)));
    }

    #[test]
    fn a_rule_without_a_name_is_about_all_names() {
        assert_eq!("1/8".parse::<Rules>().unwrap().action("x"), Action::OneIn(8));
    }

    #[test]
    fn what_is_not_understood_is_quoted() {
        for wrong in ["a=1/0", "a=fast", "a=10", "a=1/x", "a=-1ms", "a="] {
            let error = wrong.parse::<Rules>().unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn rules_print_as_they_are_read() {
        let rules: Rules = "a=off, b*=1/7, c=250ns, d=on".parse().unwrap();
        assert_eq!(rules.to_string().parse::<Rules>().unwrap(), rules);
    }
}
