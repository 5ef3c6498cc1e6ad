//! A hot loop with a recorder in it: a small inference-like pipeline on two
//! threads, and the report on what was recorded.
//!
//!     cargo demo

use std::{error::Error, ffi::OsString, hint::black_box, path::PathBuf, process::ExitCode, thread};

use clap::Parser;
use ringscope::{CallSite, Recorder, ThreadHandle, counter, event, gauge, span};
use ringscope_analyzer::cli::Cli;

const BLOCKS: usize = 4;
const WIDTH: usize = 192;

fn main() -> ExitCode {
    match record_and_report() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hot_loop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn record_and_report() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| "hot_loop.trace".into(), PathBuf::from);
    let recorder = Recorder::builder().path(&path).metadata("example", "hot_loop").start()?;

    let tokenizer = thread::Builder::new().name("tokenizer".into()).spawn(tokenize)?;
    generate(400);
    tokenizer.join().map_err(|_| "the tokenizer panicked")?;

    let summary = recorder.finish()?;
    eprintln!("{summary}\n");
    // What `analyze report hot_loop.trace` prints.
    let command = [OsString::from("analyze"), "report".into(), path.into()];
    Cli::try_parse_from(command)?.run()?;
    eprintln!(
        "\nto ask more (builds for a minute the first time): cargo run --release --no-default-features -- --help"
    );
    Ok(())
}

fn generate(tokens: usize) {
    let _span = span!("generate", tokens = tokens);
    let blocks: Vec<_> = (0..BLOCKS).map(|i| CallSite::named(&format!("block_{i}"))).collect();
    let mut state = vec![1.0_f32; WIDTH];
    for token in 0..tokens {
        let _span = span!("forward", token = token);
        for block in &blocks {
            let _span = span!(site: block);
            attention(&mut state);
            mlp(&mut state);
        }
        counter!("tokens", 1);
        gauge!("activation", state[0]);
        if token % 100 == 99 {
            event!("checkpoint", token = token, reason = "every hundred tokens");
        }
    }
}

fn attention(state: &mut [f32]) {
    let _span = span!("attention");
    mix(state, 0.25);
}

fn mlp(state: &mut [f32]) {
    let _span = span!("mlp");
    mix(state, 0.5);
    mix(state, 0.125);
}

fn mix(state: &mut [f32], weight: f32) {
    for i in 0..state.len() {
        let sum: f32 = black_box(&*state).iter().step_by(8).sum();
        state[i] = (state[i] * weight + sum * 0.05 + 0.1).tanh();
    }
}

/// The hottest loop of all: a handle saves the look-up of the thread.
fn tokenize() {
    let thread = ThreadHandle::current();
    let mut hash = 1_u64;
    for _ in 0..100_000 {
        let _span = span!(in thread, "token");
        for _ in 0..128 {
            hash = black_box(hash.rotate_left(5) ^ 0x9E37_79B9);
        }
    }
}
