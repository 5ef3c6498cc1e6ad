//! Finding the work of devices in traces, and the calls that launched it.
//!
//! The first look decodes the kinds alone and notes which chunks hold launches or
//! work of a device; the second decodes those. Work is what has such a kind and is
//! not on a track of a thread: a host's own copies are not a device's.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
    hash::Hash,
};

use ringscope_format::{
    Batch, ChunkInfo, Columns, Kind, Names, OwnedValue, Record, TrackKind, parse_slots,
};

use super::{DeviceWork, Queue, Shape, Work, is_device_work, timing::Sources};
use crate::{
    Result,
    budget::Budget,
    filter::Sieve,
    load::{Loaded, Traces},
    output::count as in_digits,
    scan::{Visitor, scan},
};

/// What one piece of work takes at most, with what is made from it.
const BYTES_EACH: u64 = 200;
/// Stands for the device of a queue about which nothing is known.
pub(crate) const UNNAMED_DEVICE: &str = "(unnamed)";

/// All work of devices that passes the sieves, one for each trace; `None` if the
/// traces have no work of devices at all.
///
/// More than the budget allows are refused before they are read; only a range of
/// time makes them fewer then.
pub fn load(traces: &Traces, sieves: &[Sieve], budget: Budget) -> Result<Option<DeviceWork>> {
    let worth: Vec<bool> = traces.list.iter().map(can_hold_work).collect();
    if !worth.contains(&true) {
        return Ok(None);
    }
    let looked = scan(traces, Columns::KIND, "looking for kernels", || Kinds {
        worth: &worth,
        sieves,
        wanted: Cell::default(),
        work: HashSet::new(),
        launches: HashSet::new(),
        count: 0,
    })?;
    let mut count = 0;
    let mut chunks: HashSet<(usize, u64)> = HashSet::new();
    let mut launches: HashSet<(usize, u64)> = HashSet::new();
    for seen in looked {
        chunks.extend(seen.work);
        launches.extend(seen.launches);
        count += seen.count;
    }
    budget.require(
        count * BYTES_EACH,
        || format!("kernels: {} of them", in_digits(count)),
        "ask about a part with --from, --to or --last",
    )?;
    if chunks.is_empty() {
        return Ok(None);
    }
    let with_work: HashSet<usize> = chunks.iter().map(|chunk| chunk.0).collect();
    chunks.extend(launches.into_iter().filter(|chunk| with_work.contains(&chunk.0)));

    let keys: Vec<Keys> = traces.list.iter().map(|it| Keys::of(it.trace.names())).collect();
    let looked = scan(traces, Columns::ALL, "reading kernels", || Collector {
        traces,
        sieves,
        keys: &keys,
        chunks: &chunks,
        found: Vec::new(),
        launches: Vec::new(),
        places: Distinct::default(),
        shapes: Distinct::default(),
        sources: Sources::default(),
        any: false,
        backwards: 0,
    })?;
    Ok(looked.iter().any(|worker| worker.any).then(|| join(traces, looked)))
}

/// Whether some track could be a queue. Where the file is damaged, the track may
/// be what was lost.
fn can_hold_work(loaded: &Loaded) -> bool {
    !loaded.trace.damage().is_empty()
        || loaded.trace.tracks().iter().any(|track| !is_host(track.kind))
}

fn is_host(kind: TrackKind) -> bool {
    matches!(kind, TrackKind::Thread | TrackKind::Recorder)
}

/// The first look.
struct Kinds<'a> {
    worth: &'a [bool],
    sieves: &'a [Sieve],
    /// The chunk that comes next, and whether its work can be in: only
    /// [`Visitor::wants`] is told which it is.
    wanted: Cell<(u64, bool)>,
    work: HashSet<(usize, u64)>,
    launches: HashSet<(usize, u64)>,
    /// Of pieces of work.
    count: u64,
}

impl Visitor for Kinds<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        let in_range = |sieve: &Sieve| sieve.can_start_in(chunk.first_tick, chunk.last_tick);
        let counts = self.sieves.get(trace).is_none_or(in_range);
        self.wanted.set((chunk.sequence, counts));
        self.worth[trace]
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let (sequence, counts) = self.wanted.get();
        let chunk = (trace, sequence);
        let work = batch.kind.iter().filter(|&&kind| is_device_work(Kind(kind))).count();
        if work > 0 {
            self.count += if counts { work as u64 } else { 0 };
            self.work.insert(chunk);
        }
        if batch.kind.contains(&Kind::LAUNCH.0) {
            self.launches.insert(chunk);
        }
    }
}

