//! Scripts that repeat a failure, written beside the trace as it happens.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use ringscope_format::repro::{Failure, Language};

use super::{Event, ExportError, MetricExporter};

/// Scripts of one recording; what fails in a loop fails the same way.
const MOST_SCRIPTS: u32 = 100;

/// Writes a Python script for every error that says what was called with what:
/// `run.error-1.py`, `run.error-2.py` and so on, until there are a hundred. It is said once on
/// standard error that there will be no more.
#[derive(Debug)]
pub(crate) struct ReproExporter {
    trace: PathBuf,
    written: u32,
    /// Whether it was said that there are no more of them.
    is_done: bool,
}

impl ReproExporter {
    /// Beside this trace.
    pub(crate) fn new(trace: &Path) -> Self {
        Self { trace: trace.to_owned(), written: 0, is_done: false }
    }

    fn failure(&self, event: &Event) -> Failure {
        let text = |key: &str| event.field(key).map(ToString::to_string);
        let mut about = vec![match text("kind") {
            Some(kind) => format!("{}: {kind}", event.name),
            None => event.name.to_owned(),
        }];
        about.extend(text("payload"));
        let at = humantime::format_rfc3339_micros(event.at);
        about.push(format!("in {}, {at}, on {}", self.trace.display(), event.track));
        if !event.path.is_empty() {
            about.push(format!("within {}", event.path.join(" > ")));
        }
        Failure {
            about,
            library: text("library"),
            module: text("module"),
            function: text("function"),
            arguments: text("arguments"),
        }
    }
}

impl MetricExporter for ReproExporter {
    fn export(&mut self, event: &Event) -> Result<(), ExportError> {
        if self.is_done || event.field("function").is_none() {
            return Ok(());
        }
        // One that cannot be made into a script is in the trace all the same.
        let Ok(script) = self.failure(event).script(Language::Python) else { return Ok(()) };
        if self.written == MOST_SCRIPTS {
            self.is_done = true;
            let trace = self.trace.display();
            crate::settings::warn(format!(
                "{MOST_SCRIPTS} scripts of errors are written, and no more will be; \
                 `analyze repro {trace}` makes one of any error"
            ));
            return Ok(());
        }
        let mut name = self.trace.file_stem().unwrap_or_default().to_owned();
        name.push(format!(".error-{}.py", self.written + 1));
        let path = self.trace.with_file_name(name);
        write(&path, &script)
            .map_err(|error| format!("{}: cannot write: {error}", path.display()))?;
        self.written += 1;
        Ok(())
    }

    fn name(&self) -> String {
        "repro".to_owned()
    }
}

fn write(path: &Path, script: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o755).open(path)?;
    file.write_all(script.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use ringscope_format::{Kind, Status};

    use super::*;
    use crate::handlers::Field;

    #[test]
    fn what_fails_in_a_loop_has_a_hundred_scripts() {
        let dir = tempfile::tempdir().unwrap();
        let mut exporter = ReproExporter::new(&dir.path().join("run.trace"));
        let field = |key, text: &str| (key, Field::Text(text.to_owned()));
        let event = Event {
            name: "call.exception",
            kind: Kind::ERROR,
            status: Status::ERROR,
            track: "main".into(),
            track_id: 1,
            began_on: None,
            at: SystemTime::UNIX_EPOCH,
            duration: None,
            value: None,
            path: Vec::new(),
            fields: vec![field("library", "math"), field("function", "sqrt")],
            request: None,
        };
        for _ in 0..105 {
            exporter.export(&event).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 100);
        let last = dir.path().join("run.error-100.py");
        assert!(last.exists(), "the first hundred are kept");
    }
}
