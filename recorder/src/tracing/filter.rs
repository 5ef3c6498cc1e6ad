//! Which spans and events are recorded, by target and level.

use std::{convert::Infallible, fmt, str::FromStr};

use tracing_core::LevelFilter;
#[cfg(not(feature = "off"))]
use tracing_core::Metadata;
use tracing_subscriber::filter::Targets;

#[cfg(not(feature = "off"))]
use super::level;
use crate::{Level, settings};

/// Which spans and events are recorded, as `tracing`'s `Targets` has it:
/// `info,my_crate=trace,hyper=off`. Without a filter the level of the recording decides, see
/// [`Subscriber::new`](super::Subscriber::new), and so it does with one of which nothing is
/// understood.
///
/// A part that is not understood is left out and named by
/// [`ignored`](Filter::ignored): a typo must not keep a program from running. It goes for what is
/// a level but for one letter, such as `inof`, too: a target of that name is `inof=trace`. And that goes
/// for the parts about spans and fields which only `EnvFilter` knows
/// (`my_crate[request{id=7}]=debug`), too: compose
/// [`MetricsLayer`](super::MetricsLayer) with an `EnvFilter` where those are needed.
///
/// ```
/// let filter: ringscope::tracing::Filter = "info,app[request]=trace,candle=loud".into();
/// assert_eq!(filter.ignored().len(), 2);
/// assert_eq!(filter.to_string(), "info");
/// ```
#[derive(Clone, Debug)]
pub struct Filter {
    takes: Takes,
    ignored: Vec<String>,
}

#[derive(Clone, Debug)]
enum Takes {
    All,
    /// What the level lets through that applies when it is asked.
    ByLevel,
    Of(Box<Targets>),
}

impl Filter {
    /// Everything is recorded.
    pub fn all() -> Self {
        Self { takes: Takes::All, ignored: Vec::new() }
    }

    /// The level that `RINGSCOPE_LEVEL` or `ringscope.toml` asks for now, whatever runs later;
    /// everything if neither does. While no recording runs, a [`Subscriber`](super::Subscriber)
    /// goes by it anyway.
    ///
    /// ```
    /// let subscriber = ringscope::tracing::Subscriber::new();
    /// subscriber.with_filter(ringscope::tracing::Filter::from_env()).install()?;
    /// # Ok::<(), ringscope::Error>(())
    /// ```
    pub fn from_env() -> Self {
        settings::level_from_env().map_or_else(Self::all, Self::from)
    }

    /// The level of the recording that runs; while none does, that of the environment.
    #[cfg(not(feature = "off"))]
    pub(super) fn by_level() -> Self {
        level::prepare();
        Self { takes: Takes::ByLevel, ignored: Vec::new() }
    }

    /// What was not understood, and what can be done about it; a sentence each.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    #[cfg(not(feature = "off"))]
    pub(super) fn takes(&self, metadata: &Metadata<'_>) -> bool {
        match &self.takes {
            Takes::All => true,
            Takes::ByLevel => level::takes(metadata),
            Takes::Of(targets) => targets.would_enable(metadata.target(), metadata.level()),
        }
    }

    /// No span or event is recorded that says more than this.
    #[cfg(any(test, not(feature = "off")))]
    pub(super) fn max_level(&self) -> LevelFilter {
        match &self.takes {
            Takes::All => LevelFilter::TRACE,
            Takes::ByLevel => level_now(),
            Takes::Of(targets) => {
                let levels = targets.iter().map(|(_, level)| level).chain(targets.default_level());
                levels.max().unwrap_or(LevelFilter::OFF)
            }
        }
    }

    fn parse(text: &str) -> Self {
        let (mut targets, mut ignored) = (Targets::new(), Vec::new());
        let mut known = 0;
        for part in parts(text).map(str::trim).filter(|part| !part.is_empty()) {
            if part.contains(['[', '{']) {
                ignored.push(format!(
                    "`{part}`: parts about spans and fields are not understood; use \
                     MetricsLayer with an EnvFilter"
                ));
                continue;
            }
            // `Targets` would take it for a target, of which there is nothing.
            if let Some(level) = LEVELS.into_iter().find(|level| is_nearly(part, level)) {
                ignored.push(format!(
                    "`{part}`: not a level, but almost `{level}`; if it is a target, write \
                     `{part}=trace`"
                ));
                continue;
            }
            let is_whole = !part.starts_with('=') && !part.ends_with('=');
            match part.parse::<Targets>() {
                Ok(parsed) if is_whole => {
                    known += 1;
                    targets = targets.with_targets(parsed.iter());
                    targets = match parsed.default_level() {
                        Some(level) => targets.with_default(level),
                        None => targets,
                    };
                }
                _ => ignored.push(format!(
                    "`{part}`: not a level or `target=level`; levels are off, error, warn, \
                     info, debug and trace"
                )),
            }
        }
        if known > 0 {
            return Self { takes: Takes::Of(Box::new(targets)), ignored };
        }
        ignored.push(format!("all of `{text}`: the level of the recording decides, as without it"));
        Self { takes: Takes::ByLevel, ignored }
    }
}

