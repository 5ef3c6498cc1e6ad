//! What a trace says about where it was recorded.

#![allow(unsafe_code)] // gethostname

use std::io::Read;

/// The user's pairs behind those of the machine.
pub(crate) fn metadata(given: &[(String, String)]) -> Vec<(String, String)> {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let command: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let own = [
        ("host.name", host_name()),
        ("host.os", std::env::consts::OS.to_owned()),
        ("host.arch", std::env::consts::ARCH.to_owned()),
        ("host.cpus", cpus.to_string()),
        ("host.cpu", cpu()),
        ("process.command", command.join(" ")),
        ("recorder.version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    own.map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .chain(given.iter().cloned())
        .collect()
}

/// The processor's model as the kernel calls it; empty where it does not say. Runs on
/// another model cannot be compared, even if there are as many of it.
fn cpu() -> String {
    // The file repeats itself for each of many processors: the first one will do.
    let mut first = [0; 1_024];
    let read = std::fs::File::open("/proc/cpuinfo").and_then(|mut file| file.read(&mut first));
    let mut lines = first[..read.unwrap_or(0)].split(|byte| *byte == b'\n');
    let model = lines.find_map(|line| line.strip_prefix(b"model name"));
    let model = model.and_then(|line| std::str::from_utf8(line).ok()?.split_once(':'));
    model.map_or_else(String::new, |(_, model)| model.trim().to_owned())
}

fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer is valid for its length, less one byte that stays zero.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    if failed { String::new() } else { String::from_utf8_lossy(&name[..end]).into_owned() }
}
