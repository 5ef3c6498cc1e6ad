//! What `analyze export --to chrome` wrote: a category is the kind of a record, and a thread
//! is a track or, where spans of a track cross, a part of one.
//!
//! What does not come back: by how much a counter grew, only what it came to.

use ringscope_format::{Kind, Status, TrackKind};

use super::{
    super::{
        collector::{Event, bits, number},
        exported::{kind_of, link_of, status_of, track_kind_of},
        json::{Reader, Scalar},
    },
    Chrome, Line,
    event::RawEvent,
};

impl Chrome<'_> {
    /// Whether a property of the whole file says that it is one of these.
    pub(super) fn says_own(key: &str, value: &Scalar<'_>) -> bool {
        let said = br#""recorder":"ringscope""#;
        matches!(value, Scalar::Nested(text)
            if key == "otherData" && text.windows(said.len()).any(|it| it == said))
    }

    /// Which track a thread is a part of, and of what kind that is.
    pub(super) fn own_thread(&mut self, event: &RawEvent<'_>) -> bool {
        let Some(track) = event.argument("track").filter(|_| self.is_own) else { return false };
        let (process, thread) = (self.number_of(&event.pid), self.number_of(&event.tid));
        let track = self.found.strings.number(track);
        let kind = track_kind_of(event.argument("kind").unwrap_or_default());
        let is_first = !self.parts.values().any(|part| *part == (process, track, kind));
        self.parts.insert((process, thread), (process, track, kind));
        let name = event.argument("name").filter(|_| is_first);
        if let Some(name) = name {
            self.threads.insert((process, track), name.to_owned());
        }
        true
    }

    /// The track of a thread that was said to be a part of one.
    pub(super) fn own_track(&mut self, event: &RawEvent<'_>) -> Option<u32> {
        if !self.is_own {
            return None;
        }
        let thread = (self.number_of(&event.pid), self.number_of(&event.tid));
        let (process, track, kind) = *self.parts.get(&thread)?;
        Some(self.line(Line::Thread(process, track), kind, 0))
    }

    /// Takes a record by its kind; whether it was one.
    pub(super) fn own_record(
        &mut self,
        event: &RawEvent<'_>,
        at: i64,
        duration: Option<u64>,
    ) -> bool {
        if !self.is_own {
            return false;
        }
        let kind = kind_of(&event.cat).filter(|kind| kind.is_timed() == duration.is_some());
        let Some(kind) = kind else { return false };
        let (line, name) = (self.thread(event), self.name(event));
        self.scratch.clear();
        let (mut status, mut value, mut link) = (Status::UNKNOWN, Default::default(), 0);
        let mut links = Vec::new();
        for (key, argument) in event.args() {
            let text = argument.text();
            match &**key {
                "status" => status = status_of(text.unwrap_or_default()),
                "correlation" => {
                    let id = text.and_then(|id| id.parse().ok()).filter(|&id| id != 0);
                    link = id.map_or(0, |id| self.found.link(id));
                }
                "value" if kind.is_point() => {
                    value = text.and_then(number).map(bits).unwrap_or_default();
                }
                key => match text.and_then(|id| link_of(key, id)) {
                    Some(link) => links.push(link),
                    None => {
                        let key = self.found.strings.number(key);
                        self.scratch.extend(self.found.field(key, argument));
                    }
                },
            }
        }
        let mut record = match duration {
            Some(duration) => Event::timed(kind, name, line, at, duration),
            None => Event::point(kind, name, line, at, value),
        };
        (record.status, record.link) = (status, link);
        self.push(record);
        let last = self.found.events.len() as u32 - 1;
        self.found.links.extend(links.into_iter().map(|link| (last, link)));
        true
    }
}

/// Wall time of the file's zero, from what it says about itself.
pub(super) fn epoch_ns(value: &Scalar<'_>) -> Option<i64> {
    let Scalar::Nested(text) = value else { return None };
    let mut epoch = None;
    // It has been read once already.
    let _ = Reader::new(text).object(|key, reader| {
        let value = reader.scalar()?;
        if key == "first_unix_ns" {
            epoch = value.text().and_then(|text| text.parse().ok());
        }
        Ok(())
    });
    epoch
}

/// A process and a track of it.
pub(super) type Part = (u32, u32, TrackKind);

/// Arrows that only repeat what `correlation` says.
pub(super) fn repeats_correlation(event: &RawEvent<'_>) -> bool {
    kind_of(&event.cat) == Some(Kind::LAUNCH)
}
