//! The environment's variables: ours, and those of metallic-instrumentation.

use std::{env, ffi::OsString};

use super::{Origin, Settings};

/// Variables and the settings they are; of several for one setting the last
/// that is there counts.
const VARIABLES: [(&str, &str); 16] = [
    ("METALLIC_LOG_LEVEL", "level"),
    ("METALLIC_METRICS_CONSOLE", "console"),
    ("METALLIC_METRICS_JSONL_PATH", "jsonl"),
    ("METALLIC_EMIT_LATENCY", "gpu_latency"),
    ("METRICS_LOG_INTERVAL_SECS", "jsonl_interval"),
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

/// Whether metrics are written at all, where nothing says where to.
const LOG_ENABLED: &str = "METRICS_LOG_ENABLED";
/// Where they are written then.
const USUAL_JSONL: &str = "metrics.jsonl";

pub(super) fn read(settings: &mut Settings, warn: &mut dyn FnMut(String)) {
    read_from(&|name| env::var_os(name), settings, warn);
}

fn read_from(
    variable: &dyn Fn(&str) -> Option<OsString>,
    settings: &mut Settings,
    warn: &mut dyn FnMut(String),
) {
    for (name, key) in VARIABLES {
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
    log_enabled(variable, settings, warn);
}

/// `METRICS_LOG_ENABLED` asks for rows at an interval; a path may be given elsewhere.
fn log_enabled(
    variable: &dyn Fn(&str) -> Option<OsString>,
    settings: &mut Settings,
    warn: &mut dyn FnMut(String),
) {
    let Some(value) = variable(LOG_ENABLED).filter(|value| !value.is_empty()) else { return };
    match value.to_str().map(str::trim).map(super::values::yes_or_no) {
        Some(Ok(true)) => {
            settings.jsonl.get_or_insert_with(|| USUAL_JSONL.into());
            settings.jsonl_interval.get_or_insert(std::time::Duration::from_secs(10));
        }
        Some(Ok(false)) => {}
        Some(Err(why)) => warn(format!("{LOG_ENABLED}: {why}; it is left as it was")),
        None => warn(format!("{LOG_ENABLED}: is not UTF-8; it is left as it was")),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, path::PathBuf, time::Duration};

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
        let names = VARIABLES.iter().map(|it| it.0).chain([LOG_ENABLED]);
        for name in names.filter(|name| !paths.contains(name)) {
            let (_, warnings) = read(&[(name, "rubbish=?")]);
            assert_eq!(warnings.len(), 1, "{name}: {warnings:?}");
            assert!(warnings[0].starts_with(name), "{warnings:?}");
            assert_eq!(read(&[(name, "")]).1, [""; 0], "{name}");
        }
    }
}
