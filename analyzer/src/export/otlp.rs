//! OpenTelemetry's spans as JSON: the file form of OTLP, an `ExportTraceServiceRequest`
//! on each line, of at most [`SPANS_IN_A_REQUEST`] spans.
//!
//! A recording is one OpenTelemetry trace, whose id is that of the recording. A span's
//! id is made from its place in the recording and is the same in every export; one that
//! has an id of its own, as asynchronous spans have, is known by that. Its parent is
//! what its link says, or the innermost span around it on its track that is exported.
//!
//! Events and errors are spans without length: the format would have them within their
//! span, and that may be as long as the trace. Readings of counters and gauges are no
//! spans; how many are left out is said on standard error. A span that was open at the
//! end ends when it was last seen and has the attribute `ringscope.open`.

use std::{collections::HashMap, io::Write};

use ringscope_format::{Kind, Link, LinkRole, OwnedValue, Status};
use serde_json::{Map, Value, json};

use super::{
    Exporter,
    events::{Event, Source, StillOpen},
};
use crate::{
    Result,
    load::Loaded,
    output::count,
    scan::Order,
    summary::nesting::{Ancestors, Open, nests},
};

const SPANS_IN_A_REQUEST: usize = 512;
/// `SPAN_KIND_INTERNAL`
const INTERNAL: u32 = 1;
/// `STATUS_CODE_OK`
const STATUS_OK: u32 = 1;
/// `STATUS_CODE_ERROR`
const STATUS_ERROR: u32 = 2;

pub(super) struct Otlp;

impl Exporter for Otlp {
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        let mut writing = Writing {
            source,
            out,
            stacks: HashMap::new(),
            trace_ids: source.traces().list.iter().map(trace_id).collect(),
            trace: 0,
            waiting: 0,
            spans: Vec::new(),
            readings: 0,
        };
        for (number, span) in source.still_open()?.iter().enumerate() {
            writing.open(number as u64, span)?;
        }
        source.each(Order::LastFirst, |event| writing.event(event))?;
        writing.request()?;
        if writing.readings > 0 {
            eprintln!(
                "analyze: {} readings of counters and gauges are no spans and were left out; \
                 jsonl has them",
                count(writing.readings)
            );
        }
        Ok(())
    }
}

struct Writing<'a, 'o> {
    source: &'a Source<'a>,
    out: &'o mut dyn Write,
    /// Ids of the spans around what comes next, by trace and track.
    stacks: HashMap<(usize, u32), Ancestors<u64>>,
    trace_ids: Vec<String>,
    /// Of which trace the spans are that wait, how many, and what they are.
    trace: usize,
    waiting: usize,
    spans: Vec<u8>,
    readings: u64,
}

