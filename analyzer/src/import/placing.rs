//! The order of a trace: by end along each track, children before their parents,
//! with the depth of each.
//!
//! Nesting is by containment. Of two spans with the same start and end, the one
//! that its file has first is the parent. Spans of a track that overlap without
//! nesting are siblings, and counted.

use std::cmp::Reverse;

use ringscope_format::{Kind, Link};

use super::collector::{Collector, Event, FlowPoint};

/// Where everything goes.
#[derive(Default)]
pub(super) struct Placed {
    /// Numbers of events, by rising end.
    pub(super) order: Vec<u32>,
    /// Of each event, by its number.
    pub(super) depth: Vec<u8>,
    /// Arrows by the number of the event that they go from or to.
    pub(super) links: Vec<(u32, Link)>,
    /// Spans that overlap another of their track without nesting.
    pub(super) overlapping: u64,
    /// Points of arrows where no span was.
    pub(super) loose_flows: u64,
}

/// Works the order out.
pub(super) fn place(found: &Collector) -> Placed {
    let events = &found.events;
    let mut by_start = by_track(events, found.tracks.len());
    for track in
        by_start.chunk_by_mut(|&a, &b| events[a as usize].track == events[b as usize].track)
    {
        // Most files have the events of a track nearly in order, which this sort takes for granted.
        track.sort_by_key(|&at| {
            let event = &events[at as usize];
            (event.start, Reverse(event.end()), event.sequence)
        });
    }
    let mut flows: Vec<&FlowPoint> = found.flows.iter().collect();
    flows.sort_by_key(|flow| (flow.track, flow.at));

    let (depth, links) = (vec![0; events.len()], found.links.clone());
    let mut placed = Placed { depth, links, ..Placed::default() };
    placed.order.reserve_exact(events.len());
    let mut flows = flows.as_slice();
    for track in by_start.chunk_by(|&a, &b| events[a as usize].track == events[b as usize].track) {
        let number = events[track[0] as usize].track;
        let before = flows.partition_point(|flow| flow.track < number);
        placed.loose_flows += before as u64;
        let (of_track, rest) =
            flows[before..].split_at(flows[before..].partition_point(|flow| flow.track == number));
        flows = rest;
        Sweep { events, placed: &mut placed, open: Vec::new() }.track(track, of_track);
    }
    placed.loose_flows += flows.len() as u64;
    // Stable: what ends at one tick stays as the sweep had it, inner spans first.
    placed.order.sort_by_key(|&at| events[at as usize].end());
    placed.links.sort_by_key(|link| link.0);
    placed
}

/// Numbers of events by rising track, and as they come within each.
fn by_track(events: &[Event], tracks: usize) -> Vec<u32> {
    let mut begins = vec![0; tracks + 1];
    for event in events {
        begins[event.track as usize + 1] += 1;
    }
    for track in 0..tracks {
        begins[track + 1] += begins[track];
    }
    let mut order = vec![0; events.len()];
    for (at, event) in events.iter().enumerate() {
        let place = &mut begins[event.track as usize];
        order[*place] = at as u32;
        *place += 1;
    }
    order
}

/// Whether spans of this kind can be parents and children.
fn nests(kind: Kind) -> bool {
    matches!(kind, Kind::SPAN | Kind::SLICE | Kind::LAUNCH)
}

struct Sweep<'a> {
    events: &'a [Event],
    placed: &'a mut Placed,
    /// Each contains the next.
    open: Vec<u32>,
}

impl Sweep<'_> {
    fn track(&mut self, by_start: &[u32], mut flows: &[&FlowPoint]) {
        for &at in by_start {
            let event = &self.events[at as usize];
            let (before, rest) = flows.split_at(flows.partition_point(|it| it.at < event.start));
            flows = rest;
            before.iter().for_each(|flow| self.attach(flow));
            self.close_while(|open| open.end() <= event.start);
            if !nests(event.kind) {
                let has_depth = event.kind.is_point() || event.kind == Kind::SCOPE;
                let depth = if has_depth { self.open.len() } else { 0 };
                self.placed.depth[at as usize] = depth.min(255) as u8;
                self.placed.order.push(at);
                continue;
            }
            // What starts from here on and is inside of the one that is closed here is
            // inside of this one too, so nobody misses it.
            let closed = self.close_while(|open| open.end() < event.end());
            self.placed.overlapping += u64::from(closed > 0);
            self.placed.depth[at as usize] = self.open.len().min(255) as u8;
            self.open.push(at);
        }
        flows.iter().for_each(|flow| self.attach(flow));
        self.close_while(|_| true);
    }

    fn close_while(&mut self, is_over: impl Fn(&Event) -> bool) -> usize {
        let before = self.open.len();
        while let Some(at) = self.open.pop_if(|at| is_over(&self.events[*at as usize])) {
            self.placed.order.push(at);
        }
        before - self.open.len()
    }

    /// An arrow belongs to the innermost span that it touches.
    fn attach(&mut self, flow: &FlowPoint) {
        self.close_while(|open| open.end() < flow.at);
        match self.open.last() {
            Some(&at) => self.placed.links.push((at, flow.link)),
            None => self.placed.loose_flows += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names by rising end, indented by depth.
    fn placed(spans: &[(&str, i64, u64)]) -> Vec<String> {
        let mut found = Collector::default();
        found.track(ringscope_format::TrackKind::Thread, 0, "");
        for (name, start, duration) in spans {
            let name = found.strings.number(name);
            found.push(Event::timed(Kind::SPAN, name, 0, *start, *duration), &[]);
        }
        let placed = place(&found);
        let line = |&at: &u32| {
            let depth = usize::from(placed.depth[at as usize]);
            "  ".repeat(depth) + found.strings.get(found.events[at as usize].name)
        };
        placed.order.iter().map(line).collect()
    }

    #[test]
    fn children_come_before_their_parents_whatever_the_order_of_the_file() {
        let inside = [("inner", 2, 3), ("outer", 0, 10), ("next", 10, 5), ("leaf", 2, 1)];
        assert_eq!(placed(&inside), ["    leaf", "  inner", "outer", "next"]);
    }

    #[test]
    fn of_equal_spans_the_first_is_the_parent() {
        assert_eq!(placed(&[("a", 1, 1), ("b", 1, 1)]), ["  b", "a"]);
    }

    #[test]
    fn overlapping_spans_are_siblings() {
        assert_eq!(placed(&[("a", 0, 10), ("b", 5, 10), ("c", 6, 3)]), ["  c", "a", "b"]);
    }

    #[test]
    fn a_moment_between_two_spans_belongs_to_the_second() {
        assert_eq!(placed(&[("a", 0, 5), ("b", 5, 5), ("c", 5, 0)]), ["a", "  c", "b"]);
    }
}
