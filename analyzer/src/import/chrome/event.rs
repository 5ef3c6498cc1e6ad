//! One event as it stands in the file.

use std::borrow::Cow;

use super::super::json::{Read, Reader, Scalar};

/// What all kinds of events are made of. Arguments are left as text: half of the
/// events have some that nobody wants.
#[derive(Default)]
pub(super) struct RawEvent<'a> {
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
    arguments: &'a [u8],
}

impl<'a> RawEvent<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let mut event = Self::default();
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
                "args" => event.arguments = reader.nested()?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        Ok(event)
    }

    /// Hands every argument to `each`; an error if they are no object.
    pub(super) fn args(&self, mut each: impl FnMut(&str, Scalar<'a>)) -> Read<()> {
        if self.arguments.is_empty() {
            return Ok(());
        }
        Reader::new(self.arguments).object(|key, reader| {
            each(&key, reader.scalar()?);
            Ok(())
        })
    }

    /// One argument as text or number.
    pub(super) fn argument(&self, wanted: &str) -> Option<String> {
        let mut found = None;
        let _ = self.args(|key, value| {
            if key == wanted {
                found = value.text().map(str::to_owned);
            }
        });
        found
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
