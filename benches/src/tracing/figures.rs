//! The figures, for machines and for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::exporters::Pairs;
use super::model::Model;
use super::model_shape::Shape;
use super::subjects::{self, LAYER, NO_OP, RINGSCOPE};
use crate::machine::{Machine, crate_version};
use crate::quantile::median;

/// What one subscriber costs, in nanoseconds.
#[derive(Clone, Copy, Serialize)]
struct Cost {
    /// Created, entered, left, closed.
    create: f64,
    /// Entered and left again.
    reenter: f64,
}

#[derive(Serialize)]
pub(crate) struct Figures {
    machine: Machine,
    quick: bool,
    floor_ns: Option<f64>,
    reenter_ns: Option<f64>,
    reenter_over_floor: Option<f64>,
    create_ns: Option<f64>,
    create_over_registry_noop: Option<f64>,
    layer_ns: Option<f64>,
    layer_minus_noop_over_floor: Option<f64>,
    /// The dearest exporter, over none.
    exporters_over_none: Option<f64>,
    /// Nanoseconds a span, by what was attached.
    exporters_ns: BTreeMap<String, f64>,
    candle_instructions_percent: Option<f64>,
    candle_instructions: Option<[u64; 2]>,
    candle_forward_instructions_percent: Option<f64>,
    candle_ns_per_span: Option<f64>,
    candle_enters_per_token: Option<f64>,
    candle_memory_mib: Option<f64>,
    bytes_per_token: Option<f64>,
    peers_bytes_per_token: BTreeMap<&'static str, f64>,
    peers_ns: BTreeMap<&'static str, Cost>,
    lost: u64,
    #[serde(skip)]
    costs: BTreeMap<&'static str, (f64, Cost)>,
    omitted: Vec<String>,
    omitted_because: BTreeMap<String, String>,
}

fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

impl Figures {
    pub(crate) fn new(machine: Machine, quick: bool) -> Self {
        Figures {
            machine,
            quick,
            floor_ns: None,
            reenter_ns: None,
            reenter_over_floor: None,
            create_ns: None,
            create_over_registry_noop: None,
            layer_ns: None,
            layer_minus_noop_over_floor: None,
            exporters_over_none: None,
            exporters_ns: BTreeMap::new(),
            candle_instructions_percent: None,
            candle_instructions: None,
            candle_forward_instructions_percent: None,
            candle_ns_per_span: None,
            candle_enters_per_token: None,
            candle_memory_mib: None,
            bytes_per_token: None,
            peers_bytes_per_token: BTreeMap::new(),
            peers_ns: BTreeMap::new(),
            lost: 0,
            costs: BTreeMap::new(),
            omitted: Vec::new(),
            omitted_because: BTreeMap::new(),
        }
    }

    /// The medians of one subscriber.
    pub(crate) fn subscriber(
        &mut self,
        name: &'static str,
        floor: f64,
        create: f64,
        reenter: f64,
        lost: Option<u64>,
    ) {
        let cost = Cost { create: rounded(create), reenter: rounded(reenter) };
        self.costs.insert(name, (floor, cost));
        self.lost += lost.unwrap_or(0);
        if name != RINGSCOPE && name != LAYER {
            self.peers_ns.insert(name, cost);
        }
        let of = |name: &str| self.costs.get(name).copied();
        if let Some((floor, own)) = of(RINGSCOPE) {
            self.floor_ns = Some(rounded(floor));
            (self.reenter_ns, self.create_ns) = (Some(own.reenter), Some(own.create));
            self.reenter_over_floor = Some(rounded(own.reenter / floor));
            let noop = of(NO_OP).map(|(_, noop)| rounded(own.create / noop.create));
            self.create_over_registry_noop = noop;
        }
        if let (Some((floor, layer)), Some((_, noop))) = (of(LAYER), of(NO_OP)) {
            self.layer_ns = Some(layer.create);
            let more = layer.create - noop.create;
            self.layer_minus_noop_over_floor = Some(rounded(more / floor));
        }
    }

