//! What has no duration and no nesting: readings of counters, and the points of arrows.

use ringscope_format::{Kind, Link, LinkRole, TrackKind};

use super::{
    super::{
        collector::{Event, FlowPoint, bits, number},
        json::Scalar,
    },
    Chrome, Line,
    event::{RawEvent, id_of},
    own,
};

impl Chrome<'_> {
    /// A reading of each of its series.
    pub(super) fn counter(&mut self, event: &RawEvent<'_>, at: i64) {
        let process = self.number_of(&event.pid);
        let line = self.line(Line::Counters(process), TrackKind::Other, 0);
        let id = event.id.as_ref().and_then(Scalar::text).map(|id| format!("[{id}]"));
        let whole = format!("{}{}", event.name, id.unwrap_or_default());
        let mut strange = 0;
        for (series, value) in event.args() {
            let Some(value) = value.text().and_then(number) else {
                strange += 1;
                continue;
            };
            let alone = series == "value" || *series == event.name;
            let name = if alone { whole.clone() } else { format!("{whole}.{series}") };
            let name = self.found.strings.number(&name);
            self.found.push(Event::point(Kind::GAUGE, name, line, at, bits(value)), &[]);
        }
        let strange = strange + u64::from(event.has_strange_arguments);
        self.found.note_many("counters without a number", strange);
    }

    /// An arrow. PyTorch's and our own from calls to kernels repeat the correlation.
    pub(super) fn flow(&mut self, event: &RawEvent<'_>, at: i64) {
        let is_own = self.is_own && own::repeats_correlation(event);
        if is_own || matches!(&*event.cat, "ac2g" | "async_cpu_to_gpu") {
            return;
        }
        let track = self.thread(event);
        let group = self.async_group(event);
        let role = if event.phase == b's' { LinkRole::Own } else { LinkRole::FollowsFrom };
        // Flows of different categories may have the same id, and those of different files.
        let id = self.found.own_id(event.id.as_ref().map_or(0, id_of), group);
        self.found.flows.push(FlowPoint { track, at, link: Link { id, track: 0, role } });
    }
}
