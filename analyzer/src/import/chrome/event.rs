//! One event as it stands in the file.

use std::borrow::Cow;

use super::super::json::{Read, Reader, Scalar};

/// Arguments of one event that are looked at. More would take more memory than the file.
const MOST_ARGUMENTS: usize = 256;

/// What all kinds of events are made of. One is read into again and again: its list of
/// arguments is made once.
#[derive(Default)]
pub(super) struct RawEvent<'a> {
    /// Where it begins in the file.
    pub(super) begin: usize,
    /// An entry that is something else.
    pub(super) is_no_event: bool,
    /// 0 if there is none.
    pub(super) phase: u8,
    pub(super) name: Cow<'a, str>,
    pub(super) cat: Cow<'a, str>,
    pub(super) ts: Option<Scalar<'a>>,
    pub(super) dur: Option<Scalar<'a>>,
    /// Duration by the thread's own clock, for want of another.
    pub(super) tdur: Option<Scalar<'a>>,
    pub(super) pid: Option<Scalar<'a>>,
    pub(super) tid: Option<Scalar<'a>>,
    pub(super) id: Option<Scalar<'a>>,
    /// Whether the id means something in its process alone.
    pub(super) is_local: bool,
    arguments: Vec<(Cow<'a, str>, Scalar<'a>)>,
    /// How many more there were.
    pub(super) surplus_arguments: u64,
    /// Whether there was more that could not be read.
    pub(super) has_strange_arguments: bool,
}

impl<'a> RawEvent<'a> {
    /// Reads the next event into this one.
    pub(super) fn read(&mut self, reader: &mut Reader<'a>) -> Read<()> {
        self.clear();
        let event = self;
        reader.object(|key, reader| {
            match &*key {
                "ph" => {
                    let phase = reader.scalar()?;
                    event.phase = phase.text().and_then(|text| text.bytes().next()).unwrap_or(0);
                }
                "name" => event.name = text(reader.scalar()?),
                "cat" => event.cat = text(reader.scalar()?),
                "ts" => event.ts = Some(reader.scalar()?),
                "dur" => event.dur = Some(reader.scalar()?),
                "tdur" => event.tdur = Some(reader.scalar()?),
                "pid" => event.pid = Some(reader.scalar()?),
                "tid" => event.tid = Some(reader.scalar()?),
                "id" => event.id = Some(reader.scalar()?),
                "id2" => {
                    let ids = reader.nested()?;
                    let mut ids = Reader::new(ids);
                    // Anything but an object is no id.
                    let _ = ids.object(|scope, ids| {
                        event.is_local = scope == "local";
                        event.id = Some(ids.scalar()?);
                        Ok(())
                    });
                }
                "args" => event.read_arguments(reader)?,
                _ => reader.skip()?,
            }
            Ok(())
        })
    }

    /// Makes it one that says nothing.
    pub(super) fn clear(&mut self) {
        let mut arguments = std::mem::take(&mut self.arguments);
        arguments.clear();
        *self = Self { arguments, ..Self::default() };
    }

    /// Takes arguments as far as they can be read; what cannot is left by its brackets.
    fn read_arguments(&mut self, reader: &mut Reader<'a>) -> Read<()> {
        reader.peek();
        let begin = reader.at;
        let Self { arguments, surplus_arguments, .. } = self;
        let read = reader.object(|key, reader| {
            if arguments.len() == MOST_ARGUMENTS {
                *surplus_arguments += 1;
                return reader.skip();
            }
            arguments.push((key, reader.scalar()?));
            Ok(())
        });
        if read.is_err() {
            self.has_strange_arguments = true;
            reader.at = begin;
            reader.skip()?;
        }
        Ok(())
    }

    /// Whether it says nothing at all.
    pub(super) fn is_empty(&self) -> bool {
        self.phase == 0 && self.name.is_empty() && self.ts.is_none() && self.arguments.is_empty()
    }

    /// Its arguments, in the order in which they are written.
    pub(super) fn args(&self) -> &[(Cow<'a, str>, Scalar<'a>)] {
        &self.arguments
    }

    /// One argument as text or number.
    pub(super) fn argument(&self, wanted: &str) -> Option<&str> {
        let found = self.arguments.iter().rev().find(|(key, _)| key == wanted);
        found.and_then(|(_, value)| value.text())
    }
}

fn text(value: Scalar<'_>) -> Cow<'_, str> {
    match value {
        Scalar::String(text) => text,
        Scalar::Number(text) => Cow::Borrowed(text),
        _ => Cow::Borrowed(""),
    }
}

/// An id as a number: as it is, from `0x1f`, or made from a text.
pub(super) fn id_of(id: &Scalar<'_>) -> u64 {
    let text = id.text().unwrap_or_default();
    let from_hex = || u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    text.parse().ok().or_else(from_hex).unwrap_or_else(|| {
        // FNV-1a: the same text is the same id in every run.
        text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        })
    })
}
