//! Lists traces: what was recorded, what was lost, where the time went, and what
//! the program was doing at the end.
//!
//!     cargo run --release -p ringscope-format --example list -- run.trace

mod listing;
mod readable;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: list TRACE...";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.is_empty() || arguments.iter().any(|it| it == "--help" || it == "-h") {
        eprintln!("{USAGE}");
        return ExitCode::from(if arguments.is_empty() { 2 } else { 0 });
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let mut code = ExitCode::SUCCESS;
    for (at, path) in arguments.iter().map(Path::new).enumerate() {
        match listing::read(path) {
            Ok(report) => {
                let gap = if at > 0 { "\n" } else { "" };
                let printed = write!(out, "{gap}").and_then(|()| report.print(path, &mut out));
                match printed.and_then(|()| out.flush()) {
                    Ok(()) => {}
                    // Whoever reads us has seen enough.
                    Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => return code,
                    Err(cause) => {
                        eprintln!("standard output: {cause}");
                        return ExitCode::from(2);
                    }
                }
            }
            Err(error) => {
                eprintln!("{}: {error}", path.display());
                code = ExitCode::from(2);
            }
        }
    }
    code
}
