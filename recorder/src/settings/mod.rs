//! What can be set from outside the program: by the environment, and with the
//! feature `config` by a file `ringscope.toml`. What code says goes before the
//! environment, and the environment before the file.
//!
//! Nothing here fails: a value that is not understood is a warning on standard
//! error that says what would be, and the setting keeps its default.

mod environment;
#[cfg(feature = "config")]
mod file;
mod values;

use std::{
    collections::BTreeSet,
    fmt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{Action, Builder, Recorder, Rules};

#[cfg(not(feature = "off"))]
pub(crate) use environment::wants_os_clock;
pub use values::Level;
pub(crate) use values::Mode;

/// Bytes that a flight recorder keeps if nothing else is said.
const USUAL_CAP: u64 = 64 << 20;

/// What the file calls the level.
const LEVEL: &str = "level";

/// What was set from outside. Everything is optional.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) trace: Option<PathBuf>,
    pub(crate) level: Option<Level>,
    pub(crate) filter: Option<Rules>,
    pub(crate) sample: Option<u32>,
    pub(crate) mode: Option<Mode>,
    pub(crate) console: Option<bool>,
    pub(crate) jsonl: Option<PathBuf>,
    pub(crate) jsonl_interval: Option<Duration>,
    pub(crate) slow: Option<Duration>,
    pub(crate) gpu_latency: Option<bool>,
    pub(crate) repro: Option<bool>,
    pub(crate) metadata: Vec<(String, String)>,
}

/// Where a setting came from: `RINGSCOPE_MODE`, `ringscope.toml: line 3`.
pub(crate) struct Origin<'a>(pub(crate) &'a dyn fmt::Display);

impl Settings {
    /// The environment, and what the file adds to it.
    fn read() -> Self {
        let mut settings = Settings::default();
        #[cfg(feature = "config")]
        file::read(&mut settings, None, &mut warn_once);
        environment::read(&mut settings, &mut warn_once);
        settings
    }

    /// Takes one setting, or warns and leaves it as it was. Warns too of one that is not
    /// taken as it was written.
    ///
    /// `key` is what the file calls it; the environment's names end the same way.
    pub(crate) fn set(
        &mut self,
        key: &str,
        text: &str,
        origin: Origin<'_>,
        warn: &mut dyn FnMut(String),
    ) {
        let text = text.trim();
        let mut note = None;
        let taken = match key {
            "trace" => values::path(text).map(|path| self.trace = Some(path)),
            LEVEL => values::level(text).map(|level| self.level = Some(level)),
            "filter" => values::rules(text).map(|rules| self.filter = Some(rules)),
            "sample" => values::sample(text, &mut note).map(|one_in| self.sample = Some(one_in)),
            "mode" => values::mode(text, USUAL_CAP, &mut note).map(|mode| self.mode = Some(mode)),
            "console" => values::yes_or_no(text).map(|yes| self.console = Some(yes)),
            "jsonl" => values::path(text).map(|path| self.jsonl = Some(path)),
            "jsonl_interval" => {
                values::interval(text, &mut note).map(|every| self.jsonl_interval = Some(every))
            }
            "slow_ms" => {
                values::duration(text, 1e-3, &mut note).map(|least| self.slow = Some(least))
            }
            "gpu_latency" => values::yes_or_no(text).map(|yes| self.gpu_latency = Some(yes)),
            "repro" => values::yes_or_no(text).map(|yes| self.repro = Some(yes)),
            _ => Err("there is no such setting".to_owned()),
        };
        let why = taken.err().map(|why| format!("{why}; it is left as it was"));
        if let Some(what) = why.or(note) {
            warn(format!("{} = `{text}`: {what}", origin.0));
        }
    }

    /// Whether anything is to be recorded at all.
    fn asks_to_record(&self) -> bool {
        let exports = self.console == Some(true) || self.jsonl.is_some() || self.slow.is_some();
        (self.trace.is_some() || exports) && self.level != Some(Level::Off)
    }

