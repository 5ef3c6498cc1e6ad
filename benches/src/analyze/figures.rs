//! The figures, for machines and for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::machine::Machine;

#[derive(Serialize)]
pub(crate) struct Figures {
    machine: Machine,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) quick: bool,
    records: u64,
    /// By name: count, sum, mean, p50, p95, p99, max.
    pub(crate) group_by_s: f64,
    pub(crate) group_by_cpu_s: f64,
    pub(crate) peak_mib: f64,
    pub(crate) polars_parquet_s: Option<f64>,
    pub(crate) polars_cpu_s: Option<f64>,
    pub(crate) polars_peak_mib: Option<f64>,
    /// With percentiles and without.
    pub(crate) polars_engines: Option<[&'static str; 2]>,
    pub(crate) group_by_over_polars: Option<f64>,
    /// The same without percentiles.
    pub(crate) plain_s: f64,
    pub(crate) polars_plain_s: Option<f64>,
    pub(crate) plain_over_polars: Option<f64>,
    /// `spans` as it is asked for usually: with self time, and others together.
    pub(crate) spans_over_group_by: f64,
    pub(crate) report_s: f64,
    pub(crate) report_over_group_by: f64,
    pub(crate) report_peak_mib: f64,
    pub(crate) bytes_per_record: f64,
    pub(crate) parquet_bytes_per_record: Option<f64>,
    pub(crate) start_ms: f64,
    /// Nanoseconds a record of the group-by, by millions of records.
    pub(crate) growth: BTreeMap<u64, f64>,
    /// Where the answers of both sides differ.
    pub(crate) differences: Vec<String>,
    omitted: Vec<String>,
    omitted_because: BTreeMap<String, String>,
}

impl Figures {
    pub(crate) fn new(machine: Machine, quick: bool, records: u64) -> Self {
        Figures {
            machine,
            versions: BTreeMap::new(),
            quick,
            records,
            group_by_s: 0.0,
            group_by_cpu_s: 0.0,
            peak_mib: 0.0,
            polars_parquet_s: None,
            polars_cpu_s: None,
            polars_peak_mib: None,
            polars_engines: None,
            group_by_over_polars: None,
            plain_s: 0.0,
            polars_plain_s: None,
            plain_over_polars: None,
            spans_over_group_by: 0.0,
            report_s: 0.0,
            report_over_group_by: 0.0,
            report_peak_mib: 0.0,
            bytes_per_record: 0.0,
            parquet_bytes_per_record: None,
            start_ms: 0.0,
            growth: BTreeMap::new(),
            differences: Vec::new(),
            omitted: Vec::new(),
            omitted_because: BTreeMap::new(),
        }
    }

    /// Names a key that this run leaves out, and why.
    pub(crate) fn omit(&mut self, key: &str, why: impl Into<String>) {
        self.omitted.push(key.to_owned());
        self.omitted_because.insert(key.to_owned(), why.into());
    }

    /// What the figures take for granted and this run did not keep.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let differs = |it: &String| format!("analyze and Polars do not agree: {it}");
        self.differences.iter().map(differs).collect()
    }
}

/// The figures for people.
pub(crate) fn table(figures: &Figures) -> String {
    let mut text = figures.machine.heading();
    for (name, version) in &figures.versions {
        let _ = writeln!(text, "{name} {version}");
    }
    let mut table = Table::new();
    let title = format!("{} million records", figures.records as f64 / 1e6);
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_header([&title, "analyze", "Polars", "ratio", "goal"]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let shown = |value: Option<f64>, unit: &str| {
        value.map_or_else(String::new, |value| format!("{value:.2}{unit}"))
    };
    let mut row = |name: &str, ours: f64, theirs: Option<f64>, unit: &str, ratio, goal: &str| {
        let cells = [shown(Some(ours), unit), shown(theirs, unit), shown(ratio, "")];
        let [ours, theirs, ratio] = cells;
        table.add_row([name.to_owned(), ours, theirs, ratio, goal.to_owned()]);
    };
    let f = figures;
    let engine = |at: usize| {
        f.polars_engines.map_or(String::new(), |it| format!(" (Polars: {} engine)", it[at]))
    };
    row(
        &format!("by name, with percentiles{}", engine(0)),
        f.group_by_s,
        f.polars_parquet_s,
        " s",
        f.group_by_over_polars,
        "ratio 0.5",
    );
    row("  CPU time of that", f.group_by_cpu_s, f.polars_cpu_s, " s", None, "");
    row("  peak memory of that", f.peak_mib, f.polars_peak_mib, " MiB", None, "1024 MiB");
    row(
        &format!("without percentiles{}", engine(1)),
        f.plain_s,
        f.polars_plain_s,
        " s",
        f.plain_over_polars,
        "ratio 1",
    );
    row("spans, over the first row", f.spans_over_group_by, None, " x", None, "");
    row("whole report", f.report_s, None, " s", None, "");
    row("  over the first row", f.report_over_group_by, None, " x", None, "2 x");
    row("  peak memory of that", f.report_peak_mib, None, " MiB", None, "1024 MiB");
    row("bytes a record", f.bytes_per_record, f.parquet_bytes_per_record, "", None, "5.3");
    for (millions, ns) in &f.growth {
        row(&format!("a record, of {millions} million"), *ns, None, " ns", None, "all alike");
    }
    row("report of a small trace", f.start_ms, None, " ms", None, "60 ms");
    let _ = write!(text, "\n{table}\n");
    if !f.omitted.is_empty() {
        text.push_str("\nnot measured:\n");
        for key in &f.omitted {
            let _ = writeln!(text, "  {key}: {}", f.omitted_because[key]);
        }
    }
    text
}

/// Three decimals: more would be noise in every figure here.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
