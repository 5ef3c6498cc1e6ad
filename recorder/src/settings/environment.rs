//! The environment's variables: ours, and those of metallic-instrumentation.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::Path,
    sync::LazyLock,
    time::Duration,
};

use super::{Origin, Settings, values};

/// Variables of metallic-instrumentation and the settings they are.
const THEIRS: [(&str, &str); 5] = [
    ("METALLIC_LOG_LEVEL", "level"),
    ("METALLIC_METRICS_CONSOLE", "console"),
    ("METALLIC_METRICS_JSONL_PATH", "jsonl"),
    ("METALLIC_EMIT_LATENCY", "gpu_latency"),
    ("METRICS_LOG_INTERVAL_SECS", "jsonl_interval"),
];

/// Our own, which go before those.
const OURS: [(&str, &str); 11] = [
    ("RINGSCOPE_TRACE", "trace"),
    ("RINGSCOPE_LEVEL", "level"),
    ("RINGSCOPE_FILTER", "filter"),
    ("RINGSCOPE_SAMPLE", "sample"),
    ("RINGSCOPE_MODE", "mode"),
    ("RINGSCOPE_CONSOLE", "console"),
    ("RINGSCOPE_JSONL", "jsonl"),
    ("RINGSCOPE_JSONL_INTERVAL", "jsonl_interval"),
    ("RINGSCOPE_SLOW_MS", "slow_ms"),
    ("RINGSCOPE_GPU_LATENCY", "gpu_latency"),
    ("RINGSCOPE_REPRO", "repro"),
];

/// Which clock the whole process reads.
const CLOCK: &str = "RINGSCOPE_CLOCK";
/// Where the file is.
const CONFIG: &str = "RINGSCOPE_CONFIG";

/// What all of ours begin with.
const PREFIX: &str = "RINGSCOPE_";
/// Those that are no settings: of the repository's tests, and for what they start.
const OF_TESTS: [&str; 4] =
    ["RINGSCOPE_CRASH_AT", "RINGSCOPE_PYTHON", "RINGSCOPE_REGENERATE", "RINGSCOPE_REQUIRE"];
const PREFIX_OF_TESTS: &str = "RINGSCOPE_TEST_";

/// Whether they have rows written at an interval.
const LOG_ENABLED: &str = "METRICS_LOG_ENABLED";
/// Beside which file and how often, where nothing else says so.
const USUAL_JSONL: &str = "metrics.jsonl";
const USUAL_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn read(settings: &mut Settings, warn: &mut dyn FnMut(String)) {
    read_from(&|name| env::var_os(name), settings, warn);
    // It warns by itself, once: whoever records without reading the rest has to hear it too.
    wants_os_clock();
    if !cfg!(feature = "config") {
        without_a_file(env::var_os(CONFIG)).into_iter().for_each(&mut *warn);
    }
    unknown(env::vars_os().map(|it| it.0)).into_iter().for_each(warn);
}

/// One setting alone, by the file's name for it.
#[cfg(any(feature = "tracing", not(feature = "off")))]
pub(super) fn read_only(key: &str, settings: &mut Settings, warn: &mut dyn FnMut(String)) {
    for &(name, _) in THEIRS.iter().chain(&OURS).filter(|it| it.1 == key) {
        take(&|name| env::var_os(name), name, key, settings, warn);
    }
}

/// Whether the operating system's clock is asked for: decided once, by whoever asks first, who
/// warns of what is not understood.
pub(crate) fn wants_os_clock() -> bool {
    static WANTED: LazyLock<bool> = LazyLock::new(|| {
        let Some(value) = env::var_os(CLOCK).filter(|value| !value.is_empty()) else {
            return false;
        };
        let wanted = match value.to_str().map(str::trim) {
            Some(text) => values::clock(text).map_err(|why| format!("{CLOCK} = `{text}`: {why}")),
            None => Err(format!("{CLOCK}: is not UTF-8")),
        };
        if let Err(why) = &wanted {
            super::warn(format!("{why}; it is left as it was"));
        }
        wanted.is_ok()
    });
    *WANTED
}

/// What a build that reads no file says to somebody who names one.
fn without_a_file(asked: Option<OsString>) -> Option<String> {
    let asked = asked.filter(|path| !path.is_empty())?;
    // That is how people say that there is none.
    (Path::new(&asked) != Path::new("/dev/null"))
        .then(|| format!("{CONFIG}: built without the feature `config`, so no file is read"))
}