impl Writing<'_, '_> {
    fn open(&mut self, number: u64, span: &StillOpen) -> Result<()> {
        // Unlike any event's: their numbers do not come that far.
        let id = mixed(number | 1 << 63);
        let stack = self.stacks.entry((span.trace, span.track)).or_default();
        let mut parent = None;
        if let Some(depth) = span.depth {
            let depth = depth.min(255) as u8;
            let open = Open { start: span.start, end: u64::MAX, tag: id, depth };
            parent = stack.parent_of(&open).map(|parent| parent.tag);
            stack.push(open);
        }
        let mut attributes = self.place_attributes(span.trace, span.track);
        attributes.push(attribute("ringscope.kind", text(&span.kind())));
        attributes.push(attribute("ringscope.open", json!({ "boolValue": true })));
        let mut object = self.span(span.trace, id, parent, span.name, span.start_ns, span.seen_ns);
        object.insert("attributes".to_owned(), attributes.into());
        self.put(span.trace, object)
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let (trace, record) = (event.trace, &event.record);
        if matches!(record.kind, Kind::COUNTER | Kind::GAUGE) {
            self.readings += 1;
            return Ok(());
        }
        let details = event.details();
        let linked = |role| details.links.iter().find(|link| link.role == role).map(id_of_link);
        let id = linked(LinkRole::Own).unwrap_or_else(|| mixed(event.number));
        let stack = self.stacks.entry((trace, record.track)).or_default();
        let around = if nests(record.kind.0) {
            let (start, end) = (record.start, record.end());
            let open = Open { start, end, tag: id, depth: record.depth };
            let parent = stack.parent_of(&open).map(|parent| parent.tag);
            stack.push(open);
            parent
        } else if record.kind.is_point() {
            innermost(stack, record.start, record.depth)
        } else {
            None
        };
        let parent = linked(LinkRole::Parent).or(around).filter(|parent| *parent != id);
        let mut attributes = self.place_attributes(trace, record.track);
        attributes.push(attribute("ringscope.kind", text(&event.kind())));
        if record.link != 0 {
            attributes.push(attribute("ringscope.link", integer(record.link.into())));
        }
        let status = Status(record.status.0 & 0x0F);
        if !matches!(status, Status::UNKNOWN | Status::OK | Status::ERROR) {
            attributes.push(attribute("ringscope.status", text(&event.status())));
        }
        if let Some(value) = event.value() {
            attributes.push(attribute("ringscope.value", self.any_value(trace, &value)));
        }
        for (key, value) in &details.fields {
            let key = self.source.name(trace, *key);
            let is_time = matches!(value, OwnedValue::Ticks(_)) && !key.ends_with("_ns");
            let key = if is_time { format!("{key}_ns") } else { key.to_owned() };
            attributes.push(attribute(&key, self.any_value(trace, value)));
        }
        for link in details.links.iter().filter(|link| link.role == LinkRole::Request) {
            attributes.push(attribute("ringscope.request", text(&format!("{:032x}", link.id))));
        }
        let mut object = self.span(trace, id, parent, record.name, event.start_ns, event.end_ns);
        object.insert("attributes".to_owned(), attributes.into());
        let follows = details.links.iter().filter(|link| link.role == LinkRole::FollowsFrom);
        let links: Vec<Value> = follows
            .map(
                |link| json!({ "traceId": self.trace_ids[trace], "spanId": hex(id_of_link(link)) }),
            )
            .collect();
        if !links.is_empty() {
            object.insert("links".to_owned(), links.into());
        }
        if event.failed() {
            object.insert("status".to_owned(), json!({ "code": STATUS_ERROR }));
        } else if status == Status::OK {
            object.insert("status".to_owned(), json!({ "code": STATUS_OK }));
        }
        self.put(trace, object)
    }

    fn span(
        &self,
        trace: usize,
        id: u64,
        parent: Option<u64>,
        name: u32,
        start_ns: i64,
        end_ns: i64,
    ) -> Map<String, Value> {
        let unix = |ns| self.source.unix_ns(trace, ns).max(0).to_string();
        let mut span = Map::new();
        let mut put = |key: &str, value: Value| span.insert(key.to_owned(), value);
        put("traceId", self.trace_ids[trace].as_str().into());
        put("spanId", hex(id).into());
        if let Some(parent) = parent {
            put("parentSpanId", hex(parent).into());
        }
        put("name", self.source.name(trace, name).into());
        put("kind", INTERNAL.into());
        put("startTimeUnixNano", unix(start_ns).into());
        put("endTimeUnixNano", unix(end_ns).into());
        span
    }

    fn place_attributes(&self, trace: usize, track: u32) -> Vec<Value> {
        let mut all = vec![attribute("thread.name", text(&self.source.track(trace, track)))];
        let tracks = self.source.traces().list[trace].trace.tracks();
        if let Ok(at) = tracks.binary_search_by_key(&track, |it| it.id)
            && tracks[at].os_id > 0
        {
            all.push(attribute("thread.id", integer(tracks[at].os_id)));
        }
        all
    }

    fn any_value(&self, trace: usize, value: &OwnedValue) -> Value {
        match value {
            OwnedValue::U64(n) => integer(*n),
            OwnedValue::I64(n) => json!({ "intValue": n.to_string() }),
            OwnedValue::F64(n) => double(*n),
            OwnedValue::Bool(is) => json!({ "boolValue": is }),
            OwnedValue::Name(id) => text(self.source.name(trace, *id)),
            OwnedValue::Ticks(n) => double(self.source.length_ns(trace, *n)),
            OwnedValue::Text { text: whole, cut: false } => text(whole),
            OwnedValue::Text { text: start, cut: true } => text(&format!("{start}…")),
        }
    }

