//! The figures of a `record` run under their published names. What was not
//! measured is absent, and named in `omitted`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::machine::Machine;

/// By number of threads, as a string: JSON has no other keys.
pub(crate) type ByThreads = BTreeMap<String, f64>;
/// By name of the peer.
pub(crate) type ByPeer<T> = BTreeMap<&'static str, T>;

/// Spans that a peer was given and kept in the one way in which it loses.
#[derive(Serialize)]
pub(crate) struct PeerLoss {
    pub(crate) given: u64,
    pub(crate) kept: u64,
    pub(crate) how: &'static str,
}

#[derive(Serialize)]
pub(crate) struct Figures {
    pub(crate) machine: Machine,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) quick: bool,

    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) floor_ns: ByThreads,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) span_ns: ByThreads,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) span_over_floor: ByThreads,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) span_lost: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) handle_ns: ByThreads,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handle_over_floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plugin_span_over_floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plugin_handle_over_floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plugin_lost: Option<u64>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_over_floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sustained_spans_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sustained_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sustained_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_span: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_varied_span: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) varied_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) off_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) empty_loop_ns: Option<f64>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mapped_mib: Option<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) memory_mib_by_threads: ByThreads,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_growth_mib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idle_core_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worst_span_ns: Option<f64>,
    /// Spans lost in these runs; a lost span is a short one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worst_span_lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worst_unrecorded_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worst_span_over_unrecorded: Option<f64>,

    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers_ns: ByPeer<ByThreads>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers_over_floor: ByPeer<ByThreads>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers_cpu_ns: ByPeer<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers_cpu_over_floor: ByPeer<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers_bytes_per_span: ByPeer<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers_off_ns: ByPeer<f64>,
    /// Spans of the timed bursts that a peer did not keep, where it can be told.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers_lost: ByPeer<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers_loss: ByPeer<PeerLoss>,
    pub(crate) peers_setup: ByPeer<&'static str>,

    pub(crate) omitted: Vec<String>,
    pub(crate) omitted_because: BTreeMap<String, String>,
}

impl Figures {
    pub(crate) fn new(machine: Machine, quick: bool) -> Self {
        Figures {
            machine,
            versions: BTreeMap::new(),
            quick,
            floor_ns: ByThreads::new(),
            span_ns: ByThreads::new(),
            span_over_floor: ByThreads::new(),
            span_lost: None,
            handle_ns: ByThreads::new(),
            handle_over_floor: None,
            plugin_span_over_floor: None,
            plugin_handle_over_floor: None,
            plugin_lost: None,
            cpu_ns: None,
            cpu_over_floor: None,
            cpu_lost: None,
            sustained_spans_per_s: None,
            sustained_lost: None,
            sustained_s: None,
            bytes_per_span: None,
            bytes_per_varied_span: None,
            varied_lost: None,
            off_ns: None,
            empty_loop_ns: None,
            memory_mib: None,
            mapped_mib: None,
            memory_mib_by_threads: ByThreads::new(),
            memory_growth_mib: None,
            idle_core_percent: None,
            worst_span_ns: None,
            worst_span_lost: None,
            worst_unrecorded_ns: None,
            worst_span_over_unrecorded: None,
            peers_ns: ByPeer::new(),
            peers_over_floor: ByPeer::new(),
            peers_cpu_ns: ByPeer::new(),
            peers_cpu_over_floor: ByPeer::new(),
            peers_bytes_per_span: ByPeer::new(),
            peers_off_ns: ByPeer::new(),
            peers_lost: ByPeer::new(),
            peers_loss: ByPeer::new(),
            peers_setup: ByPeer::new(),
            omitted: Vec::new(),
            omitted_because: BTreeMap::new(),
        }
    }

    /// Names a key that this run leaves out, and why.
    pub(crate) fn omit(&mut self, key: &str, why: impl Into<String>) {
        let key = key.to_owned();
        if !self.omitted.contains(&key) {
            self.omitted.push(key.clone());
            self.omitted_because.insert(key, why.into());
        }
    }

    /// What the figures take for granted and this run did not keep.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let lost = [
            ("span_lost", self.span_lost),
            ("plugin_lost", self.plugin_lost),
            ("cpu_lost", self.cpu_lost),
            ("varied_lost", self.varied_lost),
            ("worst_span_lost", self.worst_span_lost),
        ];
        lost.into_iter()
            .filter_map(|(key, lost)| lost.filter(|&lost| lost > 0).map(|lost| (key, lost)))
            .map(|(key, lost)| {
                format!(
                    "{key} is {lost}: losing is cheaper than storing, so the figures beside it \
                     say nothing; run again on a quieter machine"
                )
            })
            .collect()
    }
}

/// Three decimals: more would be noise in every figure here.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
