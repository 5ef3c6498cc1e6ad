//! Trace events, the JSON that chrome://tracing introduced and everyone reads.
//!
//! The object form. Spans are `X`, what happens at an instant `i`, counters and gauges
//! `C`; spans that were open at the end are a `B` without an `E`. A flow leads from a
//! launch to its kernel (`s`, `f`). Each trace is a process; a track is a thread of it,
//! and more than one if spans on it cross. Fields are `args`; the link is among them as
//! `correlation`, as PyTorch has it.
//!
//! Times are microseconds with three decimals: nanoseconds, exactly. Parents come
//! before their children, so that a reader whose sort keeps the order of what begins
//! together nests them right.

use std::{
    collections::{HashMap, HashSet},
    io::Write,
};

use ringscope_format::{Kind, Status};
use serde_json::{Map, Value, json};

use super::{
    Exporter,
    counters::{Counters, Reading},
    events::{Event, Source, StillOpen, track_kind_text},
    fields,
    lanes::{self, Lanes, Span},
};
use crate::{Result, device::is_device_work, scan::Order};

pub(super) struct Chrome;

impl Exporter for Chrome {
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        let open = source.still_open()?;
        let offsets = source.offsets(&open);
        let first_unix_ns =
            offsets.first().map_or(0, |it| source.unix_ns(0, 0).saturating_sub(*it));
        write!(
            out,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[",
            json!({ "recorder": "ringscope", "first_unix_ns": first_unix_ns.to_string() }),
        )?;
        let mut writing = Writing {
            source,
            out: &mut *out,
            process_ids: source.process_ids(),
            offsets,
            counters: Counters::of(source),
            lanes: HashMap::new(),
            threads: HashMap::new(),
            taken: HashSet::new(),
            any: false,
        };
        writing.processes()?;
        for span in &open {
            writing.open(span)?;
        }
        source.each(Order::LastFirst, |event| writing.event(event))?;
        writeln!(out, "\n]}}")?;
        Ok(())
    }
}

/// A trace and one of its tracks.
type Place = (usize, u32);

struct Writing<'a, 'o> {
    source: &'a Source<'a>,
    out: &'o mut dyn Write,
    process_ids: Vec<u32>,
    offsets: Vec<i64>,
    counters: Counters,
    lanes: HashMap<Place, Lanes<()>>,
    /// Thread ids that were announced, by place and lane.
    threads: HashMap<(Place, usize), u64>,
    /// The same by trace.
    taken: HashSet<(usize, u64)>,
    any: bool,
}

impl Writing<'_, '_> {
    fn processes(&mut self) -> Result<()> {
        for (trace, loaded) in self.source.traces().list.iter().enumerate() {
            let (pid, args) = (self.process_ids[trace], json!({ "name": loaded.label }));
            self.put(json!({ "name": "process_name", "ph": "M", "pid": pid, "args": args }), None)?;
        }
        Ok(())
    }

    fn open(&mut self, span: &StillOpen) -> Result<()> {
        let place = (span.trace, span.track);
        let in_stack = span.depth.is_some();
        let depth = span.depth.unwrap_or(0).min(255) as u8;
        let room = Span { start: span.start, end: u64::MAX, depth, nests: in_stack };
        let lane = self.lanes.entry(place).or_default().place(room, (), |_, ()| {});
        let name = self.source.name(span.trace, span.name);
        let thread = self.thread(place, lane)?;
        let event = json!({ "name": name, "cat": span.kind(), "ph": "B", "pid": self.process_ids[span.trace],
            "tid": thread });
        self.put(event, Some((span.trace, span.start_ns, None)))
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let record = &event.record;
        let place = (event.trace, record.track);
        let pid = self.process_ids[event.trace];
        let when = |dur_ns| Some((event.trace, event.start_ns, dur_ns));
        if let Some((name, reading)) = self.counters.at(self.source, event) {
            let value: Value = match reading {
                Reading::Whole(n) => n.into(),
                Reading::Other(n) => n.into(),
            };
            let counter =
                json!({ "name": name, "ph": "C", "pid": pid, "args": { "value": value } });
            return self.put(counter, when(None));
        }
        let lane = if record.kind.is_timed() {
            let span = Span {
                start: record.start,
                end: record.end(),
                depth: record.depth,
                nests: lanes::nests(record.kind),
            };
            self.lanes.entry(place).or_default().place(span, (), |_, ()| {})
        } else {
            0
        };
        let tid = self.thread(place, lane)?;
        let phase = if record.kind.is_timed() { "X" } else { "i" };
        let mut object = json!({ "name": event.name(), "cat": event.kind(), "ph": phase, "pid": pid, "tid": tid });
        if !record.kind.is_timed() {
            object["s"] = "t".into();
        }
        let args = self.args(event);
        if !args.is_empty() {
            object["args"] = args.into();
        }
        self.put(object, when(event.dur_ns()))?;
        if record.link == 0 {
            return Ok(());
        }
        let flow = |phase| {
            // Links are of one trace, ids of flows of the whole file.
            let id = (event.trace as u64) << 32 | u64::from(record.link);
            json!({ "name": "launch", "cat": "launch", "ph": phase, "id": id, "pid": pid, "tid": tid })
        };
        if record.kind == Kind::LAUNCH {
            self.put(flow("s"), when(None))?;
        } else if is_device_work(record.kind) {
            let mut end = flow("f");
            end["bp"] = "e".into();
            self.put(end, when(None))?;
        }
        Ok(())
    }

