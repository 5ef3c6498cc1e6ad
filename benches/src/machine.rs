//! Where and with what a run was made: processor, system, compiler, versions
//! of the crates compared, date. Without these a figure is hearsay.
//!
//! Host names and paths are left out: results get published.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The crates and features this binary was built from.
const LOCK_FILE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock"));

#[derive(Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: Option<u64>,
    pub(crate) system: String,
    /// File system under the files that a run writes.
    pub(crate) file_system: String,
    pub(crate) rustc: String,
    pub(crate) date: String,
}

impl Machine {
    pub(crate) fn describe(scratch: &Path) -> Self {
        let uname = rustix::system::uname();
        Machine {
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_gib(),
            system: format!(
                "{} {} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy(),
                uname.machine().to_string_lossy()
            ),
            file_system: file_system(scratch).unwrap_or_else(|| "unknown".into()),
            rustc: first_line("rustc", &["--version"]).unwrap_or_else(|| "rustc unknown".into()),
            date: OffsetDateTime::now_utc()
                .replace_nanosecond(0)
                .ok()
                .and_then(|now| now.format(&Rfc3339).ok())
                .unwrap_or_default(),
        }
    }

    /// Two lines for the top of a table.
    pub(crate) fn heading(&self) -> String {
        let memory = self.memory_gib.map_or(String::new(), |gib| format!(", {gib} GiB"));
        format!(
            "{}, {} cores{memory}, {}, traces on {}\n{}, {}\n",
            self.processor, self.cores, self.system, self.file_system, self.rustc, self.date
        )
    }
}

/// The version of a crate in the lock file this binary was built with. Of
/// several, the last, which cargo sorts as the newest.
pub(crate) fn crate_version(name: &str) -> Option<&'static str> {
    let package = format!("name = \"{name}\"");
    let mut lines = LOCK_FILE.lines();
    let mut version = None;
    while let Some(line) = lines.next() {
        if line == package {
            version = lines.next()?.strip_prefix("version = \"")?.strip_suffix('"');
        }
    }
    version
}

/// The first line a program prints, or `None` where there is no such program.
pub(crate) fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

fn processor() -> String {
    let from_linux = || {
        let info = fs::read_to_string("/proc/cpuinfo").ok()?;
        let line = info.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    from_linux()
        .or_else(|| first_line("sysctl", &["-n", "machdep.cpu.brand_string"]))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn memory_gib() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib.div_ceil(1024 * 1024))
}

/// The type of the mount that holds `path`: the longest mount point above it.
fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    mounts
        .lines()
        .filter_map(|line| {
            let mut columns = line.split_ascii_whitespace();
            let (point, kind) = (columns.nth(1)?, columns.next()?);
            path.starts_with(point).then_some((point.len(), kind))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind.to_owned())
}
