//! Runs one measurement in a process of its own: this program again, with a
//! hidden subcommand.
//!
//! A library that keeps global state, starts threads or leaves memory behind
//! then disturbs nobody else's figure. The task travels as JSON in an argument,
//! the result as JSON in a file, because some peers write to standard output.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// Far beyond the longest task, so it only ends what hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// The command line of a child for `task`, run under `launcher` if that is not
/// empty; its result will be in `result`.
pub(crate) fn command(
    task: &impl Serialize,
    launcher: &[OsString],
    result: &Path,
) -> Result<Command> {
    let program = std::env::current_exe().context("own executable")?;
    let mut command = match launcher {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command.arg("child").arg(serde_json::to_string(task)?).arg(result);
    Ok(command)
}

/// A child's answer, and the directory with its files, which goes when this is
/// dropped.
pub(crate) struct Answer<R> {
    pub(crate) result: R,
    pub(crate) dir: TempDir,
}

/// Runs `task` in a child with a directory of its own in `scratch` and waits
/// for its answer. `launcher` is told the directory.
pub(crate) fn run<R: DeserializeOwned>(
    task: &impl Serialize,
    environment: &[(&str, &str)],
    launcher: impl FnOnce(&Path) -> Vec<OsString>,
    scratch: &Path,
) -> Result<Answer<R>> {
    let dir = tempfile::Builder::new().prefix("child-").tempdir_in(scratch)?;
    let result = dir.path().join("result.json");
    let complaints = dir.path().join("stderr");
    let mut child = command(task, &launcher(dir.path()), &result)?
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&complaints)?)
        .spawn()
        .context("starting a child of the bench")?;
    let status = wait(&mut child)?;
    if !status.is_some_and(|status| status.success()) {
        let text = fs::read_to_string(&complaints).unwrap_or_default();
        let reason = text.trim().lines().last().unwrap_or("no message").to_owned();
        match status {
            Some(status) => bail!("{status}: {reason}"),
            None => bail!("no answer within {} s: {reason}", PATIENCE.as_secs()),
        }
    }
    let text = fs::read_to_string(&result).context("a child left no result")?;
    Ok(Answer { result: serde_json::from_str(&text)?, dir })
}

/// Polls rather than blocks, so that a child that hangs can be ended. The
/// status is `None` for one that had to be.
fn wait(child: &mut Child) -> Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Where a child keeps its files: beside its result, so the parent removes both.
pub(crate) fn scratch(result: &Path) -> PathBuf {
    result.parent().unwrap_or(Path::new(".")).to_owned()
}