    fn args(&self, event: &Event<'_>) -> Map<String, Value> {
        let record = &event.record;
        let mut args = fields::object(self.source, event.trace, &event.details());
        let mut add = |key: &str, value: Value| {
            args.entry(key).or_insert(value);
        };
        if record.status.0 & 0x0F != Status::UNKNOWN.0 {
            add("status", event.status().into());
        }
        if let Some(value) = event.value() {
            add("value", fields::json(self.source, event.trace, &value));
        }
        if record.link != 0 {
            add("correlation", record.link.into());
        }
        args
    }

    /// The thread id of a lane, which is announced when it first comes up.
    fn thread(&mut self, place: Place, lane: usize) -> Result<u64> {
        if let Some(&thread) = self.threads.get(&(place, lane)) {
            return Ok(thread);
        }
        let (trace, track) = place;
        let mut name = self.source.track(trace, track);
        if lane > 0 {
            name = format!("{name} ({})", lane + 1);
        }
        let own = (lane == 0).then_some(u64::from(track));
        let most = self.source.traces().list[trace].tracks.keys().max().copied().unwrap_or(0);
        // Tracks that were lost with a damaged part of the file have ids all the same.
        let mut ids = own.into_iter().chain(u64::from(most) + 1..);
        let id = ids.find(|id| self.taken.insert((trace, *id))).unwrap_or_default();
        self.threads.insert((place, lane), id);
        let pid = self.process_ids[trace];
        let kind = track_kind_text(self.source.track_kind(trace, track));
        // Viewers look at the name alone; `analyze import` makes one track of its lanes again.
        let args = json!({ "name": name, "track": track, "kind": kind });
        self.put(
            json!({ "name": "thread_name", "ph": "M", "pid": pid, "tid": id, "args": args }),
            None,
        )?;
        let args = json!({ "sort_index": track });
        self.put(
            json!({ "name": "thread_sort_index", "ph": "M", "pid": pid, "tid": id, "args": args }),
            None,
        )?;
        Ok(id)
    }

    /// Writes an event: `when` is a trace, a time of it and a duration.
    fn put(&mut self, object: Value, when: Option<(usize, i64, Option<i64>)>) -> Result<()> {
        let text = object.to_string();
        let comma = if self.any { "," } else { "" };
        self.any = true;
        write!(self.out, "{comma}\n{}", &text[..text.len() - 1])?;
        if let Some((trace, ns, dur_ns)) = when {
            write!(self.out, ",\"ts\":{}", microseconds(self.offsets[trace].saturating_add(ns)))?;
            if let Some(dur_ns) = dur_ns {
                write!(self.out, ",\"dur\":{}", microseconds(dur_ns))?;
            }
        }
        self.out.write_all(b"}")?;
        Ok(())
    }
}

/// Nanoseconds as microseconds: a floating-point number would round them.
fn microseconds(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    format!("{sign}{}.{:03}", ns / 1_000, ns % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_keep_every_nanosecond() {
        assert_eq!(microseconds(1_700_000_000_123_456_789), "1700000000123456.789");
        assert_eq!((microseconds(7), microseconds(-1_050)), ("0.007".into(), "-1.050".into()));
    }
}
