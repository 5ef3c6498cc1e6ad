//! The two programs that are compared: `analyze`, and Python with Polars.
//!
//! Neither is a dependency of the bench, so that whoever wants to know what
//! recording costs waits for no build of Polars. Cargo builds `analyze` on demand,
//! into the directory of this program; `pip` installs Polars' own wheels below it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// What `pip` installs.
const REQUIREMENTS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/polars/requirements.txt"));

/// The version of a package that `pip` installs.
pub(crate) fn python_version_of(package: &str) -> Option<&'static str> {
    let mut pinned = REQUIREMENTS.lines().filter_map(|line| line.split_once("=="));
    pinned.find(|(name, _)| *name == package).map(|(_, version)| version)
}

/// `analyze`, up to date. A quick run takes it as it finds it.
pub(crate) fn analyze(quick: bool) -> Result<PathBuf> {
    let target = target()?;
    let program = target.join("release").join(format!("analyze{}", std::env::consts::EXE_SUFFIX));
    if quick && program.exists() {
        return Ok(program);
    }
    eprintln!("analyze: building ringscope-analyzer; the first time takes 12 minutes on 2 cores");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo)
        .args(["build", "--release", "--bins", "--locked", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../analyzer/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target))?;
    Ok(program)
}

/// Python, with Polars installed for it.
pub(crate) fn python() -> Result<PathBuf> {
    let home = target()?.join("polars");
    let python = home.join("bin/python");
    let installed = home.join("requirements.txt");
    if std::fs::read_to_string(&installed).is_ok_and(|it| it == REQUIREMENTS) {
        return Ok(python);
    }
    eprintln!(
        "analyze: installing {}",
        REQUIREMENTS.split_whitespace().collect::<Vec<_>>().join(", ")
    );
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))?;
    let wanted = home.join("wanted.txt");
    std::fs::write(&wanted, REQUIREMENTS)?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&wanted))?;
    std::fs::rename(&wanted, &installed)?;
    Ok(python)
}

/// The target directory that this program lies in.
pub(crate) fn target() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("no target directory above this program")?;
    Ok(target.to_owned())
}

/// Runs to its end what makes ready. Standard output is for figures.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) => ensure!(status.success(), "{command:?}: {status}"),
        Err(error) => bail!("{command:?}: {error}"),
    }
    Ok(())
}
