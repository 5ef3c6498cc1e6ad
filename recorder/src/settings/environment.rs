//! The environment's variables: ours, and those of metallic-instrumentation.

use std::{
    env,
    ffi::{OsStr, OsString},
    time::Duration,
};

use super::{Origin, Settings};

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

/// Whether they have rows written at an interval.
const LOG_ENABLED: &str = "METRICS_LOG_ENABLED";
/// Beside which file and how often, where nothing else says so.
const USUAL_JSONL: &str = "metrics.jsonl";
const USUAL_INTERVAL: Duration = Duration::from_secs(10);

pub(super) fn read(settings: &mut Settings, warn: &mut dyn FnMut(String)) {
    read_from(&|name| env::var_os(name), settings, warn);
}

fn read_from(
    variable: &dyn Fn(&str) -> Option<OsString>,
    settings: &mut Settings,
    warn: &mut dyn FnMut(String),
) {
    let mut take = |variables: &[(&str, &str)], settings: &mut Settings| {
        for &(name, key) in variables {
            // A variable that is set to nothing is how shells leave one out.
            let Some(value) = variable(name).filter(|value| !value.is_empty()) else { continue };
            match (value.to_str(), key) {
                (Some(text), _) => settings.set(key, text, Origin(&name), warn),
                // Paths need not be text.
                (None, "trace") => settings.trace = Some(value.into()),
                (None, "jsonl") => settings.jsonl = Some(value.into()),
                (None, _) => warn(format!("{name}: is not UTF-8; it is left as it was")),
            }
        }
    };
    take(&THEIRS, settings);
    // Between the two: it switches their rows off, and not those that we are asked for.
    let enabled = variable(LOG_ENABLED).filter(|value| !value.is_empty());
    let enabled = enabled.map(|value| log_enabled(&value, settings));
    take(&OURS, settings);
    if let Some(Err(why)) = enabled {
        warn(format!("{LOG_ENABLED}: {why}; it is left as it was"));
    }
}

fn log_enabled(value: &OsStr, settings: &mut Settings) -> Result<(), String> {
    let text = value.to_str().ok_or("is not UTF-8")?;
    if super::values::yes_or_no(text.trim())? {
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
