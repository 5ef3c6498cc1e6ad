//! `ringscope.toml`: the same settings as in the environment, and lines about the run.
//!
//! Looked for in the current directory, or where `RINGSCOPE_CONFIG` says. Never waited for, and
//! never read for long: a pipe or a device is no file of settings. `/dev/null` is an empty one.

use std::{
    collections::BTreeMap,
    env, fmt,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use toml::{Spanned, Value};

use super::{Origin, Settings};

const USUAL_NAME: &str = "ringscope.toml";
/// More than this is not a file of settings.
const MOST_BYTES: u64 = 1 << 20;

/// All settings, or `only` one.
pub(super) fn read(settings: &mut Settings, only: Option<&str>, warn: &mut dyn FnMut(String)) {
    let asked = env::var_os("RINGSCOPE_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let must_be_there = asked.is_some();
    let path = asked.unwrap_or_else(|| USUAL_NAME.into());
    let shown = path.display();
    match read_text(&path) {
        Ok(text) => take(&text, &shown, settings, only, warn),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must_be_there => {}
        Err(error) => warn(format!("{shown}: {error}; it is left out")),
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    // How people say that there is none.
    if path == Path::new("/dev/null") {
        return Ok(String::new());
    }
    // Looked at before it is opened, which waits for who writes if it is a pipe.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    // Its length says little where files are made as they are read, as those of /proc are.
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other("larger than a file of settings can be"));
    }
    io::read_to_string(bytes.as_slice())
}

fn take(
    text: &str,
    path: &dyn fmt::Display,
    settings: &mut Settings,
    only: Option<&str>,
    warn: &mut dyn FnMut(String),
) {
    let pairs: BTreeMap<String, Spanned<Value>> = match toml::from_str(text) {
        Ok(pairs) => pairs,
        Err(error) => {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            let why = error.message().trim_end_matches('.');
            return warn(format!("{path}: line {line}: {why}; all of the file is left out"));
        }
    };
    for (key, value) in pairs.into_iter().filter(|it| only.is_none_or(|only| it.0 == only)) {
        let line = line_of(text, value.span().start);
        let origin = format!("{path}: line {line}: {key}");
        match value.into_inner() {
            Value::Table(lines) if key == "metadata" => {
                lines.iter().for_each(|(key, value)| add_lines(key, value, &mut settings.metadata));
            }
            value if has_table(&value) || value.is_datetime() => {
                warn(format!("{origin}: there is no such setting; it is left out"));
            }
            value => settings.set(&key, &in_words(&value), Origin(&origin), warn),
        }
    }
}

/// One line, or one for each of what is in a table: `model.name`, and of a list of them
/// `models.0.name`.
fn add_lines(key: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Table(table) => {
            for (inner, value) in table {
                add_lines(&format!("{key}.{inner}"), value, lines);
            }
        }
        Value::Array(list) if has_table(value) => {
            for (at, value) in list.iter().enumerate() {
                add_lines(&format!("{key}.{at}"), value, lines);
            }
        }
        value => lines.push((key.to_owned(), in_words(value))),
    }
}

/// Whether it is more than a line can say.
fn has_table(value: &Value) -> bool {
    match value {
        Value::Table(_) => true,
        Value::Array(list) => list.iter().any(has_table),
        _ => false,
    }
}

/// As it would be written in the environment, which has no tables: see [`has_table`].
fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(in_words).collect::<Vec<_>>().join(", "),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => is.to_string(),
        Value::Datetime(when) => when.to_string(),
        Value::Table(_) => String::new(),
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Action;

    fn taken(text: &str) -> (Settings, Vec<String>) {
        let (mut settings, mut warnings) = (Settings::default(), Vec::new());
        take(text, &USUAL_NAME, &mut settings, None, &mut |what| warnings.push(what));
        (settings, warnings)
    }

    #[test]
    fn settings_are_what_toml_has_for_them() {
        let (settings, warnings) = taken(
            "trace = 'run.trace'\nfilter = ['a=off', 'b=1/7']\nconsole = true\nslow_ms = 200\n\
             jsonl_interval = 2.5\n[metadata]\nmodel = 'tiny'\nlayers = 8\n",
        );
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(settings.filter.unwrap().action("b"), Action::OneIn(7));
        assert_eq!(
            (settings.console, settings.slow),
            (Some(true), Some(Duration::from_millis(200)))
        );
        assert_eq!(settings.jsonl_interval, Some(Duration::from_millis(2_500)));
        let metadata = [("layers", "8"), ("model", "tiny")];
        assert_eq!(settings.metadata, metadata.map(|(key, value)| (key.into(), value.into())));
    }

    #[test]
    fn a_table_of_metadata_is_a_line_for_each_of_its_values() {
        let (settings, warnings) = taken(
            "[metadata]\nids = [[1, 2], [3]]\n[metadata.model]\nname = 'tiny'\n\
             size = { layers = 8, heads = 4 }\n[[metadata.runs]]\nhost = 'a'\n\
             [[metadata.runs]]\nhost = 'b'\n",
        );
        assert!(warnings.is_empty(), "{warnings:?}");
        let metadata = [
            ("ids", "1, 2, 3"),
            ("model.name", "tiny"),
            ("model.size.heads", "4"),
            ("model.size.layers", "8"),
            ("runs.0.host", "a"),
            ("runs.1.host", "b"),
        ];
        assert_eq!(settings.metadata, metadata.map(|(key, value)| (key.into(), value.into())));
    }

    #[test]
    fn a_table_where_a_value_belongs_is_said() {
        for text in ["[filter]\na = 'off'\n", "filter = [{ a = 'off' }]\n"] {
            let (settings, warnings) = taken(text);
            let said = "ringscope.toml: line 1: filter: there is no such setting; it is left out";
            assert_eq!((warnings, settings.filter.is_some()), (vec![said.to_owned()], false));
        }
    }

    #[test]
    fn who_asks_for_one_setting_takes_and_hears_of_nothing_else() {
        let (mut settings, mut warnings) = (Settings::default(), Vec::new());
        let text = "level = 'inof'\ntracee = 'x'\ntrace = 'run.trace'\n";
        let only = Some("level");
        take(text, &USUAL_NAME, &mut settings, only, &mut |what| warnings.push(what));
        assert_eq!((settings.trace, warnings.len()), (None, 1), "{warnings:?}");
        assert!(warnings[0].starts_with("ringscope.toml: line 1: level = `inof`: not a level"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_the_rest_is_taken() {
        let (settings, warnings) =
            taken("mode = 'fulll'\n\ntracee = 'x'\nlevel = 'info'\n[jsonl]\n");
        assert_eq!(settings.level, Some(crate::settings::Level::Info));
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(
            warnings.iter().any(|it| it.starts_with("ringscope.toml: line 1: mode = `fulll`: "))
        );
        assert!(warnings.iter().any(|it| it.starts_with("ringscope.toml: line 3: tracee = `x`: ")));
        let (_, warnings) = taken("level = 'info'\nmode = = 3\n");
        assert!(warnings[0].starts_with("ringscope.toml: line 2: "), "{warnings:?}");
    }
}
