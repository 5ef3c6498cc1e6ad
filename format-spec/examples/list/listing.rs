//! What the listing of a trace says.
//!
//! Percentiles are exact, for which the durations of all spans are held in memory.

use super::readable::{
    counted, date, duration, grouped, kind_name, name_of, plain, print_table, printable,
};
use ringscope_format::{
    Batch, ClockFit, Columns, Counter, Error, InFlight, Kind, Loss, LostCause, Mode, Place, Record,
    RecordingState, SkipCause, Status, Trace, Track, TrackKind, ValueType, Vitals,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// What the records of one name and kind add up to.
#[derive(Default)]
struct Row {
    durations: Vec<u64>,
    count: u64,
    errors: u64,
    values: Values,
}

/// The values of a counter or gauge.
#[derive(Default)]
struct Values {
    sum: f64,
    least: Option<f64>,
    most: Option<f64>,
    last: f64,
}

pub(crate) struct Report {
    trace: Trace<File>,
    rows: BTreeMap<(u32, Kind), Row>,
    backwards: u64,
    unreadable: Vec<String>,
    in_flight: Vec<InFlight>,
    first_tick: u64,
    last_tick: u64,
    names_short: bool,
}

pub(crate) fn read(path: &Path) -> Result<Report, Error> {
    let trace = Trace::open(File::open(path)?)?;
    let mut rows: BTreeMap<(u32, Kind), Row> = BTreeMap::new();
    let (mut backwards, mut unreadable) = (0, Vec::new());
    let columns = Columns::VALUE | Columns::NAME | Columns::KIND | Columns::STATUS | Columns::SHAPE;
    let mut batch = Batch::default();
    for chunk in trace.chunks() {
        if let Err(error) = trace.decode_into(chunk, columns, &mut batch) {
            unreadable
                .push(format!("{error}; {} events are not listed", grouped(chunk.events.into())));
            continue;
        }
        for at in 0..batch.events {
            let kind = Kind(batch.kind[at]);
            let row = rows.entry((batch.name[at], kind)).or_default();
            let record = Record {
                value: batch.value[at],
                shape: batch.shape[at],
                kind,
                ..Record::default()
            };
            row.count += 1;
            row.errors += u64::from(batch.status[at] & 0x0F == Status::ERROR.0);
            match record.duration() {
                Some(duration) => {
                    backwards += u64::from((record.value as i64) < 0);
                    row.durations.push(duration);
                }
                None => row.values.add(number(&record)),
            }
        }
    }
    let in_flight = trace.in_flight()?;
    let timed = || trace.chunks().iter().filter(|chunk| chunk.events > 0);
    let first_tick = timed().map(|chunk| chunk.first_tick).min().unwrap_or(0);
    let last_tick = timed().map(|chunk| chunk.last_tick).max().unwrap_or(0);
    let names_short = io::stdout().is_terminal();
    Ok(Report { trace, rows, backwards, unreadable, in_flight, first_tick, last_tick, names_short })
}

/// The value of a point record as a number.
fn number(record: &Record) -> f64 {
    match record.value_type() {
        ValueType::I64 => record.value as i64 as f64,
        ValueType::F64 => f64::from_bits(record.value),
        ValueType::None => 0.0,
        _ => record.value as f64,
    }
}

impl Values {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.most = Some(self.most.map_or(value, |most| most.max(value)));
        self.last = value;
    }
}

impl Report {
    pub(crate) fn print(mut self, path: &Path, out: &mut impl Write) -> io::Result<()> {
        self.print_head(path, out)?;
        self.print_losses(out)?;
        self.print_damage(out)?;
        self.print_metadata(out)?;
        self.print_spans(out)?;
        self.print_points(out)?;
        self.print_in_flight(out)
    }

