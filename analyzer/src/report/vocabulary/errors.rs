//! `errors`: what went wrong, by name and kind: first, last, how often, and what
//! the last one had to say. What is held grows with the number of kinds, and of each
//! it is what the last one said.

use std::rc::Rc;

use ringscope_format::{EventDetails, Kind, OwnedValue};

use super::{
    Fold, Report, about,
    grouping::{Groups, Sum},
    view::{View, optional, text},
};
use crate::{
    Result,
    events::{Event, Key, LINK_KEYS, Scope, link_key, told},
    output::{Cell, Column, Part, Table},
};

pub(super) const REPORT: Report = Report {
    what: "errors",
    schema: "ringscope.errors/1",
    scope: Scope { kinds: |kind| kind == Kind::ERROR, failed: true, ..Scope::NONE },
    fold: |view| Box::new(Errors::new(view)),
    nothing: "no errors in this trace; it would hold what error! records, and spans that fail",
};

/// The key of what tells errors of a name apart.
const KIND: &str = "kind";

#[derive(Default)]
struct OfKind {
    times: Sum,
    last: Rc<EventDetails>,
}

struct Errors<'a> {
    view: &'a View<'a>,
    kind: Key,
    /// By trace, name and kind of record, and by the field `kind`.
    groups: Groups<'a, (usize, u32, Kind), OfKind>,
}

impl<'a> Errors<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let kind = Key::of(&view.context.traces, KIND);
        Self { view, kind, groups: Groups::new(view.held("errors")) }
    }
}

/// All fields but the kind, as one line.
fn payload(view: &View<'_>, trace: usize, details: &EventDetails) -> String {
    let traces = &view.context.traces;
    let loaded = &traces.list[trace];
    let mut said = Vec::new();
    for (key, value) in &details.fields {
        let key = &traces.names[loaded.name_index(*key) as usize];
        if key == KIND {
            continue;
        }
        let is = told(value, loaded, traces);
        let value = match (value, is.text, is.number) {
            (_, Some(text), _) => text.into_owned(),
            (OwnedValue::Ticks(_), None, Some(ns)) => about::in_words(ns),
            (OwnedValue::Bool(is), ..) => is.to_string(),
            (_, None, Some(number)) => number.to_string(),
            (_, None, None) => continue,
        };
        said.push(format!("{key}={value}"));
    }
    let link = |role, id: u128| format!("{}={id:032x}", LINK_KEYS[link_key(role)]);
    said.extend(details.links.iter().map(|it| link(it.role, it.id)));
    said.join("  ")
}

/// Bytes that are held of what an event carries, once more as a cell in the end.
fn size(details: &EventDetails) -> usize {
    let text = |(_, value): &(u32, OwnedValue)| match value {
        OwnedValue::Text { text, .. } => text.len(),
        _ => 0,
    };
    let fields = details.fields.len() * size_of::<(u32, OwnedValue)>();
    let texts = details.fields.iter().map(text).sum::<usize>();
    fields + size_of_val(&details.links[..]) + 2 * texts
}

impl Fold for Errors<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let kind = event.label(self.kind).unwrap_or_default();
        let key = (event.trace, event.name, event.kind);
        let (of, held) = self.groups.at(key, &kind, OfKind::default)?;
        of.times.add(Some(event.start_ns()));
        held.give_back(size(&of.last));
        held.take(size(event.details()))?;
        of.last = Rc::clone(event.details());
        Ok(())
    }

    fn parts(self: Box<Self>) -> Vec<Part> {
        let view = self.view;
        let mut groups = self.groups.into_list();
        if groups.is_empty() {
            return Vec::new();
        }
        groups.sort_by(|(.., a), (.., b)| {
            let by_count = b.times.count.cmp(&a.times.count);
            let first = |of: &OfKind| of.times.min().unwrap_or(0.0);
            by_count.then(first(a).total_cmp(&first(b)))
        });
        let columns = vec![
            Column::new("name", "name"),
            view.trace_column(),
            Column::new("kind", "kind"),
            Column::new("what", "what"),
            Column::new("count", "count"),
            Column::new("first_ns", "first at"),
            Column::new("last_ns", "last at"),
            Column::new("payload", "the last one said"),
        ];
        let mut table = Table::new("errors", "Errors", columns);
        for ((trace, name, what), kind, of) in groups {
            table.rows.push(vec![
                text(Some(view.name(name))),
                view.trace_cell(trace),
                text(Some(&kind)),
                text(Some(&format!("{what:?}"))),
                Cell::Count(of.times.count),
                optional(of.times.min(), Cell::Ns),
                optional(of.times.max(), Cell::Ns),
                text(Some(&payload(view, trace, &of.last))),
            ]);
        }
        vec![Part::Table(table)]
    }
}
