//! `analyze`: what a trace has to say.

use std::process::ExitCode;

use clap::Parser;
use ringscope_analyzer::{Exit, cli::Cli};

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(exit) => ExitCode::from(exit as u8),
        // `analyze ... | head` is no failure.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("analyze: {error}");
            ExitCode::from(Exit::Unusable as u8)
        }
    }
}
