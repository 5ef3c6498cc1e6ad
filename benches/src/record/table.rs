//! The figures as a table for people: ringscope's rows beside their goals, then
//! the peers. The JSON has more; this is what one reads first.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::figures::{ByThreads, Figures};

/// The whole report.
pub(crate) fn table(figures: &Figures) -> String {
    let mut text = heading(figures);
    let own = own_rows(figures);
    if !own.is_empty() {
        let mut table = blank(&["ringscope", "measured", "goal"]);
        for row in own {
            table.add_row(row);
        }
        let _ = write!(text, "\n{table}\n");
    }
    if !figures.peers_setup.is_empty() {
        let _ = write!(text, "\n{}\n\n", peers(figures));
        for (peer, setup) in &figures.peers_setup {
            let version = figures.versions.get(*peer).map_or("", String::as_str);
            let _ = writeln!(text, "{peer} {version}: {setup}");
        }
        for (peer, loss) in &figures.peers_loss {
            let _ =
                writeln!(text, "{peer} loses {}: kept {} of {}", loss.how, loss.kept, loss.given);
        }
    }
    if !figures.omitted.is_empty() {
        text.push_str("\nnot measured:\n");
        for key in &figures.omitted {
            let _ = writeln!(text, "  {key}: {}", figures.omitted_because[key]);
        }
    }
    text
}

fn heading(figures: &Figures) -> String {
    let mut text = figures.machine.heading();
    if let Some(version) = figures.versions.get("ringscope") {
        let _ = writeln!(text, "ringscope {version}");
    }
    if figures.quick {
        text.push_str("a quick run: fewer samples than the published figures\n");
    }
    text
}

fn blank(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Figure, value and goal, for everything that was measured.
fn own_rows(figures: &Figures) -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: Option<String>, goal: &str| {
        if let Some(value) = value {
            rows.push([name.to_owned(), value, goal.to_owned()]);
        }
    };
    let at = |values: &ByThreads, threads: &str, unit: &str| {
        values.get(threads).map(|value| format!("{value:.2}{unit}"))
    };
    let one = |value: Option<f64>, unit: &str| value.map(|value| format!("{value:.2}{unit}"));

    row("floor, 1 thread", at(&figures.floor_ns, "1", " ns"), "");
    row("floor, 2 threads", at(&figures.floor_ns, "2", " ns"), "");
    row("span!, 1 thread", at(&figures.span_ns, "1", " ns"), "");
    row("span!, 1 thread", at(&figures.span_over_floor, "1", " x floor"), "1.20");
    row("explicit handle", one(figures.handle_over_floor, " x floor"), "1.15");
    row("span!, 2 threads at once", at(&figures.span_over_floor, "2", " x floor"), "1.30");
    row("span! in a loaded library", one(figures.plugin_span_over_floor, " x floor"), "stated");
    row("explicit handle there", one(figures.plugin_handle_over_floor, " x floor"), "");
    row("spans lost meanwhile", figures.span_lost.map(|lost| lost.to_string()), "0");
    row("CPU a span, to the sealed file", one(figures.cpu_over_floor, " x floor"), "3.5");
    let millions = figures.sustained_spans_per_s.map(|rate| rate / 1e6);
    row("sustained, nothing lost", one(millions, " million/s"), "12");
    row("bytes a span", one(figures.bytes_per_span, ""), "3");
    row("bytes a span of varied length", one(figures.bytes_per_varied_span, ""), "");
    row("not started", one(figures.off_ns, " ns"), "1");
    row("anonymous memory, 1 thread", one(figures.memory_mib, " MiB"), "10");
    row("anonymous memory, 4 threads", at(&figures.memory_mib_by_threads, "4", " MiB"), "16");
    row("growth over a longer run", one(figures.memory_growth_mib, " MiB"), "0");
    row("mapped memory", one(figures.mapped_mib, " MiB"), "");
    row(
        "tenth-longest span, disk busy",
        one(figures.worst_span_over_unrecorded, " x unrecorded"),
        "2",
    );
    row("idle", one(figures.idle_core_percent, " % of a core"), "0.1");
    rows
}

fn peers(figures: &Figures) -> Table {
    let header = [
        "peer",
        "1 thread, ns",
        "x floor",
        "2 threads, ns",
        "x floor",
        "CPU, ns",
        "bytes",
        "off, ns",
    ];
    let mut table = blank(&header);
    let cell = |value: Option<&f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    for peer in figures.peers_setup.keys() {
        let ns = |threads: &str| figures.peers_ns.get(peer).and_then(|by| by.get(threads));
        let over =
            |threads: &str| figures.peers_over_floor.get(peer).and_then(|by| by.get(threads));
        table.add_row([
            (*peer).to_owned(),
            cell(ns("1"), 0),
            cell(over("1"), 2),
            cell(ns("2"), 0),
            cell(over("2"), 2),
            cell(figures.peers_cpu_ns.get(peer), 0),
            cell(figures.peers_bytes_per_span.get(peer), 1),
            cell(figures.peers_off_ns.get(peer), 1),
        ]);
    }
    table
}
