//! OpenMetrics text, as Prometheus and what follows it reads: what happened in the
//! trace as counters and histograms by name, kind, device and result.
//!
//! Buckets are the same for every name, so that series can be added up. Sums are exact
//! to the nanosecond. What is held grows with the number of distinct labels, and with
//! the work of devices for their utilization.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    io::Write,
};

use ringscope_format::{Kind, OwnedValue, Status};

use super::{
    Exporter,
    events::{Event, Source, kind_text},
};
use crate::{
    Result,
    device::{
        self, UNNAMED_DEVICE, device_in, is_device_work,
        timeline::{KERNEL_WAIT_NS, usage},
    },
    scan::Order,
};

/// Upper bounds in nanoseconds, and as they are written.
const BOUNDS: [(i64, &str); 22] = [
    (1_000, "1e-06"),
    (2_500, "2.5e-06"),
    (5_000, "5e-06"),
    (10_000, "1e-05"),
    (25_000, "2.5e-05"),
    (50_000, "5e-05"),
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1.0"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5.0"),
    (10_000_000_000, "10.0"),
];

/// The device of what runs on none.
const HOST: &str = "host";

pub(super) struct OpenMetrics;

/// What tells series apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Labels {
    name: String,
    kind: u8,
    device: String,
    result: &'static str,
}

impl Labels {
    fn text(&self) -> String {
        let Self { name, kind, device, result } = self;
        let kind = kind_text(Kind(*kind));
        let labels = [("name", name.as_str()), ("kind", &kind), ("device", device)];
        let mut text = labels.map(|(key, value)| label(key, value)).join(",");
        if !result.is_empty() {
            let _ = write!(text, ",{}", label("result", result));
        }
        text
    }
}

#[derive(Clone, Debug, Default)]
struct Durations {
    /// Not cumulative; the last is for what is longer than all bounds.
    buckets: [u64; BOUNDS.len() + 1],
    count: u64,
    sum_ns: u128,
}

impl Durations {
    fn push(&mut self, ns: i64) {
        self.buckets[BOUNDS.partition_point(|(bound, _)| *bound < ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns.max(0) as u64);
    }
}

/// Everything that is counted.
#[derive(Default)]
struct Figures {
    durations: HashMap<(u32, u8, Option<String>, u8), Durations>,
    /// Errors that are events.
    errors: HashMap<u32, u64>,
    /// When it was read, and what; by trace, name and device.
    memory: BTreeMap<(usize, &'static str, String), (i64, u64)>,
}

impl Exporter for OpenMetrics {
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        let mut figures = Figures::default();
        source.each(Order::Recorded, |event| {
            figures.take(source, event);
            Ok(())
        })?;
        figures.write(source, out)?;
        utilization(source, out)?;
        writeln!(out, "# EOF")?;
        Ok(())
    }
}

impl Figures {
    fn take(&mut self, source: &Source<'_>, event: &Event<'_>) {
        let record = &event.record;
        let name = source.traces().list[event.trace].name_index(record.name);
        if let Some(ns) = event.dur_ns() {
            let device = is_device_work(record.kind).then(|| device_of(source, event));
            let status = record.status.0 & 0x0F;
            self.durations.entry((name, record.kind.0, device, status)).or_default().push(ns);
        } else if record.kind == Kind::ERROR {
            *self.errors.entry(name).or_default() += 1;
        }
        let reading = match event.name() {
            "process.resident_bytes" => {
                let bytes = event.value().and_then(|value| whole(&value));
                bytes.map(|bytes| ("process.resident_bytes", HOST.to_owned(), bytes))
            }
            "memory.device" => {
                let bytes = field(source, event, "allocated").and_then(|value| whole(&value));
                let device = told_device(source, event).unwrap_or_else(|| HOST.to_owned());
                bytes.map(|bytes| ("memory.device", device, bytes))
            }
            _ => None,
        };
        if let Some((what, device, bytes)) = reading {
            let last = self.memory.entry((event.trace, what, device)).or_insert((i64::MIN, 0));
            if event.start_ns >= last.0 {
                *last = (event.start_ns, bytes);
            }
        }
    }

