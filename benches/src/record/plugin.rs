//! Ringscope inside a shared library that is loaded at run time, where every
//! access to a thread-local goes through a call into the loader.
//!
//! The library (`benches/plugin`) carries a ringscope of its own, as any cdylib
//! does. It is built by cargo on demand, into the directory of this program.

#![allow(unsafe_code)] // calls into a library whose symbols are looked up by name

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use libloading::Library;

use super::subject::{NEST, Outcome, Session, Subject};

pub(crate) struct Plugin;

/// The functions of `benches/plugin/src/lib.rs`, as declared there.
struct Functions {
    start: unsafe extern "C" fn(*const u8, usize) -> bool,
    burst: unsafe extern "C" fn(u32),
    handle_burst: unsafe extern "C" fn(u32),
    flush: unsafe extern "C" fn(),
    finish: unsafe extern "C" fn(*mut u64, *mut u64) -> bool,
}

/// Loaded once and never unloaded: the recorder's threads run its code.
static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

struct Loaded {
    functions: &'static Functions,
    file: PathBuf,
}

fn directory() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().context("this program lies in no directory")?.to_owned())
}

fn library() -> Result<PathBuf> {
    Ok(directory()?.join(libloading::library_filename("ringscope_bench_plugin")))
}

/// Builds the library beside this program, with the same profile. Cheap when
/// it is up to date.
pub(crate) fn build() -> Result<()> {
    let directory = directory()?;
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(profile) => profile,
        None => bail!("cannot tell the build profile from this program's directory"),
    };
    let target = directory.parent().context("no target directory above this program")?;
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/plugin/Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--profile", profile, "--manifest-path", manifest])
        .arg("--target-dir")
        .arg(target)
        .output()
        .context("cargo is needed to build the library")?;
    let reason = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo could not build the library: {}", reason.trim());
    Ok(())
}

fn load() -> Result<&'static Functions> {
    if let Some(functions) = FUNCTIONS.get() {
        return Ok(functions);
    }
    let path = library()?;
    // SAFETY: the library has no initialisers of its own beyond Rust's, and the
    // types below are those of its source, which is built from this checkout.
    let functions = unsafe {
        let library = Library::new(&path).with_context(|| path.display().to_string())?;
        let functions = Functions {
            start: *library.get(c"ringscope_bench_plugin_start")?,
            burst: *library.get(c"ringscope_bench_plugin_burst")?,
            handle_burst: *library.get(c"ringscope_bench_plugin_handle_burst")?,
            flush: *library.get(c"ringscope_bench_plugin_flush")?,
            finish: *library.get(c"ringscope_bench_plugin_finish")?,
        };
        // The pointers above must stay good for as long as the process lives.
        std::mem::forget(library);
        functions
    };
    Ok(FUNCTIONS.get_or_init(|| functions))
}

impl Subject for Plugin {
    fn name(&self) -> &'static str {
        "ringscope-plugin"
    }

    fn setup(&self) -> &'static str {
        "ringscope inside a library loaded at run time"
    }

    fn start(&self, dir: &Path) -> Result<Box<dyn Session>> {
        let functions = load()?;
        let file = dir.join("plugin.trace");
        let path = file.to_str().context("the path is not UTF-8")?;
        // SAFETY: the bytes live until the call returns, and it copies them.
        let started = unsafe { (functions.start)(path.as_ptr(), path.len()) };
        ensure!(started, "the library could not start its recorder");
        Ok(Box::new(Loaded { functions, file }))
    }

    fn burst(&self, spans: u32) {
        if let Some(functions) = FUNCTIONS.get() {
            // SAFETY: takes a number, touches the library's own state only.
            unsafe { (functions.burst)(spans) }
        }
    }

    fn handle_burst(&self) -> Option<fn(u32)> {
        Some(|spans| {
            if let Some(functions) = FUNCTIONS.get() {
                // SAFETY: as in `burst`.
                unsafe { (functions.handle_burst)(spans) }
            }
        })
    }

    fn nested_burst(&self, outers: u32) {
        self.burst(outers * NEST);
    }

    fn around(&self, work: &mut dyn FnMut()) {
        self.burst(1);
        work();
    }
}

impl Session for Loaded {
    fn settle(&self) {
        // SAFETY: no arguments; the library's recorder is running.
        unsafe { (self.functions.flush)() }
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        let (mut stored, mut lost) = (0, 0);
        // SAFETY: both numbers are ours and outlive the call.
        let finished = unsafe { (self.functions.finish)(&raw mut stored, &raw mut lost) };
        ensure!(finished, "the library could not finish its trace");
        let file_bytes = Some(fs::metadata(&self.file)?.len());
        Ok(Outcome { kept: Some(stored), lost: Some(lost), file_bytes })
    }
}