    fn put(&mut self, trace: usize, span: Map<String, Value>) -> Result<()> {
        if trace != self.trace || self.waiting >= SPANS_IN_A_REQUEST {
            self.request()?;
            self.trace = trace;
        }
        if self.waiting > 0 {
            self.spans.push(b',');
        }
        self.waiting += 1;
        serde_json::to_writer(&mut self.spans, &span).map_err(std::io::Error::from)?;
        Ok(())
    }

    /// Writes the spans that wait.
    fn request(&mut self) -> Result<()> {
        if self.waiting == 0 {
            return Ok(());
        }
        let loaded = &self.source.traces().list[self.trace];
        let metadata = |key: &str| loaded.trace.metadata().get(key);
        let service = metadata("service.name").map_or("ringscope", String::as_str);
        let mut resource = vec![
            attribute("service.name", text(service)),
            attribute("process.pid", integer(loaded.trace.header().pid.into())),
            attribute("ringscope.trace", text(&loaded.label)),
        ];
        resource.extend(metadata("host.name").map(|name| attribute("host.name", text(name))));
        let resource = json!({ "attributes": resource });
        let scope = json!({ "name": "ringscope", "version": env!("CARGO_PKG_VERSION") });
        write!(self.out, "{{\"resourceSpans\":[{{\"resource\":{resource},")?;
        write!(self.out, "\"scopeSpans\":[{{\"scope\":{scope},\"spans\":[")?;
        self.out.write_all(&self.spans)?;
        writeln!(self.out, "]}}]}}]}}")?;
        self.waiting = 0;
        self.spans.clear();
        Ok(())
    }
}

fn trace_id(loaded: &Loaded) -> String {
    loaded.trace.header().recording.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The innermost span around an instant. Depths decide where it touches one; elsewhere
/// they are not asked, since not every converter knows them.
fn innermost(stack: &Ancestors<u64>, at: u64, depth: u8) -> Option<u64> {
    let is_around = |span: &&Open<u64>| {
        let touches = at == span.start || at == span.end;
        span.start <= at && at <= span.end && (!touches || span.depth < depth)
    };
    stack.iter().filter(is_around).last().map(|span| span.tag)
}

/// Made by hand, like all that there is much of: `json!` copies what it is given.
fn attribute(key: &str, value: Value) -> Value {
    let pair = [("key".to_owned(), key.into()), ("value".to_owned(), value)];
    Value::Object(pair.into_iter().collect())
}

fn typed(key: &str, value: Value) -> Value {
    Value::Object([(key.to_owned(), value)].into_iter().collect())
}

fn text(text: &str) -> Value {
    typed("stringValue", text.into())
}

/// 64-bit numbers are texts in this JSON, and larger ones than it has, texts for good.
fn integer(n: u64) -> Value {
    let digits = n.to_string();
    if i64::try_from(n).is_ok() { typed("intValue", digits.into()) } else { text(&digits) }
}

fn double(n: f64) -> Value {
    if n.is_finite() {
        json!({ "doubleValue": n })
    } else if n.is_nan() {
        json!({ "doubleValue": "NaN" })
    } else {
        json!({ "doubleValue": if n > 0.0 { "Infinity" } else { "-Infinity" } })
    }
}

fn hex(id: u64) -> String {
    format!("{id:016x}")
}

fn id_of_link(link: &Link) -> u64 {
    mixed(link.id as u64 ^ ((link.id >> 64) as u64).rotate_left(32) ^ LINKED)
}

/// Keeps ids of links apart from numbers of events.
const LINKED: u64 = 0x6C69_6E6B_6564_0000;

/// Different numbers give different ids (the finalizer of SplitMix64, which can be
/// undone); none gives 0, which is no id.
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ z >> 31).max(1)
}
