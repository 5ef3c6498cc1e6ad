//! The two programs that are compared: `analyze`, and `benches/polars-peer`.
//!
//! Neither is a dependency of the bench, so that whoever wants to know what
//! recording costs does not wait for two builds of Polars. Cargo builds them on
//! demand, into the directory of this program and below.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The crates that the peer is built from.
pub(crate) const PEER_LOCK_FILE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/polars-peer/Cargo.lock"));

/// `analyze`, up to date. A quick run takes it as it finds it.
pub(crate) fn analyze(quick: bool) -> Result<PathBuf> {
    let target = target()?;
    let program = program(&target, "analyze");
    if !(quick && program.exists()) {
        eprintln!("analyze: building ringscope-analyzer; the first time takes 15 minutes");
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../analyzer/Cargo.toml");
        build(&manifest, &target)?;
    }
    Ok(program)
}

/// The peer, up to date. A quick run takes it as it finds it, or not at all.
pub(crate) fn peer(quick: bool) -> Result<PathBuf> {
    let target = target()?.join("polars-peer");
    let program = program(&target, "polars-peer");
    if !quick {
        eprintln!("analyze: building benches/polars-peer; the first time takes 20 minutes");
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("polars-peer/Cargo.toml");
        build(&manifest, &target)?;
    }
    ensure!(program.exists(), "benches/polars-peer is not built; a run without --quick does that");
    Ok(program)
}

fn program(target: &Path, name: &str) -> PathBuf {
    target.join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// The target directory that this program lies in.
fn target() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("no target directory above this program")?;
    Ok(target.to_owned())
}

fn build(manifest: &Path, target: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--bins", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .stdin(Stdio::null())
        // Standard output is for figures.
        .stdout(Stdio::null())
        .status()
        .context("cargo is needed to build what is measured")?;
    ensure!(status.success(), "cargo could not build {}", manifest.display());
    Ok(())
}
