//! `gate`: `analyze diff` on runs of a program that exists, on this machine as it is.
//!
//! The program is the recorder's example `kernels`. Base and head are recorded in turns,
//! each run in a process of its own: with the same code on both sides, which must not be
//! flagged, and with one kernel that does more, which should be, and nothing else but
//! the spans around it.

mod figures;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::analyze::programs;
use crate::machine::Machine;

pub(crate) use figures::{Figures, table};

/// What is asked on the command line.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// How many diffs of the same code, and as many with a slower kernel
    #[arg(long, default_value_t = 10)]
    diffs: usize,
    /// By how many percent the kernel does more
    #[arg(long, default_value_t = 15)]
    slower: u32,
}

/// Runs a side; the first one and three of them are compared as well.
const RUNS: usize = 5;
const DESIGNS: [usize; 3] = [1, 3, RUNS];
/// Kernels that are made slower in turn, and the spans that are around each.
const KERNELS: [(&str, &str); 10] = [
    ("softmax", "arithmetic"),
    ("sort", "memory"),
    ("parse", "text and maps"),
    ("matmul", "arithmetic"),
    ("gather", "memory"),
    ("lookup", "text and maps"),
    ("mandelbrot", "arithmetic"),
    ("checksum", "memory"),
    ("tree", "text and maps"),
    ("copy", "memory"),
];

/// Measures everything.
pub(crate) fn run(asked: &Asked, quick: bool, scratch: &Path) -> Result<Figures> {
    let diffs = if quick { asked.diffs.min(2) } else { asked.diffs };
    let bench = Bench { program: kernels()?, analyze: programs::analyze(true)?, scratch };
    let mut figures = Figures {
        machine: Machine::describe(scratch),
        quick,
        runs_a_side: RUNS,
        diffs,
        slower_percent: asked.slower,
        identical: BTreeMap::new(),
        slowed: BTreeMap::new(),
        flagged: Vec::new(),
        missed: Vec::new(),
        sample: String::new(),
    };
    for at in 0..diffs {
        eprintln!("gate: diff {} of {diffs}, the same code", at + 1);
        bench.record(None)?;
        for runs in DESIGNS {
            let found = bench.diff(runs)?;
            let key = format!("{runs}v{runs}");
            let outcome = figures.identical.entry(key.clone()).or_default();
            outcome.add(&found.changed, |_| false);
            outcome.undecided += u64::from(found.undecided);
            figures.flagged.extend(found.changed.iter().map(|it| format!("{key}: {it}")));
        }
        let (kernel, group) = KERNELS[at % KERNELS.len()];
        eprintln!("gate: diff {} of {diffs}, a slower {kernel}", at + 1);
        bench.record(Some(format!("{kernel}={}", asked.slower)))?;
        for runs in DESIGNS {
            let found = bench.diff(runs)?;
            let key = format!("{runs}v{runs}");
            let around = [group, "step"].map(|it| format!("{it} regression"));
            let wanted = format!("{kernel} regression");
            let outcome = figures.slowed.entry(key.clone()).or_default();
            outcome.add(&found.changed, |it| *it == wanted || around.contains(it));
            outcome.undecided += u64::from(found.undecided);
            if found.changed.contains(&wanted) {
                outcome.found += 1;
            } else {
                figures.missed.push(format!("{key}: {kernel}"));
            }
            let others = found.changed.iter().filter(|it| **it != wanted && !around.contains(it));
            figures.flagged.extend(others.map(|it| format!("{key}, {kernel} slower: {it}")));
            if at == 0 && runs == RUNS {
                figures.sample = found.table;
            }
        }
    }
    Ok(figures)
}

/// Builds the example.
fn kernels() -> Result<PathBuf> {
    let target = programs::target()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    programs::run(
        Command::new(cargo)
            .args(["build", "--release", "--locked", "--example", "kernels", "--manifest-path"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../recorder/Cargo.toml"))
            .arg("--target-dir")
            .arg(&target),
    )?;
    Ok(target.join("release/examples").join(format!("kernels{}", std::env::consts::EXE_SUFFIX)))
}

struct Bench<'a> {
    program: PathBuf,
    analyze: PathBuf,
    scratch: &'a Path,
}

/// What `analyze diff` said.
struct Found {
    /// Names and their verdicts.
    changed: Vec<String>,
    undecided: bool,
    table: String,
}

impl Bench<'_> {
    /// Records all runs of both sides, in turns; whichever begins is the other's turn next.
    fn record(&self, slower: Option<String>) -> Result<()> {
        for run in 0..RUNS {
            let sides = if run % 2 == 0 { ["b", "h"] } else { ["h", "b"] };
            for side in sides {
                let mut command = Command::new(&self.program);
                command.arg(self.scratch.join(format!("{side}{run}.trace")));
                if let (Some(slower), "h") = (&slower, side) {
                    command.args(["--slower", slower]);
                }
                command.stdout(Stdio::null()).stderr(Stdio::null());
                let status = command.status().with_context(|| format!("{command:?}"))?;
                ensure!(status.success(), "{command:?}: {status}");
            }
        }
        Ok(())
    }

    /// Compares the first so many runs a side.
    fn diff(&self, runs: usize) -> Result<Found> {
        let side = |side: &str| -> Vec<String> {
            (0..runs).map(|run| format!("{side}{run}.trace")).collect()
        };
        let table = self.scratch.join("diff.txt");
        let output = Command::new(&self.analyze)
            .current_dir(self.scratch)
            .args(["diff", "--format", "json", "--also", "table=diff.txt", "--base"])
            .args(side("b"))
            .arg("--head")
            .args(side("h"))
            .output()
            .context("analyze diff")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        // 3: too little to decide by, which a busy machine makes of one run a side.
        if !matches!(output.status.code(), Some(0 | 1 | 3)) {
            bail!("analyze diff: {}: {}", output.status, complaint.trim());
        }
        let document: Value = serde_json::from_slice(&output.stdout)?;
        let rows = document["rows"].as_array().context("no rows")?;
        let changed = rows.iter().filter_map(|row| {
            let verdict = row["verdict"].as_str()?;
            let is_change = matches!(verdict, "regression" | "improvement");
            is_change.then(|| format!("{} {verdict}", row["name"].as_str().unwrap_or_default()))
        });
        let mut changed: Vec<String> = changed.collect();
        if document["verdict"] == "regression" && changed.is_empty() {
            changed.push("everything regression".to_owned());
        }
        let undecided = output.status.code() == Some(3);
        Ok(Found { changed, undecided, table: std::fs::read_to_string(table)? })
    }
}
