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

/// The same with its output in a pipe and nobody to say how wide it should be.
pub(crate) fn analyze_piped(dir: &Path, arguments: &[&str]) -> Run {
    let mut command = command(dir, arguments);
    command.env_remove("COLUMNS");
    finish(command.stdin(Stdio::null()).output().expect("analyze runs"))
}

/// The same started by another program, which takes it as its last arguments.
pub(crate) fn analyze_under(
    launcher: &str,
    options: &[&str],
    dir: &Path,
    arguments: &[&str],
) -> Run {
    let inner = command(dir, arguments);
    let mut outer = Command::new(launcher);
    outer.args(options).arg(inner.get_program()).args(inner.get_args()).current_dir(dir);
    finish(outer.stdin(Stdio::null()).output().expect("the launcher runs"))
}

/// The same in a terminal of its own, 120 columns wide and without colours: `script` gives it one.
pub(crate) fn analyze_in_terminal(dir: &Path, arguments: &[&str]) -> Run {
    let inner = command(dir, arguments);
    let words = std::iter::once(inner.get_program()).chain(inner.get_args());
    let quoted: Vec<String> =
        words.map(|it| format!("'{}'", it.to_str().expect("UTF-8"))).collect();
    let line = format!("stty cols 120 rows 40; {}", quoted.join(" "));
    let mut outer = Command::new("script");
    outer.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(dir);
    outer.env("TERM", "xterm").env("NO_COLOR", "1");
    finish(outer.stdin(Stdio::null()).output().expect("script(1) runs"))
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

/// The most memory that a run held, in KiB; it has to end well.
#[cfg(all(target_os = "linux", any(feature = "nsight", feature = "parquet")))]
pub(crate) fn peak_kib(dir: &Path, arguments: &[&str]) -> u64 {
    let mut child = command(dir, arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("analyze runs");
    let mut peak = 0;
    loop {
        let path = format!("/proc/{}/status", child.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        if let Some(status) = child.try_wait().expect("a child") {
            assert!(status.success());
            return peak;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn finish(output: std::process::Output) -> Run {
    Run {
        code: output.status.code().expect("not killed by a signal"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}