/// Keys of fields that say something about work of devices, as VOCABULARY.md
/// has them.
const KEYS: [(&str, Field); 16] = [
    ("device", Field::Device),
    ("device_id", Field::Device),
    ("bytes", Field::Bytes),
    ("queue", Field::Queue),
    ("source", Field::Source),
    ("uncertainty", Field::Uncertainty),
    ("groups", Field::Grid(None)),
    ("grid", Field::Grid(None)),
    ("grid_x", Field::Grid(Some(0))),
    ("grid_y", Field::Grid(Some(1))),
    ("grid_z", Field::Grid(Some(2))),
    ("threads", Field::Block(None)),
    ("block", Field::Block(None)),
    ("block_x", Field::Block(Some(0))),
    ("block_y", Field::Block(Some(1))),
    ("block_z", Field::Block(Some(2))),
];

/// Whether fields of this key are among what is known of work of devices.
pub(crate) fn is_read(key: &str) -> bool {
    KEYS.iter().any(|(known, _)| *known == key)
}

/// Those of a trace, by the ids of their names.
struct Keys(HashMap<u32, Field>);

#[derive(Clone, Copy)]
enum Field {
    Device,
    Bytes,
    Queue,
    Source,
    Uncertainty,
    Grid(Option<usize>),
    Block(Option<usize>),
}

impl Keys {
    fn of(names: &Names) -> Self {
        let field = |text: &str| KEYS.iter().find(|(key, _)| *key == text).map(|it| it.1);
        Self(names.iter().filter_map(|(id, text)| Some((id, field(text)?))).collect())
    }
}

/// What the fields of one record say.
#[derive(Default)]
struct Details {
    device: Option<String>,
    bytes: Option<u64>,
    /// From its submission to its begin, in ticks.
    delay: Option<u64>,
    /// How its time was taken.
    source: Option<String>,
    /// By how much it may be off, in ticks.
    uncertainty: Option<u64>,
    shape: Shape,
}

impl Details {
    fn of(slots: &[Record], keys: &Keys, names: &Names) -> Self {
        let mut details = Self::default();
        if slots.is_empty() || keys.0.is_empty() {
            return details;
        }
        let (mut grid, mut block) = ([None; 3], [None; 3]);
        for (key, value) in parse_slots(slots).fields {
            match keys.0.get(&key) {
                None => {}
                Some(Field::Device) => details.device = Some(text(&value, names)),
                Some(Field::Bytes) => details.bytes = number(&value),
                Some(Field::Queue) => {
                    // Other profilers' queues are numbers and names.
                    if let OwnedValue::Ticks(delay) = value {
                        details.delay = Some(delay);
                    }
                }
                Some(Field::Source) => details.source = Some(text(&value, names)),
                Some(Field::Uncertainty) => {
                    if let OwnedValue::Ticks(ticks) = value {
                        details.uncertainty = Some(ticks);
                    }
                }
                Some(Field::Grid(None)) => details.shape.grid = sides(&text(&value, names)),
                Some(Field::Block(None)) => details.shape.block = sides(&text(&value, names)),
                Some(Field::Grid(Some(axis))) => grid[*axis] = number(&value),
                Some(Field::Block(Some(axis))) => block[*axis] = number(&value),
            }
        }
        let from_axes = |text: &mut String, axes: [Option<u64>; 3]| {
            if axes.iter().any(Option::is_some) {
                *text = axes.map(|side| side.unwrap_or(1).to_string()).join("x");
            }
        };
        from_axes(&mut details.shape.grid, grid);
        from_axes(&mut details.shape.block, block);
        details
    }
}

pub(super) fn number(value: &OwnedValue) -> Option<u64> {
    match *value {
        OwnedValue::U64(n) | OwnedValue::Ticks(n) => Some(n),
        OwnedValue::I64(n) => u64::try_from(n).ok(),
        OwnedValue::F64(n) if n >= 0.0 => Some(n as u64),
        _ => None,
    }
}

