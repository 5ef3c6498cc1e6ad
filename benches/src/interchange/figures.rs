//! The figures, for machines and for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::machine::Machine;

#[derive(Serialize)]
pub(crate) struct Figures {
    pub(crate) machine: Machine,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) quick: bool,
    /// Of the PyTorch trace.
    pub(crate) import_events: u64,
    pub(crate) import_file_mib: f64,
    /// `import`, then `kernels`.
    pub(crate) import_s: f64,
    pub(crate) python_json_s: Option<f64>,
    pub(crate) import_over_python_json: Option<f64>,
    pub(crate) import_peak_over_file: f64,
    /// Seconds that others take to parse the same file.
    pub(crate) peers_s: BTreeMap<String, f64>,
    pub(crate) export_records: u64,
    /// From the trace file to the Parquet file.
    pub(crate) parquet_export_s: f64,
    pub(crate) parquet_export_peak_mib: f64,
    /// From a frame in memory to the Parquet file.
    pub(crate) polars_write_s: Option<f64>,
    pub(crate) parquet_export_over_polars: Option<f64>,
    pub(crate) parquet_bytes_per_record: f64,
    pub(crate) polars_bytes_per_record: Option<f64>,
    pub(crate) parquet_size_over_polars: Option<f64>,
    /// What differs that must not.
    pub(crate) differences: Vec<String>,
    pub(crate) omitted: Vec<String>,
    pub(crate) omitted_because: BTreeMap<String, String>,
}

impl Figures {
    /// Names a key that this run leaves out, and why.
    pub(crate) fn omit(&mut self, key: &str, why: impl Into<String>) {
        self.omitted.push(key.to_owned());
        self.omitted_because.insert(key.to_owned(), why.into());
    }

    /// What the figures take for granted and this run did not keep.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.differences.clone()
    }
}

/// The figures for people.
pub(crate) fn table(figures: &Figures) -> String {
    let f = figures;
    let mut text = f.machine.heading();
    for (name, version) in &f.versions {
        let _ = writeln!(text, "{name} {version}");
    }
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["", "analyze", "peer", "ratio", "goal"]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let shown = |value: Option<f64>, unit: &str| {
        value.map_or_else(String::new, |value| format!("{value:.2}{unit}"))
    };
    let mut row = |name: String, ours: Option<f64>, theirs, unit: &str, ratio, goal: &str| {
        let cells = [shown(ours, unit), shown(theirs, unit), shown(ratio, "")];
        let [ours, theirs, ratio] = cells;
        table.add_row([name, ours, theirs, ratio, goal.to_owned()]);
    };
    row(
        format!(
            "import + kernels of {} events, {:.0} MiB of PyTorch's JSON; Python's json parses it",
            f.import_events, f.import_file_mib
        ),
        Some(f.import_s),
        f.python_json_s,
        " s",
        f.import_over_python_json,
        "ratio 0.33",
    );
    for (peer, seconds) in &f.peers_s {
        row(format!("  {peer} parses it"), None, Some(*seconds), " s", None, "");
    }
    row(
        "  peak memory over the file".to_owned(),
        Some(f.import_peak_over_file),
        None,
        " x",
        None,
        "4 x",
    );
    row(
        format!(
            "{} million records to Parquet: from the trace file; Polars from a frame in memory",
            f.export_records as f64 / 1e6
        ),
        Some(f.parquet_export_s),
        f.polars_write_s,
        " s",
        f.parquet_export_over_polars,
        "ratio 1",
    );
    row("  peak memory".to_owned(), Some(f.parquet_export_peak_mib), None, " MiB", None, "");
    row(
        "  bytes a record, same columns".to_owned(),
        Some(f.parquet_bytes_per_record),
        f.polars_bytes_per_record,
        "",
        f.parquet_size_over_polars,
        "ratio 1",
    );
    let _ = write!(text, "\n{table}\n");
    if !f.omitted.is_empty() {
        text.push_str("\nnot measured:\n");
        for key in &f.omitted {
            let _ = writeln!(text, "  {key}: {}", f.omitted_because[key]);
        }
    }
    text
}