    /// Settings that say how to record, by the file's names for them. Not those that are switched
    /// off, as nothing is then what was asked for; without a recording
    /// [`gpu_latency`](crate::gpu_latency) is what it is, though, whatever was set.
    fn are_about_a_recording(&self) -> Vec<&'static str> {
        let about = [
            (LEVEL, self.level.is_some()),
            ("filter", self.filter.is_some()),
            ("sample", self.sample.is_some()),
            ("mode", self.mode.is_some()),
            ("jsonl_interval", self.jsonl_interval.is_some()),
            ("gpu_latency", self.gpu_latency.is_some()),
            ("repro", self.repro == Some(true)),
        ];
        about.into_iter().filter(|it| it.1).map(|it| it.0).collect()
    }

    fn apply(self, mut builder: Builder) -> Builder {
        let config = &mut builder.config;
        if let Some(path) = self.trace {
            config.path = path;
        }
        if let Some(one_in) = self.sample {
            let mut rules = std::mem::take(&mut config.rules).with("*", Action::OneIn(one_in));
            // Of these a part says nothing: what is allocated is released, what a device is or
            // could not time is said once, and readings of the process are few. (Scopes of
            // requests are never sampled.)
            for whole in ["memory.*", "device.*", "kernel.untimed", "process.*", "recorder.*"] {
                rules = rules.with(whole, Action::On);
            }
            config.rules = rules;
        }
        if let Some(rules) = self.filter {
            config.rules.extend(rules);
        }
        config.level = self.level.or(config.level);
        config.gpu_latency = self.gpu_latency.unwrap_or(config.gpu_latency);
        config.output.console = self.console.unwrap_or(config.output.console);
        config.output.jsonl = self.jsonl.or(config.output.jsonl.take());
        config.output.jsonl_interval = self.jsonl_interval.or(config.output.jsonl_interval);
        config.output.slow = self.slow.or(config.output.slow);
        config.output.repro = self.repro.unwrap_or(config.output.repro);
        config.metadata.extend(self.metadata);
        match self.mode {
            Some(Mode::KeepLast { window, cap_bytes }) => builder.keep_last(window, cap_bytes),
            Some(Mode::Full) => builder.full(),
            None => builder,
        }
    }
}

/// Says it, unless it has been said: the same setting is read by who starts a recording, and by
/// who asks for the level.
fn warn_once(what: String) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(what.clone());
    if is_new {
        warn(what);
    }
}

/// Says on standard error what was not understood.
pub(crate) fn warn(what: String) {
    use std::io::Write;
    // A program whose standard error is closed is not to die of a warning.
    let _ = writeln!(std::io::stderr(), "ringscope: {what}");
}

impl Builder {
    /// A builder that begins with what the environment and, with the feature
    /// `config`, the file `ringscope.toml` say; whatever is set on it goes before both.
    ///
    /// Values that are not understood are warned about on standard error, once. With
    /// `RINGSCOPE_LEVEL=off` the recorder records nothing and writes no file.
    ///
    /// ```no_run
    /// let builder = ringscope::Builder::from_env().metadata("build.commit", "4f2a91c");
    /// let recorder = builder.start()?;
    /// # Ok::<(), ringscope::Error>(())
    /// ```
    pub fn from_env() -> Builder {
        let settings = Settings::read();
        without_what_is_missing(&settings);
        settings.apply(Builder::default())
    }
}

/// Starts a recording if the environment or `ringscope.toml` asks for one: the one
/// line that makes a program recordable. Keep what it returns until the end.
///
/// ```
/// let _recorder = ringscope::init_from_env();
/// // ... the program; recorded if run with RINGSCOPE_TRACE=run.trace
/// ```
///
/// A recording is asked for by `RINGSCOPE_TRACE`, or by an exporter
/// (`RINGSCOPE_CONSOLE`, `RINGSCOPE_JSONL`, `RINGSCOPE_SLOW_MS`), which then has the trace written
/// to the current directory, under the program's name, and says so on standard error. What cannot
/// be started, or is set without any of these, is a warning there and `None`; the program goes on.
#[must_use = "a recording ends when its recorder is dropped; bind it: `let _recorder = ...`"]
pub fn init_from_env() -> Option<Recorder> {
    let settings = Settings::read();
    if !settings.asks_to_record() {
        let said = settings.are_about_a_recording().join(", ");
        if !said.is_empty() && settings.level != Some(Level::Off) {
            warn(format!("not recording: {said} is set, but no file; give RINGSCOPE_TRACE one"));
        }
        return None;
    }
    without_what_is_missing(&settings);
    let names_file = settings.trace.is_some();
    match settings.apply(Builder::default()).start() {
        Ok(recorder) => {
            // Nobody has asked for a file, and one that is there is replaced.
            if !names_file {
                let path = recorder.path().display();
                warn(format!("recording to {path}; RINGSCOPE_TRACE says where instead"));
            }
            Some(recorder)
        }
        Err(error) => {
            warn(format!("not recording: {error}"));
            None
        }
    }
}