pub(super) fn text(value: &OwnedValue, names: &Names) -> String {
    match value {
        OwnedValue::U64(n) | OwnedValue::Ticks(n) => n.to_string(),
        OwnedValue::I64(n) => n.to_string(),
        OwnedValue::F64(n) => n.to_string(),
        OwnedValue::Bool(n) => n.to_string(),
        OwnedValue::Name(id) => names.get(*id).unwrap_or_default().to_owned(),
        OwnedValue::Text { text, .. } => text.clone(),
    }
}

/// `[128, 1, 1]`, `128,1,1` and `128x1x1` are the same shape.
fn sides(text: &str) -> String {
    let sides: Vec<&str> =
        text.split(|c: char| !c.is_ascii_digit()).filter(|side| !side.is_empty()).collect();
    if sides.is_empty() { text.to_owned() } else { sides.join("x") }
}

/// The device in a queue's name, such as the 1 in `GPU 1 stream 7` or `cuda:1`.
pub(crate) fn device_in(queue: &str) -> Option<String> {
    let lower = queue.to_lowercase();
    ["gpu", "device", "cuda", "hip"].into_iter().find_map(|word| {
        let behind = lower.get(lower.find(word)? + word.len()..)?;
        let behind = behind.trim_start_matches([' ', ':', '#', '_', '-']);
        let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        (digits > 0).then(|| behind[..digits].to_owned())
    })
}

/// Distinct values and their numbers.
struct Distinct<T>(HashMap<T, u32>);

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Hash + Eq> Distinct<T> {
    fn number(&mut self, value: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(value).or_insert(next)
    }

    fn in_order(self) -> Vec<T> {
        let mut all: Vec<(T, u32)> = self.0.into_iter().collect();
        all.sort_unstable_by_key(|it| it.1);
        all.into_iter().map(|it| it.0).collect()
    }
}

/// The second look.
struct Collector<'a> {
    traces: &'a Traces,
    sieves: &'a [Sieve],
    keys: &'a [Keys],
    chunks: &'a HashSet<(usize, u64)>,
    found: Vec<(Work, u32)>,
    /// Trace, link and start.
    launches: Vec<(u32, u32, u64)>,
    /// Trace, track and device, if a field tells.
    places: Distinct<(usize, u32, Option<String>)>,
    shapes: Distinct<Shape>,
    sources: Sources,
    any: bool,
    backwards: u64,
}

impl Visitor for Collector<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        self.chunks.contains(&(trace, chunk.sequence))
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let loaded = &self.traces.list[trace];
        let sieve = self.sieves.get(trace).filter(|sieve| !sieve.is_open());
        for (at, (record, slots)) in batch.records().enumerate() {
            if record.kind == Kind::LAUNCH && record.link != 0 {
                self.launches.push((trace as u32, record.link, record.start));
            }
            if !is_device_work(record.kind) || is_on_host(loaded, record.track) {
                continue;
            }
            self.any = true;
            let duration = record.duration().unwrap_or(0);
            if sieve.is_some_and(|sieve| !sieve.takes_record(batch, at)) {
                continue;
            }
            self.backwards += u64::from((record.value as i64) < 0);
            let details = Details::of(slots, &self.keys[trace], loaded.trace.names());
            self.sources.add(trace, details.source, duration, details.uncertainty);
            let work = Work {
                start: record.start,
                duration,
                launch: details.delay.map(|delay| record.start.saturating_sub(delay)),
                bytes: details.bytes,
                queue: self.places.number((trace, record.track, details.device)),
                name: loaded.name_index(record.name),
                shape: self.shapes.number(details.shape),
                kind: record.kind,
            };
            self.found.push((work, record.link));
        }
    }
}

fn is_on_host(loaded: &Loaded, track: u32) -> bool {
    let tracks = loaded.trace.tracks();
    tracks.binary_search_by_key(&track, |it| it.id).is_ok_and(|at| is_host(tracks[at].kind))
}

