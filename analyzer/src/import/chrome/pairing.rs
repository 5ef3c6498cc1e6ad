//! Beginnings and their ends.
//!
//! An end closes the innermost span of its name that is open on its thread, or the
//! innermost of any name if it has none. Events are taken by time; of those at one
//! time the file's order counts, but an end that finds nothing to close is tried
//! again behind the beginnings of the same time. What never ends is in flight, as
//! in a trace of a program that was killed; an end without a beginning is counted.

use std::collections::HashMap;

use ringscope_format::{Kind, Link, LinkRole, OpenSpan};

use super::super::collector::{Begun, Collector, Event, Field};

/// One side of a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) at: i64,
    /// Sides of one group are paired: those of a thread, or with one id.
    pub(super) group: u32,
    pub(super) track: u32,
    pub(super) name: Option<u32>,
    pub(super) begins: bool,
    /// Its place in the file.
    pub(super) sequence: u32,
    /// Of an asynchronous span.
    pub(super) id: u64,
    /// Where its fields begin, and how many there are.
    pub(super) fields: (u32, u8),
}

/// Pairs all of them into spans of this kind.
pub(super) fn pair(found: &mut Collector, mut edges: Vec<Edge>, kind: Kind) {
    edges.sort_by_key(|edge| (edge.group, edge.at));
    for group in edges.chunk_by(|a, b| a.group == b.group) {
        let mut stack = Stack::default();
        for together in group.chunk_by(|a, b| a.at == b.at) {
            let mut late = Vec::new();
            for edge in together {
                if edge.begins {
                    stack.open(*edge);
                } else if let Some(begin) = stack.close(edge) {
                    end(found, kind, &begin, edge);
                } else {
                    late.push(edge);
                }
            }
            for edge in late {
                match stack.close(edge) {
                    Some(begin) => end(found, kind, &begin, edge),
                    None => found.lose("ends without a beginning"),
                }
            }
        }
        for (depth, begin) in stack.left().into_iter().enumerate() {
            found.note("beginnings without an end (in flight)");
            let is_async = kind == Kind::ASYNC_SPAN;
            let span = OpenSpan {
                start: 0,
                id: found.open_id(begin.id),
                name: begin.name.unwrap_or_default(),
                track: begin.track,
            };
            let depth = if is_async { u32::MAX } else { depth as u32 };
            found.open.push(Begun { start: begin.at, span, depth });
        }
    }
}

fn end(found: &mut Collector, kind: Kind, begin: &Edge, end: &Edge) {
    let own = |edge: &Edge| {
        let (at, count) = (edge.fields.0 as usize, usize::from(edge.fields.1));
        at..at + count
    };
    // What the end says again is left out.
    let mut fields: Vec<Field> = found.fields[own(begin)].to_vec();
    for field in &found.fields[own(end)] {
        if !fields.contains(field) {
            fields.push(*field);
        }
    }
    let duration = end.at.abs_diff(begin.at);
    let name = begin.name.unwrap_or_default();
    let number = found.events.len() as u32;
    found.push(Event::timed(kind, name, begin.track, begin.at, duration), &fields);
    found.events[number as usize].sequence = begin.sequence;
    if kind == Kind::ASYNC_SPAN {
        // Tracks of a trace are numbered from 1 on.
        let id = found.own_id(begin.id, begin.group);
        let link = Link { id, track: end.track + 1, role: LinkRole::Own };
        found.links.push((number, link));
    }
}

/// What is open in one group. Spans of one name are a stack of their own, so that
/// neither deep stacks nor ends out of order take long.
#[derive(Default)]
struct Stack {
    all: Vec<(Edge, bool)>,
    by_name: HashMap<u32, Vec<usize>>,
    /// Positions in `all`, outermost first; those that are over are dropped when they
    /// come up.
    open: Vec<usize>,
}

impl Stack {
    fn open(&mut self, edge: Edge) {
        let position = self.all.len();
        self.all.push((edge, true));
        self.by_name.entry(edge.name.unwrap_or_default()).or_default().push(position);
        self.open.push(position);
    }

    fn close(&mut self, edge: &Edge) -> Option<Edge> {
        while self.open.pop_if(|position| !self.all[*position].1).is_some() {}
        let position = match edge.name {
            Some(name) => self.by_name.get_mut(&name)?.pop()?,
            None => {
                let position = self.open.pop()?;
                let name = self.all[position].0.name.unwrap_or_default();
                self.by_name.get_mut(&name)?.pop()?;
                position
            }
        };
        self.all[position].1 = false;
        Some(self.all[position].0)
    }

    fn left(self) -> Vec<Edge> {
        self.all.into_iter().filter(|(_, is_open)| *is_open).map(|(edge, _)| edge).collect()
    }
}
