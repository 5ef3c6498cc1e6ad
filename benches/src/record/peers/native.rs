//! Tracers for C: a small library is compiled when it is needed, against what is
//! installed, and loaded into the child process, which then measures it like
//! any other subject.

#![allow(unsafe_code)] // calls into a library compiled from a source in this crate

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use libloading::Library;

use crate::machine::first_line;

/// The functions that every such library exports.
struct Bursts {
    burst: unsafe extern "C" fn(u32),
    nested_burst: unsafe extern "C" fn(u32),
}

/// One a process is enough: a child measures one subject.
static BURSTS: OnceLock<Bursts> = OnceLock::new();

/// Whether there is a C compiler here that finds `header`.
pub(crate) fn compiler_finds(header: &str) -> bool {
    Command::new("cc")
        .args(["-E", "-x", "c", "-include", header, "/dev/null"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// The version number in a program's line about its version.
pub(crate) fn version_of(program: &str) -> Option<String> {
    let line = first_line(program, &["--version"])?;
    let number = line.split_ascii_whitespace().map(|word| word.trim_start_matches('v'));
    let number = number.into_iter().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    number.map(str::to_owned)
}

/// Compiles `sources`, each a file name and its text, the first being the one
/// to compile, into a library in `dir`, and loads it.
pub(crate) fn compile_and_load(sources: &[(&str, &str)], flags: &[&str], dir: &Path) -> Result<()> {
    for (name, text) in sources {
        fs::write(dir.join(name), text)?;
    }
    let library: PathBuf = dir.join("subject.so");
    let (main, _) = sources.first().context("nothing to compile")?;
    let output = Command::new("cc")
        .current_dir(dir)
        .args(["-O2", "-fPIC", "-shared", "-I.", main, "-o"])
        .arg(&library)
        .args(flags)
        .output()?;
    let reason = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cc: {}", reason.trim());
    // SAFETY: the library is the one just compiled from a source in this crate,
    // which declares both functions with these types.
    let bursts = unsafe {
        let library = Library::new(&library)?;
        let bursts = Bursts {
            burst: *library.get(c"ringscope_bench_burst")?,
            nested_burst: *library.get(c"ringscope_bench_nested_burst")?,
        };
        // The tracer's own threads may hold on to it; it stays for good.
        std::mem::forget(library);
        bursts
    };
    ensure!(BURSTS.set(bursts).is_ok(), "a child measures one native subject");
    Ok(())
}

pub(crate) fn burst(spans: u32) {
    if let Some(bursts) = BURSTS.get() {
        // SAFETY: takes a number and may be called from any thread.
        unsafe { (bursts.burst)(spans) }
    }
}

pub(crate) fn nested_burst(outers: u32) {
    if let Some(bursts) = BURSTS.get() {
        // SAFETY: as above.
        unsafe { (bursts.nested_burst)(outers) }
    }
}