/// The level that was set from outside, and nothing else: of the rest whoever reads it warns.
#[cfg(any(feature = "tracing", not(feature = "off")))]
pub(crate) fn level_from_env() -> Option<Level> {
    let mut settings = Settings::default();
    #[cfg(feature = "config")]
    file::read(&mut settings, Some(LEVEL), &mut warn_once);
    environment::read_only(LEVEL, &mut settings, &mut warn_once);
    settings.level
}

/// Warns of what this build cannot do.
fn without_what_is_missing(settings: &Settings) {
    if cfg!(feature = "off") {
        return warn("built with the feature `off`, so nothing is recorded".to_owned());
    }
    let wanted = [settings.console, settings.repro].contains(&Some(true));
    let exports = wanted || settings.jsonl.is_some();
    if (exports || settings.slow.is_some()) && !cfg!(feature = "exporters") {
        return warn("built without the feature `exporters`, so nothing is exported".to_owned());
    }
    if settings.jsonl_interval.is_some() {
        if !cfg!(feature = "statistics") {
            warn("built without the feature `statistics`, so no rows are written".to_owned());
        } else if settings.jsonl.is_none() {
            warn("no rows are written: RINGSCOPE_JSONL says beside which file".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_goes_before_the_file_and_the_builder_before_both() {
        let mut settings = Settings::default();
        let mut warnings = Vec::new();
        let mut warn = |what: String| warnings.push(what);
        for (key, text, from) in [
            ("trace", "file.trace", "ringscope.toml"),
            ("mode", "keep-last:5s", "ringscope.toml"),
            ("trace", "environment.trace", "RINGSCOPE_TRACE"),
            ("mode", "kepp-last:5s", "RINGSCOPE_MODE"),
        ] {
            settings.set(key, text, Origin(&from), &mut warn);
        }
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("RINGSCOPE_MODE = `kepp-last:5s`: "), "{warnings:?}");
        let config = settings.clone().apply(Builder::default()).config;
        assert_eq!(config.path, PathBuf::from("environment.trace"));
        assert_eq!(config.keep_last.map(|keep| keep.window), Some(Duration::from_secs(5)));
        let config = settings.apply(Builder::default()).path("code.trace").config;
        assert_eq!(config.path, PathBuf::from("code.trace"));
    }

    #[test]
    fn a_mode_that_code_says_goes_before_that_of_the_environment() {
        let mut settings = Settings::default();
        let mut warn = |what: String| panic!("{what}");
        settings.set("mode", "keep-last:30s", Origin(&""), &mut warn);
        let mode = |builder: Builder| {
            (builder.config.keep_last.map(|it| it.window.as_secs()), builder.config.rotate_bytes)
        };
        let from_env = || settings.clone().apply(Builder::default());
        assert_eq!(mode(from_env()), (Some(30), None));
        assert_eq!(mode(from_env().rotate_at(5 << 20)), (None, Some(5 << 20)));
        assert_eq!(mode(from_env().full()), (None, None));
        assert_eq!(mode(from_env().rotate_at(5 << 20).full()), (None, None));
        let last = from_env().rotate_at(5 << 20).keep_last(Duration::from_secs(7), 5 << 20);
        assert_eq!(mode(last), (Some(7), None));
    }

    #[test]
    fn a_filter_goes_before_the_sample_of_everything() {
        let mut settings = Settings::default();
        let mut warn = |what: String| panic!("{what}");
        settings.set("sample", "1/100", Origin(&""), &mut warn);
        settings.set("filter", "load*=on", Origin(&""), &mut warn);
        let rules = settings.apply(Builder::default()).config.rules;
        assert_eq!(rules.action("token"), Action::OneIn(100));
        assert_eq!(rules.action("load.model"), Action::On);
        assert_eq!(rules.action("memory.release"), Action::On, "pairs stay pairs");
    }
}