/// What all workers found, with one numbering and with launches.
fn join(traces: &Traces, workers: Vec<Collector<'_>>) -> DeviceWork {
    let (mut queues, mut shapes) = (Distinct::default(), Distinct::default());
    let (mut launches, mut sources) = (Vec::new(), Sources::default());
    let mut all = DeviceWork::default();
    let mut found: Vec<(Work, u32)> = Vec::new();
    for worker in workers {
        let queue_of: Vec<u32> = worker
            .places
            .in_order()
            .into_iter()
            .map(|(trace, track, device)| {
                let name = traces.list[trace].track_name(track);
                let device = device.or_else(|| device_in(&name));
                let device = device.unwrap_or_else(|| UNNAMED_DEVICE.to_owned());
                queues.number(Queue { trace, device, name, track })
            })
            .collect();
        let shape_of: Vec<u32> =
            worker.shapes.in_order().into_iter().map(|shape| shapes.number(shape)).collect();
        found.extend(worker.found.into_iter().map(|(mut work, link)| {
            work.queue = queue_of[work.queue as usize];
            work.shape = shape_of[work.shape as usize];
            (work, link)
        }));
        launches.extend(worker.launches);
        all.backwards += worker.backwards;
        sources.append(worker.sources);
    }
    all.timed = sources.together(traces);
    let unordered: Vec<Queue> = queues.in_order();
    all.queues = unordered.clone();
    all.queues.sort();
    let place = |queue: &Queue| all.queues.binary_search(queue).unwrap_or(0) as u32;
    let place_of: Vec<u32> = unordered.iter().map(place).collect();
    launches.sort_unstable();
    all.work = found
        .into_iter()
        .map(|(mut work, link)| {
            work.queue = place_of[work.queue as usize];
            let trace = all.queues[work.queue as usize].trace as u32;
            // Work that was encoded and submitted later could not have begun before that.
            let launch = || launch_of(&launches, trace, link, work.start);
            work.launch = work.launch.or_else(launch);
            work
        })
        .collect();
    // Also by what does not depend on which worker found it: output is the same
    // in every run.
    all.work.sort_unstable_by_key(|it| (it.queue, it.start, it.duration, it.name));
    all.shapes = shapes.in_order();
    all
}

/// The launch with this link, of launches in order of trace, link and start. Links may come round again in a long recording, so
/// the last one before the work counts; if all are later, the first.
pub(crate) fn launch_of<T: Copy + Ord>(
    launches: &[(u32, u32, T)],
    trace: u32,
    link: u32,
    start: T,
) -> Option<T> {
    if link == 0 {
        return None;
    }
    let from = launches.partition_point(|it| (it.0, it.1) < (trace, link));
    let to = launches.partition_point(|&it| it <= (trace, link, start));
    let at = if to > from { to - 1 } else { from };
    launches.get(at).filter(|it| (it.0, it.1) == (trace, link)).map(|it| it.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_launch_before_the_work_counts() {
        let launches = [(0, 1, 50), (0, 7, 10), (0, 7, 90), (1, 7, 5)];
        assert_eq!(launch_of(&launches, 0, 7, 95), Some(90));
        assert_eq!(launch_of(&launches, 0, 7, 89), Some(10));
        assert_eq!(launch_of(&launches, 0, 7, 3), Some(10));
        assert_eq!(launch_of(&launches, 1, 7, 95), Some(5));
        assert_eq!(launch_of(&launches, 0, 2, 95), None);
        assert_eq!(launch_of(&launches, 0, 0, 95), None);
    }

    #[test]
    fn every_key_that_is_read_is_in_the_document() {
        let document = include_str!("../../../format-spec/VOCABULARY.md");
        let (_, rest) = document.split_once("## Kernels and devices").unwrap();
        let section = rest.split("\n## ").next().unwrap();
        for (key, _) in KEYS {
            assert!(section.contains(&format!("`{key}`")), "{key}");
        }
    }

    #[test]
    fn devices_and_shapes_are_read_however_they_are_written() {
        assert_eq!(device_in("GPU 1 stream 7").as_deref(), Some("1"));
        assert_eq!(device_in("cuda:12/3").as_deref(), Some("12"));
        assert_eq!(device_in("compute queue 3"), None);
        assert_eq!(sides("[17888, 1, 1]"), "17888x1x1");
        assert_eq!(sides("whole"), "whole");
    }
}