fn level_now() -> LevelFilter {
    #[cfg(not(feature = "off"))]
    return level::now();
    #[cfg(feature = "off")]
    LevelFilter::OFF
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether it is a word with one letter wrong, missing or too many, or two of them exchanged.
fn is_nearly(part: &str, word: &str) -> bool {
    let part = part.to_ascii_lowercase();
    let (a, b) = (part.as_bytes(), word.as_bytes());
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    let same = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    match (&a[..a.len() - same], &b[..b.len() - same]) {
        ([], []) => false,
        ([] | [_], [] | [_]) => true,
        ([a, b], [c, d]) => a == d && b == c,
        _ => false,
    }
}

/// The parts between commas, but for those within brackets.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut open = 0_i32;
    text.split(move |letter: char| {
        open += i32::from(matches!(letter, '[' | '{')) - i32::from(matches!(letter, ']' | '}'));
        letter == ',' && open <= 0
    })
}

impl Default for Filter {
    fn default() -> Self {
        Self::all()
    }
}

/// Everything up to a level, such as [`Recorder::level`](crate::Recorder::level).
impl From<Level> for Filter {
    fn from(level: Level) -> Self {
        Targets::new().with_default(LevelFilter::from(level)).into()
    }
}

/// The same for other layers: `fmt::layer().with_filter(LevelFilter::from(recorder.level()))`.
impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

impl From<&str> for Filter {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl From<String> for Filter {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

impl FromStr for Filter {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::parse(text))
    }
}

impl From<Targets> for Filter {
    fn from(targets: Targets) -> Self {
        Self { takes: Takes::Of(Box::new(targets)), ignored: Vec::new() }
    }
}

/// What is in force, without what was ignored.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.takes {
            Takes::All => f.write_str("trace"),
            Takes::ByLevel => level_now().fmt(f),
            Takes::Of(targets) => targets.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_core::Level;

    use super::*;

    fn takes(filter: &Filter, target: &str, level: Level) -> bool {
        match &filter.takes {
            Takes::Of(targets) => targets.would_enable(target, &level),
            Takes::All | Takes::ByLevel => level <= filter.max_level(),
        }
    }

    #[test]
    fn targets_and_levels_mean_what_they_mean_to_tracing() {
        let filter = Filter::from("warn, app=info,app::db=trace,hyper=off");
        assert!(filter.ignored().is_empty());
        assert!(takes(&filter, "other", Level::WARN));
        assert!(!takes(&filter, "other", Level::INFO));
        assert!(takes(&filter, "app::web", Level::INFO));
        assert!(!takes(&filter, "app::web", Level::DEBUG));
        assert!(takes(&filter, "app::db", Level::TRACE));
        assert!(!takes(&filter, "hyper::proto", Level::ERROR));
        assert_eq!(filter.max_level(), LevelFilter::TRACE);
    }

    #[test]
    fn the_most_that_is_taken_is_known() {
        assert_eq!(Filter::all().max_level(), LevelFilter::TRACE);
        assert_eq!(Filter::from("info").max_level(), LevelFilter::INFO);
        assert_eq!(Filter::from("error,app=debug").max_level(), LevelFilter::DEBUG);
        assert_eq!(Filter::from("off").max_level(), LevelFilter::OFF);
        assert_eq!(Filter::from(crate::Level::Warn).max_level(), LevelFilter::WARN);
        assert_eq!(Filter::from(crate::Level::Off).max_level(), LevelFilter::OFF);
    }

    #[test]
    fn what_is_not_understood_is_named_and_left_out() {
        let filter = Filter::from("info,app[request{id=7,user=3}]=trace,db=loud,=,x=1=2");
        let ignored = filter.ignored();
        assert!(
            ignored[0].starts_with("`app[request{id=7,user=3}]=trace`: parts about"),
            "{ignored:?}"
        );
        assert!(ignored[1].starts_with("`db=loud`: not a level"), "{ignored:?}");
        assert!(!takes(&filter, "app", Level::DEBUG));
        assert!(takes(&filter, "app", Level::INFO));
    }

    #[test]
    fn what_is_a_level_but_for_a_letter_is_none_and_no_target_either() {
        for (part, level) in [
            ("inof", "info"),
            ("Infor", "info"),
            ("nfo", "info"),
            ("debg", "debug"),
            ("wanr", "warn"),
            ("erorr", "error"),
            ("traace", "trace"),
            ("of", "off"),
        ] {
            let filter = Filter::from(format!("hyper=off,{part}"));
            let almost = format!("`{part}`: not a level, but almost `{level}`; if it is a target");
            assert!(filter.ignored()[0].starts_with(&almost), "{filter:?}");
            assert_eq!(filter.to_string(), "hyper=off");
        }
        for taken in ["inof=trace", "INFO", "candle_nn", "tracing", "i", "", "arrow", "é"] {
            let filter = Filter::from(format!("hyper=off,{taken}"));
            assert_eq!(filter.ignored(), [""; 0], "{taken}");
        }
    }

    #[test]
    fn of_a_filter_of_which_nothing_is_understood_that_is_said_and_the_level_decides() {
        for text in ["", " , ", "inof", "app[request]=trace", "a=b=c"] {
            let filter = Filter::from(text);
            assert!(matches!(filter.takes, Takes::ByLevel), "{text}");
            let said = "the level of the recording decides, as without it";
            let last = filter.ignored().last().map(String::as_str);
            assert_eq!(last, Some(&*format!("all of `{text}`: {said}")));
        }
    }
}
