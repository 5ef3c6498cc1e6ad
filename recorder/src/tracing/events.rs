//! Events: points in time, and errors.

use ringscope_format::{Kind, LinkRole, Record, Status, Value, ValueType};
use tracing_core::{Event, Level};

use super::{
    details::{Details, Telling, Visitor},
    errors::{ErrorFields, LongFields},
    life::{event_name, push, this_threads_lane},
    sites, slots,
};
use crate::hot::{clock, lane::Lane};

/// Something that happened, or went wrong.
pub(super) fn record(event: &Event<'_>, parent: Option<u64>) {
    let Some(site) = sites::of(event.metadata()) else { return };
    let is_error = *event.metadata().level() == Level::ERROR;
    let Some(name) = event_name(&site.call_site, is_error) else { return };
    let (mut details, mut long) = (Details::default(), LongFields::default());
    if is_error {
        let fields = &mut ErrorFields { details: &mut details, long: &mut long };
        event.record(&mut Visitor { site, fields });
    } else {
        event.record(&mut Visitor { site, fields: &mut details });
    }
    if let Some(parent) = parent.and_then(slots::find) {
        details.link(LinkRole::Parent, parent.number());
    }
    let lane = this_threads_lane();
    let record = Record {
        start: clock::ticks(),
        value: 0,
        name,
        track: lane.map_or(0, Lane::track),
        link: 0,
        kind: if is_error { Kind::ERROR } else { Kind::EVENT },
        status: if is_error { Status::ERROR } else { Status::UNKNOWN },
        depth: lane.map_or(0, |lane| lane.in_flight.depth()).min(255) as u8,
        shape: Record::shape_of(0, ValueType::None),
    };
    let mut telling = Telling::new();
    if !is_error {
        let (key, level) = site.level();
        telling.field(key, Value::Name(level));
    }
    details.tell_all(&mut telling);
    long.tell(&mut telling);
    push(lane, record, &telling);
}
