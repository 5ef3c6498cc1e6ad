//! What XLA's profiler (JAX, TensorFlow; the trace viewer of TensorBoard) means by its processes:
//! one that is called `/device:GPU:0` has a thread for each stream of that device, and what is on it
//! is its work. Other threads there (`XLA Ops`, `Steps`) are ranges over that work. A call on a thread
//! of the host and what it launched have the same `correlation_id`.
//!
//! Names of processes and threads come first in these files; where they do not, all of it is spans.

use ringscope_format::{Kind, TrackKind};

use super::{
    super::collector::{Event, FieldValue},
    Chrome, Line,
    event::RawEvent,
};

/// What a process of a device is called, before its number.
const DEVICE: &str = "/device:GPU:";

/// Whether a process of this name is a device.
pub(super) fn is_device(name: &str) -> bool {
    name.starts_with(DEVICE)
}

impl Chrome<'_> {
    /// Takes work of devices and the calls that launched it; whether it was any of these.
    pub(super) fn xla_work(&mut self, event: &RawEvent<'_>, at: i64, duration: u64) -> bool {
        if !self.has_xla_devices {
            return false;
        }
        let (process, thread) = (self.number_of(&event.pid), self.number_of(&event.tid));
        let device = self.processes.get(&process).and_then(|name| name.strip_prefix(DEVICE));
        let device = device.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned());
        let of_stream = |name: &String| name.starts_with("Stream");
        let is_work = self.threads.get(&(process, thread)).is_some_and(of_stream);
        let correlation = event.argument("correlation_id").and_then(|id| id.parse::<u64>().ok());
        let (kind, line) = match (&device, correlation) {
            (Some(device), _) if is_work => {
                let device = self.found.strings.number(device);
                let os_id = self.found.strings.get(thread).parse().unwrap_or(0);
                (
                    kind(&event.name),
                    self.line(Line::Queue(device, thread), TrackKind::GpuQueue, os_id),
                )
            }
            (None, Some(_)) => (Kind::LAUNCH, self.thread(event)),
            _ => return false,
        };
        let name = self.name(event);
        self.arguments(event, false);
        if let Some(device) = device {
            let field = self.found.text_field("device", &device);
            self.scratch.push(field);
        }
        if kind == Kind::COPY {
            self.describe_copy(event);
        }
        let mut record = Event::timed(kind, name, line, at, duration);
        record.link = correlation.filter(|&id| id != 0).map_or(0, |id| self.found.link(id));
        self.push(record);
        true
    }

    /// Details are a text: `kind_src:pageable kind_dst:device size:4 dest:0 async:1`.
    fn describe_copy(&mut self, event: &RawEvent<'_>) {
        let directions = [("H2D", "h2d"), ("D2H", "d2h"), ("D2D", "d2d"), ("P2P", "d2d")];
        if let Some((_, direction)) = directions.iter().find(|it| event.name.contains(it.0)) {
            let field = self.found.text_field("direction", direction);
            self.scratch.push(field);
        }
        let details = event.argument("memcpy_details").unwrap_or_default();
        let size = details.split(' ').find_map(|part| part.strip_prefix("size:"));
        if let Some(bytes) = size.and_then(|text| text.parse().ok()) {
            let field = self.found.number_field("bytes", FieldValue::U64(bytes));
            self.scratch.push(field);
        }
    }
}

fn kind(name: &str) -> Kind {
    let begins =
        |with: &str| name.get(..with.len()).is_some_and(|it| it.eq_ignore_ascii_case(with));
    if begins("memcpy") {
        Kind::COPY
    } else if begins("memset") {
        Kind::FILL
    } else {
        Kind::KERNEL
    }
}