/// Of names that begin as ours do, those that are nobody's.
fn unknown(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let is_known = |name: &str| {
        OURS.iter().any(|it| it.0 == name)
            || [CLOCK, CONFIG].contains(&name)
            || OF_TESTS.contains(&name)
            || name.starts_with(PREFIX_OF_TESTS)
    };
    let ours = names.map(|name| name.to_string_lossy().into_owned());
    let mut unknown: Vec<String> =
        ours.filter(|name| name.starts_with(PREFIX) && !is_known(name)).collect();
    unknown.sort();
    let warning = |name| format!("{name}: there is no such variable; it is left out");
    unknown.into_iter().map(warning).collect()
}

fn read_from(
    variable: &dyn Fn(&str) -> Option<OsString>,
    settings: &mut Settings,
    warn: &mut dyn FnMut(String),
) {
    for (name, key) in THEIRS {
        take(variable, name, key, settings, warn);
    }
    // Between the two: it switches their rows off, and not those that we are asked for.
    let enabled = variable(LOG_ENABLED).filter(|value| !value.is_empty());
    let enabled = enabled.map(|value| log_enabled(&value, settings));
    for (name, key) in OURS {
        take(variable, name, key, settings, warn);
    }
    if let Some(Err(why)) = enabled {
        warn(format!("{LOG_ENABLED}: {why}; it is left as it was"));
    }
}

fn take(
    variable: &dyn Fn(&str) -> Option<OsString>,
    name: &str,
    key: &str,
    settings: &mut Settings,
    warn: &mut dyn FnMut(String),
) {
    // A variable that is set to nothing is how shells leave one out.
    let Some(value) = variable(name).filter(|value| !value.is_empty()) else { return };
    match (value.to_str(), key) {
        (Some(text), _) => settings.set(key, text, Origin(&name), warn),
        // Paths need not be text.
        (None, "trace") => settings.trace = Some(value.into()),
        (None, "jsonl") => settings.jsonl = Some(value.into()),
        (None, _) => warn(format!("{name}: is not UTF-8; it is left as it was")),
    }
}

