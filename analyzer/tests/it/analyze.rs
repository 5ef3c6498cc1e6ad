//! Runs the binary.

use std::{
    ffi::OsStr,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The output of a run that went well and complained about nothing.
    pub(crate) fn clean(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self.stdout
    }

    pub(crate) fn json(self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).expect("JSON")
    }

    /// A run that ended with a message and nothing on standard output.
    pub(crate) fn refusal(self) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self.stderr
    }
}

fn command(dir: &Path, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_analyze"));
    command.args(arguments).current_dir(dir).env("COLUMNS", "120").env_remove("NO_COLOR");
    command
}

/// Runs `analyze` in a directory.
pub(crate) fn analyze(dir: &Path, arguments: &[impl AsRef<OsStr>]) -> Run {
    finish(command(dir, arguments).stdin(Stdio::null()).output().expect("analyze runs"))
}

/// The same with something on its standard input.
pub(crate) fn analyze_fed(dir: &Path, arguments: &[&str], input: &[u8]) -> Run {
    let mut child = command(dir, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("analyze runs");
    // It may end without reading everything.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    finish(child.wait_with_output().expect("analyze ends"))
}

fn finish(output: std::process::Output) -> Run {
    Run {
        code: output.status.code().expect("not killed by a signal"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}