    fn write(self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        let names = &source.traces().names;
        let labels = |name: u32, kind, device: Option<String>, result| Labels {
            name: names[name as usize].clone(),
            kind,
            device: device.unwrap_or_else(|| HOST.to_owned()),
            result,
        };
        let mut errors: BTreeMap<Labels, u64> = BTreeMap::new();
        for (name, count) in self.errors {
            *errors.entry(labels(name, Kind::ERROR.0, None, "")).or_default() += count;
        }
        let mut durations: BTreeMap<Labels, Durations> = BTreeMap::new();
        for ((name, kind, device, status), found) in self.durations {
            if status == Status::ERROR.0 {
                *errors.entry(labels(name, kind, device.clone(), "")).or_default() += found.count;
            }
            let all = durations.entry(labels(name, kind, device, result(status))).or_default();
            all.buckets.iter_mut().zip(found.buckets).for_each(|(all, more)| *all += more);
            all.count += found.count;
            all.sum_ns += found.sum_ns;
        }
        family(out, "ringscope_operations", "counter", "", "Timed events that have ended.")?;
        for (labels, found) in &durations {
            writeln!(out, "ringscope_operations_total{{{}}} {}", labels.text(), found.count)?;
        }
        let help = "Timed events that failed, and errors.";
        family(out, "ringscope_errors", "counter", "", help)?;
        for (labels, count) in &errors {
            writeln!(out, "ringscope_errors_total{{{}}} {count}", labels.text())?;
        }
        let help = "How long timed events took.";
        family(out, "ringscope_operation_duration_seconds", "histogram", "seconds", help)?;
        for (labels, found) in &durations {
            histogram(out, &labels.text(), found)?;
        }
        if self.memory.is_empty() {
            return Ok(());
        }
        let help = "Memory in use at the last reading.";
        family(out, "ringscope_memory_usage_bytes", "gauge", "bytes", help)?;
        for ((trace, name, device), (_, bytes)) in &self.memory {
            let kind = if *name == "memory.device" { "event" } else { "gauge" };
            let labels = [("name", *name), ("kind", kind), ("device", device)];
            let mut labels = labels.map(|(key, value)| label(key, value)).join(",");
            labels.push_str(&trace_label(source, *trace));
            writeln!(out, "ringscope_memory_usage_bytes{{{labels}}} {bytes}")?;
        }
        Ok(())
    }
}

fn histogram(out: &mut dyn Write, labels: &str, found: &Durations) -> Result<()> {
    const NAME: &str = "ringscope_operation_duration_seconds";
    let mut below = 0;
    let bounds = BOUNDS.iter().map(|(_, text)| *text).chain(["+Inf"]);
    for (bound, count) in bounds.zip(found.buckets) {
        below += count;
        writeln!(out, "{NAME}_bucket{{{labels},le=\"{bound}\"}} {below}")?;
    }
    writeln!(out, "{NAME}_count{{{labels}}} {}", found.count)?;
    let (seconds, ns) = (found.sum_ns / 1_000_000_000, found.sum_ns % 1_000_000_000);
    writeln!(out, "{NAME}_sum{{{labels}}} {seconds}.{ns:09}")?;
    Ok(())
}

/// How much of the time from its first to its last work each device was busy.
fn utilization(source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
    let context = source.context;
    let traces = source.traces();
    let Some(work) = device::load(traces, &context.sieves, context.common.budget())? else {
        return Ok(());
    };
    let help = "Share of the time from the first to the last work in which any ran.";
    family(out, "ringscope_gpu_utilization_ratio", "gauge", "ratio", help)?;
    for device in usage(traces, &work, KERNEL_WAIT_NS).iter().filter(|it| it.queue.is_none()) {
        let labels = label("device", &device.device) + &trace_label(source, device.trace);
        let ratio = device.timeline.busy as f64 / device.timeline.span.max(1) as f64;
        writeln!(out, "ringscope_gpu_utilization_ratio{{{labels}}} {ratio:?}")?;
    }
    Ok(())
}

/// Readings of several traces are told apart; they cannot be added up.
fn trace_label(source: &Source<'_>, trace: usize) -> String {
    let traces = &source.traces().list;
    if traces.len() > 1 {
        format!(",{}", label("trace", &traces[trace].label))
    } else {
        String::new()
    }
}

fn family(out: &mut dyn Write, name: &str, kind: &str, unit: &str, help: &str) -> Result<()> {
    writeln!(out, "# TYPE {name} {kind}")?;
    if !unit.is_empty() {
        writeln!(out, "# UNIT {name} {unit}")?;
    }
    writeln!(out, "# HELP {name} {help}")?;
    Ok(())
}

fn label(key: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{key}=\"{value}\"")
}

/// A status without a name of its own is as good as none.
fn result(status: u8) -> &'static str {
    match Status(status) {
        Status::OK => "ok",
        Status::ERROR => "error",
        Status::CANCELLED => "cancelled",
        _ => "unknown",
    }
}

/// What a field says, or the name of the queue.
fn device_of(source: &Source<'_>, event: &Event<'_>) -> String {
    told_device(source, event)
        .or_else(|| device_in(&event.track()))
        .unwrap_or_else(|| UNNAMED_DEVICE.to_owned())
}

fn told_device(source: &Source<'_>, event: &Event<'_>) -> Option<String> {
    match ["device", "device_id"].iter().find_map(|key| field(source, event, key))? {
        OwnedValue::Name(id) => Some(source.name(event.trace, id).to_owned()),
        OwnedValue::Text { text, .. } => Some(text),
        value => whole(&value).map(|n| n.to_string()),
    }
}

fn field(source: &Source<'_>, event: &Event<'_>, key: &str) -> Option<OwnedValue> {
    let mut fields = event.details().fields.into_iter();
    fields.find(|(name, _)| source.name(event.trace, *name) == key).map(|(_, value)| value)
}

fn whole(value: &OwnedValue) -> Option<u64> {
    match *value {
        OwnedValue::U64(n) => Some(n),
        OwnedValue::I64(n) => u64::try_from(n).ok(),
        OwnedValue::F64(n) if n >= 0.0 => Some(n as u64),
        _ => None,
    }
}