fn log_enabled(value: &OsStr, settings: &mut Settings) -> Result<(), String> {
    let text = value.to_str().ok_or("is not UTF-8")?;
    if values::yes_or_no(text.trim())? {
        settings.jsonl.get_or_insert_with(|| USUAL_JSONL.into());
        settings.jsonl_interval.get_or_insert(USUAL_INTERVAL);
    } else {
        settings.jsonl_interval = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, path::PathBuf};

    use super::*;
    use crate::settings::Level;

    fn read(variables: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        let (mut settings, mut warnings) = (Settings::default(), Vec::new());
        let variable = |name: &str| variables.get(name).map(OsString::from);
        read_from(&variable, &mut settings, &mut |what| warnings.push(what));
        (settings, warnings)
    }

    #[test]
    fn every_alias_is_taken_and_our_own_names_go_before_them() {
        let (settings, warnings) = read(&[
            ("METALLIC_LOG_LEVEL", "debug"),
            ("METALLIC_METRICS_CONSOLE", "1"),
            ("METALLIC_METRICS_JSONL_PATH", "theirs.jsonl"),
            ("METALLIC_EMIT_LATENCY", "false"),
            ("METRICS_LOG_ENABLED", "true"),
            ("METRICS_LOG_INTERVAL_SECS", "5"),
            ("RINGSCOPE_LEVEL", "warn"),
        ]);
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(settings.level, Some(Level::Warn));
        assert_eq!((settings.console, settings.gpu_latency), (Some(true), Some(false)));
        assert_eq!(settings.jsonl, Some(PathBuf::from("theirs.jsonl")));
        assert_eq!(settings.jsonl_interval, Some(Duration::from_secs(5)));
    }

    #[test]
    fn every_alias_is_taken_by_itself() {
        let taken = |name: &str, value: &str| {
            let (settings, warnings) = read(&[(name, value)]);
            assert!(warnings.is_empty(), "{name}: {warnings:?}");
            settings
        };
        assert_eq!(taken("METALLIC_LOG_LEVEL", "debug").level, Some(Level::Debug));
        assert_eq!(taken("METALLIC_METRICS_CONSOLE", "1").console, Some(true));
        let jsonl = taken("METALLIC_METRICS_JSONL_PATH", "theirs.jsonl").jsonl;
        assert_eq!(jsonl, Some(PathBuf::from("theirs.jsonl")));
        assert_eq!(taken("METALLIC_EMIT_LATENCY", "false").gpu_latency, Some(false));
        let interval = taken("METRICS_LOG_INTERVAL_SECS", "5").jsonl_interval;
        assert_eq!(interval, Some(Duration::from_secs(5)));
    }

    #[test]
    fn every_variable_says_so_when_it_is_not_understood_and_an_empty_one_is_not_there() {
        let paths = ["RINGSCOPE_TRACE", "RINGSCOPE_JSONL", "METALLIC_METRICS_JSONL_PATH"];
        let names = THEIRS.iter().chain(&OURS).map(|it| it.0).chain([LOG_ENABLED]);
        for name in names.filter(|name| !paths.contains(name)) {
            let (_, warnings) = read(&[(name, "rubbish=?")]);
            assert_eq!(warnings.len(), 1, "{name}: {warnings:?}");
            assert!(warnings[0].starts_with(name), "{warnings:?}");
            assert_eq!(read(&[(name, "")]).1, [""; 0], "{name}");
        }
    }

    #[test]
    fn a_name_that_is_nobodys_is_warned_of_and_all_that_the_readme_names_are_known() {
        let said = |names: &[&str]| unknown(names.iter().map(OsString::from));
        assert_eq!(
            said(&["RINGSCOPE_SLOW", "RINGSCOPE_SAMPEL", "PATH", "RINGSCOP_TRACE"]),
            [
                "RINGSCOPE_SAMPEL: there is no such variable; it is left out",
                "RINGSCOPE_SLOW: there is no such variable; it is left out",
            ]
        );
        assert_eq!(said(&["RINGSCOPE_TEST_SCENE", "RINGSCOPE_CRASH_AT"]), [""; 0]);
        let readme = include_str!("../../../README.md");
        let words = readme.split(|c: char| !c.is_ascii_uppercase() && c != '_');
        let named = words.filter(|word| word.starts_with(PREFIX) && *word != PREFIX);
        let named: Vec<&str> = named.collect();
        assert!(named.len() > OURS.len(), "{named:?}");
        assert_eq!(said(&named), [""; 0]);
    }

    #[test]
    fn a_file_that_is_named_to_a_build_without_one_is_warned_of() {
        let said = |asked: Option<&str>| without_a_file(asked.map(OsString::from));
        let expected = "RINGSCOPE_CONFIG: built without the feature `config`, so no file is read";
        assert_eq!(said(Some("other.toml")).as_deref(), Some(expected));
        assert_eq!((said(None), said(Some("")), said(Some("/dev/null"))), (None, None, None));
    }

    #[test]
    fn rows_of_metrics_are_switched_on_and_off_by_a_variable_of_their_own() {
        let rows = |variables: &[(&str, &str)]| {
            let (settings, warnings) = read(variables);
            assert!(warnings.is_empty(), "{warnings:?}");
            (settings.jsonl, settings.jsonl_interval)
        };
        let (path, seconds) = (|path: &str| Some(path.into()), Duration::from_secs);
        assert_eq!(rows(&[(LOG_ENABLED, "true")]), (path("metrics.jsonl"), Some(seconds(10))));
        assert_eq!(rows(&[(LOG_ENABLED, "false")]), (None, None));
        let interval = ("METRICS_LOG_INTERVAL_SECS", "5");
        let jsonl = ("METALLIC_METRICS_JSONL_PATH", "theirs.jsonl");
        let off = (LOG_ENABLED, "false");
        assert_eq!(rows(&[off, interval, jsonl]), (path("theirs.jsonl"), None));
        // What is asked for in our own name is done.
        let ours = ("RINGSCOPE_JSONL_INTERVAL", "7");
        assert_eq!(rows(&[off, interval, jsonl, ours]), (path("theirs.jsonl"), Some(seconds(7))));
        let ours = ("RINGSCOPE_JSONL", "ours.jsonl");
        let on = (LOG_ENABLED, "1");
        assert_eq!(rows(&[on, interval, ours]), (path("ours.jsonl"), Some(seconds(5))));
    }
}