    fn print_head(&self, path: &Path, out: &mut impl Write) -> io::Result<()> {
        let (trace, header) = (&self.trace, self.trace.header());
        let clock = trace.clock();
        let mode = match header.mode {
            Mode::Full => "full recording",
            Mode::KeepLast => "flight recorder",
            Mode::Dump => "dump of a flight recorder",
            Mode::Converted => "converted",
        };
        let counter = match header.counter {
            Counter::X86Tsc => "time-stamp counter",
            Counter::Aarch64Cntvct => "virtual counter",
            Counter::MonotonicNs => "monotonic clock",
        };
        let events: u64 = trace.chunks().iter().map(|chunk| u64::from(chunk.events)).sum();
        let sealed: u64 = trace.chunks().iter().map(|chunk| chunk_bytes(chunk.place)).sum();
        let raw = trace.chunks().iter().filter(|it| matches!(it.place, Place::Raw { .. })).count();
        writeln!(out, "{}", path.display())?;
        let id: String = header.recording.iter().map(|byte| format!("{byte:02x}")).collect();
        let number = header.file_number;
        writeln!(out, "  recording  {id}, file {number}, {mode}, process {}", header.pid)?;
        writeln!(out, "  begun      {}", date(header.created_wall_ns))?;
        writeln!(out, "  state      {}", state(trace.vitals()))?;
        let span = duration(clock.ns(self.last_tick.saturating_sub(self.first_tick)));
        write!(out, "  events     {} over {}", grouped(events), span.trim())?;
        if let Some(vitals) = trace.vitals().filter(|vitals| vitals.own > 0) {
            write!(out, ", {} of them the recorder's own readings", grouped(vitals.own))?;
        }
        write!(out, ", {}", counted(trace.chunks().len() as u64, "chunk"))?;
        if raw > 0 {
            write!(out, " ({raw} not sealed yet)")?;
        }
        let sealed_events: u64 = trace
            .chunks()
            .iter()
            .filter(|chunk| chunk_bytes(chunk.place) > 0)
            .map(|chunk| u64::from(chunk.events))
            .sum();
        if sealed_events > 0 {
            write!(out, ", {:.2} bytes an event", sealed as f64 / sealed_events as f64)?;
        }
        writeln!(out)?;
        let megahertz = 1e3 / clock.ns_per_tick();
        match (clock.pairs(), clock.error_ns()) {
            (pairs @ 2.., Some(error)) => writeln!(
                out,
                "  clock      {counter}, {megahertz:.3} MHz from {pairs} pairs, within {}",
                duration(error).trim()
            )?,
            _ => writeln!(out, "  clock      {counter}, nominally {megahertz:.3} MHz")?,
        }
        let odd = [
            (clock.jumps().len(), "x the counter jumped"),
            (clock.suspends().len(), "x the machine slept"),
            (clock.wall_steps().len(), "x the wall clock was set"),
            (self.backwards as usize, "x a span took less than nothing, counted as 0"),
        ];
        for (count, what) in odd.iter().filter(|(count, _)| *count > 0) {
            writeln!(out, "             {}{what}", grouped(*count as u64))?;
        }
        Ok(())
    }

    /// Loss comes before everything that it may have touched.
    fn print_losses(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(vitals) = self.trace.vitals() else {
            return writeln!(out, "  lost       unknown: the recorder's counts are missing");
        };
        let lost = vitals.total_lost();
        let produced = vitals.produced();
        let unsure = match vitals.state {
            RecordingState::Finished | RecordingState::Continued => "",
            _ => "; how much of the last drain tick is unknown",
        };
        if lost == 0 {
            writeln!(out, "  lost       nothing of {} events{unsure}", grouped(produced))?;
        } else {
            let share = 100.0 * lost as f64 / produced.max(1) as f64;
            let of = grouped(produced);
            writeln!(out, "  LOST       {} of {of} events ({share:.2} %){unsure}", grouped(lost))?;
            let slots: u64 = vitals.lost_slots.iter().fold(0, |sum, n| sum.saturating_add(*n));
            for (cause, count) in vitals.lost.iter().enumerate().filter(|(_, count)| **count > 0) {
                let words =
                    LostCause::from_byte(cause as u8).map_or("unknown cause", |it| it.describe());
                writeln!(
                    out,
                    "             {} {words}{}",
                    grouped(*count),
                    self.lost_where(cause as u8)
                )?;
            }
            if slots > 0 {
                writeln!(out, "             with {} of fields", counted(slots, "slot"))?;
            }
        }
        for (cause, count) in vitals.skipped.iter().enumerate().filter(|(_, count)| **count > 0) {
            let words = SkipCause::from_byte(cause as u8).map_or("on request", |it| it.describe());
            writeln!(out, "  skipped    {} {words}", grouped(*count))?;
        }
        if vitals.overwritten > 0 {
            writeln!(out, "  overwritten {} by newer events", grouped(vitals.overwritten))?;
        }
        Ok(())
    }

    /// The tracks that lost most for a cause.
    fn lost_where(&self, cause: u8) -> String {
        let mut tracks: BTreeMap<u32, u64> = BTreeMap::new();
        let of_cause = |loss: &&Loss| loss.class == Loss::LOST && loss.cause == cause;
        for loss in self.trace.losses().iter().filter(of_cause) {
            let sum = tracks.entry(loss.track).or_default();
            *sum = sum.saturating_add(loss.events);
        }
        let mut tracks: Vec<(u32, u64)> = tracks.into_iter().collect();
        tracks.sort_by_key(|(_, events)| std::cmp::Reverse(*events));
        let listed: Vec<String> = tracks
            .iter()
            .take(3)
            .map(|(track, events)| format!("{} on {}", grouped(*events), self.track_name(*track)))
            .collect();
        let more = if tracks.len() > 3 { ", ..." } else { "" };
        if listed.is_empty() { String::new() } else { format!(": {}{more}", listed.join(", ")) }
    }

    fn print_damage(&self, out: &mut impl Write) -> io::Result<()> {
        let damage = self.trace.damage();
        if damage.is_empty() && self.unreadable.is_empty() {
            return Ok(());
        }
        writeln!(out, "  DAMAGE")?;
        for it in damage {
            writeln!(out, "    {it}")?;
        }
        for it in &self.unreadable {
            writeln!(out, "    {it}")?;
        }
        if let Some(missing) = self.trace.events_missing().filter(|missing| *missing > 0) {
            writeln!(out, "    {} events in all are missing", grouped(missing))?;
        }
        Ok(())
    }

