//! What PyTorch's profiler (Kineto) means by its categories, in capitals as in old
//! versions or not.
//!
//! - Kernels, copies and fills are work of a device on a queue of their own, whatever
//!   process they claim; a call of the CUDA or HIP runtime is their launch if both
//!   carry the same `correlation`.
//! - Annotations of a device are ranges over its work and not work. They have the names of
//!   the host's own ranges, and get `(GPU)` behind them lest the two be added up.
//! - `[memory]` is an allocation or a release, and a reading of what is allocated.

use ringscope_format::{Kind, TrackKind};

use super::{
    super::{
        collector::{Event, Field, FieldValue},
        json::{Reader, Scalar},
    },
    Chrome, Line,
    event::RawEvent,
};

/// What a category is.
#[derive(Clone, Copy, PartialEq)]
enum Means {
    Work(Kind),
    Call,
    Annotation,
    Other,
}

fn meaning(category: &str) -> Means {
    let is = |names: &[&str]| names.iter().any(|name| category.eq_ignore_ascii_case(name));
    if is(&["kernel"]) {
        Means::Work(Kind::KERNEL)
    } else if is(&["gpu_memcpy", "memcpy"]) {
        Means::Work(Kind::COPY)
    } else if is(&["gpu_memset", "memset"]) {
        Means::Work(Kind::FILL)
    } else if is(&[
        "cuda_runtime",
        "cuda_driver",
        "hip_runtime",
        "hip_driver",
        "xpu_runtime",
        "xpu_driver",
        "mtia_runtime",
        "privateuse1_runtime",
        "privateuse1_driver",
        "runtime",
    ]) {
        Means::Call
    } else if is(&["gpu_user_annotation"]) {
        Means::Annotation
    } else {
        Means::Other
    }
}

/// What says where work of a device ran and what started it.
#[derive(Default)]
struct Place<'a> {
    device: Option<&'a str>,
    stream: Option<&'a str>,
    correlation: Option<u64>,
}

impl<'a> Place<'a> {
    fn of(event: &'a RawEvent<'_>) -> Self {
        let mut place = Self::default();
        for (key, value) in event.args() {
            match &**key {
                "device" => place.device = value.text(),
                "stream" => place.stream = value.text(),
                "correlation" => place.correlation = value.text().and_then(|it| it.parse().ok()),
                _ => {}
            }
        }
        place
    }
}

impl Chrome<'_> {
    /// Takes work of devices, the calls that launched it and ranges over it; whether
    /// it was any of these.
    pub(super) fn device_work(&mut self, event: &RawEvent<'_>, at: i64, duration: u64) -> bool {
        let meaning = meaning(&event.cat);
        if meaning == Means::Other {
            return false;
        }
        let place = Place::of(event);
        // Other programs have a category "kernel" too.
        let is_device = place.stream.is_some() || place.device.is_some();
        if !(self.is_kineto || is_device || place.correlation.is_some()) {
            return false;
        }
        self.is_kineto = true;
        let link = place.correlation.filter(|&it| it != 0).map_or(0, |it| self.found.link(it));
        let mut name = self.name(event);
        self.arguments(event, false);
        let mut id = |given: Option<&str>, other: &Option<Scalar<'_>>| match given {
            Some(text) => self.found.strings.number(text),
            None => self.number_of(other),
        };
        let (device, stream) = (id(place.device, &event.pid), id(place.stream, &event.tid));
        let (kind, line) = match meaning {
            Means::Work(kind) => {
                let os_id = self.found.strings.get(stream).parse().unwrap_or(0);
                if kind == Kind::COPY
                    && let Some(direction) = direction(&event.name)
                {
                    let field = self.found.text_field("direction", direction);
                    self.scratch.push(field);
                }
                (kind, self.line(Line::Queue(device, stream), TrackKind::GpuQueue, os_id))
            }
            Means::Annotation => {
                name = self.found.strings.number(&format!("{} (GPU)", event.name));
                (Kind::SPAN, self.line(Line::Annotations(device, stream), TrackKind::Other, 0))
            }
            Means::Call | Means::Other => (Kind::LAUNCH, self.thread(event)),
        };
        let mut record = Event::timed(kind, name, line, at, duration);
        record.link = if kind == Kind::SPAN { 0 } else { link };
        self.push(record);
        true
    }

    /// Takes a reading of PyTorch's allocator; whether it was one.
    pub(super) fn memory(&mut self, event: &RawEvent<'_>, at: i64) -> bool {
        if event.name != "[memory]" {
            return false;
        }
        let argument = |key: &str| event.argument(key);
        let size = |key: &str| argument(key).and_then(|text| text.parse::<u64>().ok());
        let Some(change) = argument("Bytes").and_then(|text| text.parse::<i64>().ok()) else {
            return false;
        };
        let line = self.thread(event);
        // Device type 0 is the host.
        let device = match (argument("Device Type"), size("Device Id")) {
            (Some("0") | None, _) | (_, None) => self.found.text_field("device", "cpu"),
            (_, Some(id)) => self.found.number_field("device", FieldValue::U64(id)),
        };
        let field = |chrome: &mut Self, key: &str, value: u64| {
            chrome.found.number_field(key, FieldValue::U64(value))
        };
        let mut fields = vec![device, field(self, "bytes", change.unsigned_abs())];
        if let Some(address) = size("Addr") {
            fields.push(field(self, "id", address));
        }
        let name = if change < 0 { "memory.release" } else { "memory.allocate" };
        let point = |chrome: &mut Self, name: &str, fields: &[Field]| {
            let name = chrome.found.strings.number(name);
            let point = Event::point(Kind::EVENT, name, line, at, Default::default());
            chrome.found.push(point, fields);
        };
        point(self, name, &fields);
        let mut reading = vec![device];
        for (key, argument) in [("allocated", "Total Allocated"), ("reserved", "Total Reserved")] {
            if let Some(bytes) = size(argument) {
                reading.push(field(self, key, bytes));
            }
        }
        if reading.len() > 1 {
            point(self, "memory.device", &reading);
        }
        true
    }
}

fn direction(name: &str) -> Option<&'static str> {
    [("HtoD", "h2d"), ("DtoH", "d2h"), ("DtoD", "d2d"), ("PtoP", "d2d"), ("HtoH", "h2h")]
        .into_iter()
        .find(|(part, _)| name.contains(part))
        .map(|it| it.1)
}

/// Which rank of how many the file is of, and the rest of what it says about that.
pub(super) fn ranks(text: &[u8], mut keep: impl FnMut(&str, &str)) {
    let _ = Reader::new(text).object(|key, reader| {
        if let Some(text) = reader.scalar()?.text() {
            keep(&key, text);
        }
        Ok(())
    });
}

/// What each device is called and how much memory it has.
pub(super) fn devices(text: &[u8], mut keep: impl FnMut(&str, &str)) {
    let mut reader = Reader::new(text);
    if reader.expect(b'[').is_err() {
        return;
    }
    while reader.peek() == Some(b'{') {
        let (mut id, mut name, mut memory) = (String::new(), None, None);
        let read = reader.object(|key, reader| {
            let value = reader.scalar()?;
            let text = value.text().map(str::to_owned);
            match &*key {
                "id" => id = text.unwrap_or_default(),
                "name" => name = text,
                "totalGlobalMem" => memory = text,
                _ => {}
            }
            Ok(())
        });
        if read.is_err() {
            return;
        }
        for (what, value) in [("name", name), ("memory_bytes", memory)] {
            if let Some(value) = value {
                keep(&format!("device.{id}.{what}"), &value);
            }
        }
        reader.take(b',');
    }
}
