//! What `rocprofv3` writes: its JSON, and its family of CSV files. Kernels are on the queues of
//! their agents, copies beside them; calls of HIP and HSA are launches on their threads; ranges of
//! rocTX are spans. Allocations are events.
//!
//! A call and what it started have the same correlation within a run, and the CSV files of one run
//! (`run_kernel_trace.csv`, `run_hip_api_trace.csv`, ...) belong together: see [`run_of`]. Times are
//! nanoseconds of a clock that counts from the machine's start, so there is no wall time.
//!
//! A grid is given in work items there and is kept in groups, as everywhere else. Samples of program
//! counters are counted; of hardware counters, the kernels are kept and the counters counted.

mod csv;
mod json;

use std::borrow::Cow;

use ringscope_format::{Kind, TrackKind};

pub(super) use self::{
    csv::{is_header, read as read_csv},
    json::{is_rocprof, read as read_json},
};
use super::collector::{Collector, Event, Field, FieldValue};

/// What the files of one run are called behind its name.
const FILES: [&str; 14] = [
    "kernel_trace",
    "memory_copy_trace",
    "memory_allocation_trace",
    "scratch_memory_trace",
    "hip_api_trace",
    "hip_trace",
    "hsa_api_trace",
    "hsa_trace",
    "marker_api_trace",
    "marker_trace",
    "rccl_api_trace",
    "rocdecode_api_trace",
    "rocjpeg_api_trace",
    "counter_collection",
];

/// The name of the run that a file is of, by the file's name without its extension.
pub(super) fn run_of(stem: &str) -> Option<&str> {
    let stem = stem.strip_suffix(".csv").unwrap_or(stem);
    let rest = FILES.iter().find_map(|file| stem.strip_suffix(file))?;
    match rest {
        "" => Some(""),
        _ => rest.strip_suffix('_'),
    }
}

/// An entry of a table, as far as it says something.
#[derive(Default)]
struct Entry<'a> {
    /// `KERNEL_DISPATCH`, `HIP_RUNTIME_API`, ...
    domain: Cow<'a, str>,
    /// Of a kernel, a function or a range; what is done to memory.
    name: Cow<'a, str>,
    /// The function of rocTX that marked it, if that is known.
    marked_by: Cow<'a, str>,
    agent: Option<Cow<'a, str>>,
    queue: Option<Cow<'a, str>>,
    stream: Option<Cow<'a, str>>,
    thread: Option<Cow<'a, str>>,
    source: Option<Cow<'a, str>>,
    destination: Option<Cow<'a, str>>,
    correlation: u64,
    start: Option<i64>,
    end: Option<i64>,
    bytes: Option<u64>,
    address: Option<u64>,
    /// Work items.
    grid: [Option<u64>; 3],
    group: [Option<u64>; 3],
    more: Vec<Field>,
}

/// Takes entries of one process.
struct Rocprof<'a> {
    found: &'a mut Collector,
    /// Before the names of tracks.
    prefix: &'a str,
    /// Correlations of another process are others.
    process: u64,
}

