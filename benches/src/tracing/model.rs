//! A whole candle model: `benches/programs`, built by cargo when it is out of date,
//! run with and without the subscriber. A quick run takes it as it finds it.
//!
//! Instructions are counted by callgrind, on the one thread that candle is given: the
//! recorder's own threads are in the count too. Wall times on a shared machine cannot tell
//! one per cent. Counts differ by a thousandth from run to run, by which thread comes first to
//! candle's pool and to the allocator; of several the median is taken.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// What came of the model.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) instructions: Option<[u64; 2]>,
    /// Those within the forward pass alone.
    pub(crate) forward: Option<[u64; 2]>,
    pub(crate) why_no_instructions: Option<String>,
    pub(crate) bytes_per_token: f64,
    pub(crate) enters_per_token: f64,
    pub(crate) lost: u64,
    /// Peak memory, recorded and not.
    pub(crate) peak_mib: [f64; 2],
    pub(crate) peers_bytes_per_token: Vec<(&'static str, f64)>,
}

const TOKENS: u32 = 64;
/// Runs under callgrind of which the median counts, with and without the subscriber in turns.
const COUNTED_RUNS: usize = 3;
/// What runs for every token, on the model's thread.
const FORWARD: &str = "candle_transformers::models::llama::Llama::forward";
/// Enough that what every file has, whatever is in it, does not count.
const TOKENS_FOR_BYTES: u32 = 2_000;

pub(crate) fn measure(quick: bool, scratch: &Path) -> Result<Model> {
    let program = if quick { built()? } else { build()? };
    let run = |subscriber: &str, tokens: u32| run(&program, subscriber, tokens, scratch);
    let recorded = run("ringscope", TOKENS)?;
    let unrecorded = run("none", TOKENS)?;
    let number = |said: &HashMap<String, f64>, key: &str| {
        said.get(key).copied().with_context(|| format!("the model did not say `{key}`"))
    };
    let long = run("ringscope", if quick { 500 } else { TOKENS_FOR_BYTES })?;
    let mib = |said| Ok::<_, anyhow::Error>(number(said, "peak_kib")? / 1_024.0);
    let mut model = Model {
        bytes_per_token: number(&long, "file_bytes")? / number(&long, "tokens")?,
        enters_per_token: number(&recorded, "events")? / f64::from(TOKENS),
        lost: number(&long, "lost")? as u64,
        peak_mib: [mib(&recorded)?, mib(&unrecorded)?],
        ..Model::default()
    };
    ensure!(
        number(&recorded, "last_token")? == number(&unrecorded, "last_token")?,
        "the model says something else when it is recorded"
    );
    if quick {
        model.why_no_instructions = Some("takes minutes under callgrind".into());
        return Ok(model);
    }
    for peer in ["chrome", "json"] {
        let said = run(peer, TOKENS)?;
        model.peers_bytes_per_token.push((peer, number(&said, "file_bytes")? / f64::from(TOKENS)));
    }
    let count = |part: Option<&str>| -> Result<[u64; 2]> {
        eprintln!("tracing: {} under callgrind", part.unwrap_or("the model"));
        let mut counts = [const { Vec::new() }; 2];
        for _ in 0..COUNTED_RUNS {
            for (counts, subscriber) in counts.iter_mut().zip(["ringscope", "none"]) {
                counts.push(instructions(&program, subscriber, part, scratch)?);
            }
        }
        Ok(counts.map(|mut counts| {
            counts.sort_unstable();
            counts[COUNTED_RUNS / 2]
        }))
    };
    match count(None).and_then(|whole| Ok((whole, count(Some(FORWARD))?))) {
        Ok((whole, forward)) => {
            (model.instructions, model.forward) = (Some(whole), Some(forward));
        }
        Err(error) => model.why_no_instructions = Some(format!("{error:#}")),
    }
    Ok(model)
}

/// Where programs are built: a directory of its own beside this one.
fn target() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.ancestors().nth(2).context("no target directory above this program")?;
    Ok(target.join("programs"))
}

fn program(target: &Path) -> PathBuf {
    target.join("release").join("llama")
}

/// The program as an earlier run has left it: candle takes minutes to build.
fn built() -> Result<PathBuf> {
    let program = program(&target()?);
    ensure!(program.exists(), "{}: not built; a run without --quick does", program.display());
    Ok(program)
}

/// The program, up to date.
fn build() -> Result<PathBuf> {
    eprintln!("tracing: building the model; the first time takes minutes");
    let target = target()?;
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--release", "--bin", "llama"])
        .args(["--manifest-path", manifest])
        .arg("--target-dir")
        .arg(&target)
        .output()
        .context("cargo is needed to build the model")?;
    let reason = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo could not build the model: {}", reason.trim());
    Ok(program(&target))
}

fn command(program: &Path, subscriber: &str, tokens: u32, scratch: &Path) -> Vec<String> {
    let file = scratch.join(format!("llama-{subscriber}-{tokens}"));
    let words = [program.display().to_string(), "--subscriber".into(), subscriber.into()];
    let more = ["--tokens".into(), tokens.to_string(), "--file".into(), file.display().to_string()];
    words.into_iter().chain(more).collect()
}

/// Runs the model, and returns what it says.
fn run(
    program: &Path,
    subscriber: &str,
    tokens: u32,
    scratch: &Path,
) -> Result<HashMap<String, f64>> {
    let words = command(program, subscriber, tokens, scratch);
    let output = Command::new(&words[0])
        .args(&words[1..])
        .env("RAYON_NUM_THREADS", "1")
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| words[0].clone())?;
    ensure!(output.status.success(), "the model failed with {subscriber}: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let pair = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        Some((key.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(pair).collect())
}

/// Instructions of all threads of the model, or of one function and what it calls.
fn instructions(
    program: &Path,
    subscriber: &str,
    part: Option<&str>,
    scratch: &Path,
) -> Result<u64> {
    let words = command(program, subscriber, TOKENS, scratch);
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(part.map(|function| format!("--toggle-collect={function}")))
        .args(&words)
        .env("RAYON_NUM_THREADS", "1")
        .stdout(Stdio::null())
        .output()
        .context("valgrind, which counts instructions, is not here")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted =
        said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    match counted {
        Some(counted) if output.status.success() && counted > 0 => Ok(counted),
        _ => bail!("callgrind: {}", said.lines().last().unwrap_or("no message")),
    }
}