    /// Pairs of blocks, by what was attached in one of them.
    pub(crate) fn exporters(&mut self, pairs: &Pairs) {
        let ns = |at: usize| move |pair: &[f64; 2]| pair[at];
        let none: Vec<f64> = pairs.values().flatten().map(ns(0)).collect();
        if let Some(ns) = median(&none) {
            self.exporters_ns.insert("none".to_owned(), rounded(ns));
        }
        let mut dearest: Option<f64> = None;
        for (exporter, pairs) in pairs {
            let attached: Vec<f64> = pairs.iter().map(ns(1)).collect();
            let ratios: Vec<f64> = pairs.iter().map(|[none, attached]| attached / none).collect();
            if let (Some(ns), Some(ratio)) = (median(&attached), median(&ratios)) {
                self.exporters_ns.insert(exporter.clone(), rounded(ns));
                dearest = Some(dearest.map_or(ratio, |most| most.max(ratio)));
            }
        }
        self.exporters_over_none = dearest.map(rounded);
    }

    pub(crate) fn shape(&mut self, shape: &Shape) {
        self.candle_ns_per_span = median(&shape.samples).map(rounded);
        self.lost += shape.lost;
    }

    pub(crate) fn model(&mut self, model: Model) {
        self.bytes_per_token = Some(rounded(model.bytes_per_token));
        self.candle_enters_per_token = Some(rounded(model.enters_per_token));
        self.candle_memory_mib = Some(rounded(model.peak_mib[0] - model.peak_mib[1]));
        self.peers_bytes_per_token = model.peers_bytes_per_token.into_iter().collect();
        self.lost += model.lost;
        self.candle_instructions = model.instructions;
        let more = |[recorded, not]: [u64; 2]| 100.0 * (recorded as f64 / not as f64 - 1.0);
        self.candle_instructions_percent = model.instructions.map(more).map(rounded);
        self.candle_forward_instructions_percent = model.forward.map(more).map(rounded);
        if let Some(reason) = model.why_no_instructions {
            self.omit("candle_instructions_percent", reason);
        }
    }

    pub(crate) fn omit(&mut self, key: &str, because: String) {
        if self.omitted_because.insert(key.to_owned(), because).is_none() {
            self.omitted.push(key.to_owned());
        }
    }

    /// What makes the figures worthless.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let lost = (self.lost > 0).then(|| format!("{} events were lost", self.lost));
        lost.into_iter().collect()
    }
}

/// For people.
pub(crate) fn table(figures: &Figures) -> String {
    let mut text = figures.machine.heading();
    let mut rows = Table::new();
    rows.load_style(UTF8_FULL_CONDENSED);
    rows.set_header([
        "a span of tracing",
        "create, enter, exit, close, ns",
        "enter, exit, ns",
        "set up as",
    ]);
    for subject in subjects::all() {
        let Some((_, cost)) = figures.costs.get(subject.name) else { continue };
        let version = crate_version(subject.name).map_or(String::new(), |it| format!(" {it}"));
        rows.add_row([
            format!("{}{version}", subject.name),
            format!("{:.1}", cost.create),
            format!("{:.1}", cost.reenter),
            subject.setup.to_owned(),
        ]);
    }
    for column in rows.column_iter_mut().skip(1).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{rows}");
    let mut say = |what: &str, value: Option<f64>, unit: &str| {
        if let Some(value) = value {
            let _ = writeln!(text, "{what}: {value}{unit}");
        }
    };
    say("floor", figures.floor_ns, " ns");
    say("enter and exit again, over the floor", figures.reenter_over_floor, "");
    say(
        "a new span, over a registry with a layer that does nothing",
        figures.create_over_registry_noop,
        "",
    );
    say("what the layer adds to that, over the floor", figures.layer_minus_noop_over_floor, "");
    say(
        "a span of span! with the dearest exporter attached, over none",
        figures.exporters_over_none,
        "",
    );
    say(
        "candle llama: instructions more than unrecorded",
        figures.candle_instructions_percent,
        " %",
    );
    say(
        "candle llama: the same of the forward pass alone, on its thread",
        figures.candle_forward_instructions_percent,
        " %",
    );
    say(
        "candle llama: enter and exit, as often and as deep, without the model",
        figures.candle_ns_per_span,
        " ns",
    );
    say("candle llama: enters a token", figures.candle_enters_per_token, "");
    say("candle llama: bytes a token", figures.bytes_per_token, "");
    say("candle llama: memory more than unrecorded", figures.candle_memory_mib, " MiB");
    for (key, because) in &figures.omitted_because {
        let _ = writeln!(text, "omitted: {key}: {because}");
    }
    text
}