impl Rocprof<'_> {
    /// Takes an entry, or says why not.
    fn take(&mut self, entry: &mut Entry<'_>) -> Result<(), &'static str> {
        let start = entry.start.ok_or("no start")?;
        let end = entry.end.unwrap_or(start);
        if end < start {
            self.found.note("negative durations (taken as 0)");
        }
        let name = if entry.name.is_empty() { "(unnamed)" } else { &entry.name };
        let name = self.found.strings.number(name);
        let length = end.saturating_sub(start).max(0) as u64;
        let timed = |kind, track| Event::timed(kind, name, track, start, length);
        let mut event = match &*entry.domain {
            "KERNEL_DISPATCH" => {
                self.describe_kernel(entry);
                timed(Kind::KERNEL, self.queue(entry, None))
            }
            "MEMORY_COPY" => {
                let direction = direction(&entry.name);
                let is_upload = matches!(direction, Some("h2d"));
                let (to, from) = (entry.destination.take(), entry.source.take());
                entry.agent = if is_upload { to.or(from) } else { from.or(to) };
                if let Some(direction) = direction {
                    entry.more.push(self.found.text_field("direction", direction));
                }
                if let Some(bytes) = entry.bytes {
                    entry.more.push(self.found.number_field("bytes", FieldValue::U64(bytes)));
                }
                timed(Kind::COPY, self.queue(entry, Some("copies")))
            }
            "MEMORY_ALLOCATION" => return self.allocation(entry, start),
            "SCRATCH_MEMORY" => {
                if let Some(bytes) = entry.bytes {
                    entry.more.push(self.found.number_field("bytes", FieldValue::U64(bytes)));
                }
                let device = device(entry.agent.as_deref());
                let name = format!("{}GPU {device} scratch memory", self.prefix);
                timed(Kind::SPAN, self.found.run_track(TrackKind::Other, 0, &name))
            }
            domain if domain.starts_with("MARKER_") => {
                let track = self.thread(entry);
                let by = &*entry.marked_by;
                if by.contains("Mark") || (by.is_empty() && start == end) {
                    Event::point(Kind::EVENT, name, track, start, Default::default())
                } else if by.contains("RangeStart")
                    || by.contains("ProcessRange")
                    || entry.thread.as_deref() == Some("0")
                {
                    timed(Kind::ASYNC_SPAN, track)
                } else {
                    timed(Kind::SPAN, track)
                }
            }
            domain if domain.starts_with("HIP_") || domain.starts_with("HSA_") => {
                timed(Kind::LAUNCH, self.thread(entry))
            }
            domain => {
                let category = self.found.text_field("category", &domain.to_lowercase());
                entry.more.push(category);
                timed(Kind::SPAN, self.thread(entry))
            }
        };
        let is_linked = matches!(event.kind, Kind::KERNEL | Kind::COPY | Kind::LAUNCH);
        if is_linked && entry.correlation != 0 {
            event.link = self.found.link(self.process << 40 ^ entry.correlation);
        }
        self.found.push(event, &entry.more);
        Ok(())
    }

    fn describe_kernel(&mut self, entry: &mut Entry<'_>) {
        let side = |side: Option<u64>| side.unwrap_or(1).max(1);
        if entry.grid != [None; 3] && entry.group != [None; 3] {
            let group = entry.group.map(side);
            let items = entry.grid.map(side);
            let groups: [u64; 3] = std::array::from_fn(|at| items[at].div_ceil(group[at]));
            for (key, sides) in [("grid", groups), ("block", group)] {
                let text = sides.map(|side| side.to_string()).join("x");
                entry.more.push(self.found.text_field(key, &text));
            }
        }
    }

    /// The line of a device's work; says which device and stream it is.
    fn queue(&mut self, entry: &mut Entry<'_>, of: Option<&str>) -> u32 {
        let device = device(entry.agent.as_deref()).to_owned();
        entry.more.push(self.found.text_field("device", &device));
        if let Some(stream) = entry.stream.as_deref() {
            entry.more.push(self.found.text_field("stream", stream));
        }
        let queue = entry.queue.as_deref();
        let own = match (of, queue) {
            (Some(what), _) => what.to_owned(),
            (None, queue) => format!("queue {}", queue.unwrap_or("0")),
        };
        let os_id = queue.and_then(|id| id.parse().ok()).unwrap_or(0);
        let name = format!("{}GPU {device} {own}", self.prefix);
        self.found.run_track(TrackKind::GpuQueue, os_id, &name)
    }

    fn thread(&mut self, entry: &Entry<'_>) -> u32 {
        let id = entry.thread.as_deref().unwrap_or("0");
        let name = match id {
            // Ranges that belong to no thread.
            "0" => format!("{}process", self.prefix),
            id => format!("{}thread {id}", self.prefix),
        };
        self.found.run_track(TrackKind::Thread, id.parse().unwrap_or(0), &name)
    }

    fn allocation(&mut self, entry: &mut Entry<'_>, at: i64) -> Result<(), &'static str> {
        let is_release = entry.name.contains("FREE");
        if let Some(agent) = entry.agent.as_deref().filter(|agent| !agent.is_empty()) {
            entry.more.push(self.found.text_field("device", device(Some(agent))));
        }
        // A release says 0 and means its allocation.
        if let Some(bytes) = entry.bytes.filter(|&bytes| bytes > 0 || !is_release) {
            entry.more.push(self.found.number_field("bytes", FieldValue::U64(bytes)));
        }
        if let Some(address) = entry.address {
            entry.more.push(self.found.number_field("id", FieldValue::U64(address)));
        }
        let name = if is_release { "memory.release" } else { "memory.allocate" };
        let name = self.found.strings.number(name);
        let track = self.thread(entry);
        let event = Event::point(Kind::EVENT, name, track, at, Default::default());
        self.found.push(event, &entry.more);
        Ok(())
    }
}

/// `Agent 4`, `GPU 4` and `4` are device 4.
fn device(agent: Option<&str>) -> &str {
    agent.and_then(|text| text.rsplit(' ').next()).filter(|it| !it.is_empty()).unwrap_or("0")
}

fn direction(name: &str) -> Option<&'static str> {
    [
        ("HOST_TO_DEVICE", "h2d"),
        ("DEVICE_TO_HOST", "d2h"),
        ("DEVICE_TO_DEVICE", "d2d"),
        ("HOST_TO_HOST", "h2h"),
    ]
    .into_iter()
    .find(|(part, _)| name.ends_with(part))
    .map(|it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_run_are_known_by_their_names() {
        assert_eq!(run_of("4711_kernel_trace"), Some("4711"));
        assert_eq!(run_of("my_run_memory_allocation_trace"), Some("my_run"));
        assert_eq!(run_of("kernel_trace.csv"), Some(""));
        assert_eq!(run_of("mykernel_trace"), None);
        assert_eq!(run_of("4711_agent_info"), None);
    }
}