    fn print_metadata(&self, out: &mut impl Write) -> io::Result<()> {
        let pairs = self.trace.metadata();
        let width = pairs.keys().map(|key| printable(key).chars().count()).max().unwrap_or(0);
        for (at, (key, value)) in pairs.iter().enumerate() {
            let gap = if at == 0 { "\n" } else { "" };
            writeln!(out, "{gap}{:<width$}  {}", printable(key), printable(value))?;
        }
        Ok(())
    }

    fn print_spans(&mut self, out: &mut impl Write) -> io::Result<()> {
        let mut lines = Vec::new();
        let clock = self.trace.clock();
        for ((name, kind), row) in &mut self.rows {
            if !kind.is_timed() {
                continue;
            }
            row.durations.sort_unstable();
            let total: f64 = row.durations.iter().map(|ticks| *ticks as f64).sum();
            let count = row.durations.len();
            let at = |share: f64| {
                let rank = (share * count as f64).ceil() as usize;
                duration(clock.ns(row.durations[rank.clamp(1, count) - 1]))
            };
            let cells = vec![
                name_of(self.trace.names(), *name, self.names_short),
                kind_name(*kind),
                grouped(row.count),
                if row.errors > 0 { grouped(row.errors) } else { String::new() },
                duration(total * clock.ns_per_tick()),
                duration(total * clock.ns_per_tick() / count as f64),
                at(0.50),
                at(0.95),
                at(1.0),
            ];
            lines.push((total, cells));
        }
        lines.sort_by(|a, b| b.0.total_cmp(&a.0));
        let head = ["name", "kind", "count", "errors", "total", "mean", "p50", "p95", "max"];
        print_table(out, &head, lines.into_iter().map(|(_, cells)| cells).collect())
    }

    fn print_points(&self, out: &mut impl Write) -> io::Result<()> {
        let mut lines = Vec::new();
        for ((name, kind), row) in self.rows.iter().filter(|((_, kind), _)| !kind.is_timed()) {
            let values = &row.values;
            let (sum, range) = match *kind {
                Kind::COUNTER => (plain(values.sum), [String::new(), String::new(), String::new()]),
                Kind::GAUGE => {
                    let [least, most] =
                        [values.least, values.most].map(|it| plain(it.unwrap_or(0.0)));
                    (String::new(), [least, most, plain(values.last)])
                }
                _ => (String::new(), [String::new(), String::new(), String::new()]),
            };
            let [least, most, last] = range;
            let name = name_of(self.trace.names(), *name, self.names_short);
            lines.push(vec![name, kind_name(*kind), grouped(row.count), sum, least, most, last]);
        }
        print_table(out, &["name", "kind", "count", "sum", "least", "most", "last"], lines)
    }

    fn print_in_flight(&self, out: &mut impl Write) -> io::Result<()> {
        if self.in_flight.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nin flight at the end")?;
        let clock: &ClockFit = self.trace.clock();
        for stack in &self.in_flight {
            let track = match stack.track {
                0 => "asynchronous".to_owned(),
                track => self.track_name(track),
            };
            writeln!(out, "  {track}")?;
            for (depth, span) in stack.spans.iter().enumerate() {
                let indent = if stack.track == 0 { 0 } else { 2 * depth };
                let open = duration(clock.ns(stack.tick.saturating_sub(span.start)));
                let name = name_of(self.trace.names(), span.name, self.names_short);
                writeln!(out, "    {open}  {:indent$}{name}", "")?;
            }
            let unlisted = (stack.depth as usize).saturating_sub(stack.spans.len());
            if unlisted > 0 {
                writeln!(out, "    and {unlisted} more")?;
            }
        }
        Ok(())
    }

    fn track_name(&self, id: u32) -> String {
        let known = self.trace.tracks().binary_search_by_key(&id, |track| track.id);
        match known.map(|at| &self.trace.tracks()[at]) {
            Ok(Track { kind: TrackKind::Thread, name, os_id, .. }) => {
                format!("thread {} ({os_id})", printable(name))
            }
            Ok(Track { name, .. }) => printable(name),
            Err(_) if id == 0 => "threads without a track".to_owned(),
            Err(_) => format!("track {id}"),
        }
    }
}

fn chunk_bytes(place: Place) -> u64 {
    match place {
        Place::Sealed { length, .. } => length.into(),
        Place::Raw { .. } => 0,
    }
}

fn state(vitals: Option<&Vitals>) -> String {
    match vitals.map(|vitals| vitals.state) {
        None => "unknown".to_owned(),
        Some(RecordingState::Recording) => "not finished: still recording, or killed".to_owned(),
        Some(RecordingState::Finished) => "finished".to_owned(),
        Some(RecordingState::FatalSignal) => {
            format!("ended by signal {}", vitals.map_or(0, |vitals| vitals.signal))
        }
        Some(RecordingState::Continued) => "continued in the next file".to_owned(),
        Some(RecordingState::GivenUp) => "given up: the file could not be kept".to_owned(),
        Some(RecordingState::Unknown(state)) => format!("unknown ({state})"),
    }
}
