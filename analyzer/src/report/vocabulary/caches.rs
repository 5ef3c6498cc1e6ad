//! `caches`: how often what was looked for was there. The names of caches are held.

use std::cmp::Reverse;

use super::{
    Fold, Report,
    grouping::{Groups, Sum},
    view::{View, optional, text},
};
use crate::{
    Result,
    events::{Event, Key, Scope},
    output::{Cell, Column, Floor, Part, Table, sparkline},
};

pub(super) const REPORT: Report = Report {
    what: "caches",
    schema: "ringscope.caches/1",
    scope: Scope { names: &NAMES, ..Scope::NONE },
    fold: |view| Box::new(Caches::new(view)),
    nothing: "no caches in this trace; cache.hit, cache.miss and cache.access record them \
              (format-spec/VOCABULARY.md)",
};

const NAMES: [&str; 3] = ["cache.hit", "cache.miss", "cache.access"];

/// Whether the table says what a field of this key holds.
pub(super) fn is_read(key: &str) -> bool {
    matches!(key, "cache" | "hit" | "bytes")
}

#[derive(Default)]
struct Cache {
    accesses: u64,
    hits: u64,
    hit_bytes: Sum,
    miss_bytes: Sum,
    /// Hits and accesses in each part of the time.
    course: Vec<(f64, f64)>,
}

struct Caches<'a> {
    view: &'a View<'a>,
    cache: Key,
    hit: Key,
    bytes: Key,
    /// By trace and cache.
    groups: Groups<'a, usize, Cache>,
}

impl<'a> Caches<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let [cache, hit, bytes] = Key::all(&view.context.traces, ["cache", "hit", "bytes"]);
        Self { view, cache, hit, bytes, groups: Groups::new(view.held("names of caches")) }
    }
}

impl Fold for Caches<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let cache = event.label(self.cache).unwrap_or("(unnamed)".into());
        let width = self.view.sparkline_width.unwrap_or(0);
        let (cache, _) = self.groups.at(event.trace, &cache, || Cache {
            course: vec![(0.0, 0.0); width],
            ..Cache::default()
        })?;
        let is_hit = event.name() == "cache.hit" || event.number(self.hit) == Some(1.0);
        cache.accesses += 1;
        cache.hits += u64::from(is_hit);
        let bytes = if is_hit { &mut cache.hit_bytes } else { &mut cache.miss_bytes };
        bytes.add(event.number(self.bytes));
        if width > 0 {
            let (from, to) = self.view.time_range(event.trace);
            let share = (event.start_ns() - from) / (to - from);
            let part = ((share * width as f64).max(0.0) as usize).min(width - 1);
            cache.course[part].0 += f64::from(u8::from(is_hit));
            cache.course[part].1 += 1.0;
        }
        Ok(())
    }

    fn parts(self: Box<Self>) -> Vec<Part> {
        let view = self.view;
        let mut all = self.groups.into_list();
        if all.is_empty() {
            return Vec::new();
        }
        all.sort_by(|(a_trace, a_name, a), (b_trace, b_name, b)| {
            let key = |cache: &Cache| Reverse(cache.accesses);
            (key(a), a_name, a_trace).cmp(&(key(b), b_name, b_trace))
        });
        let has_bytes = |sum: Sum| sum.total().is_some_and(|bytes| bytes > 0.0);
        let any_bytes =
            all.iter().any(|(.., it)| has_bytes(it.hit_bytes) || has_bytes(it.miss_bytes));
        let mut columns = vec![
            Column::new("cache", "cache"),
            view.trace_column(),
            Column::new("accesses", "accesses"),
            Column::new("hits", "hits"),
            Column::new("misses", "misses"),
            Column::new("hit_percent", "hit %"),
            Column { shown: any_bytes, ..Column::new("hit_bytes", "hit bytes") },
            Column { shown: any_bytes, ..Column::new("miss_bytes", "miss bytes") },
        ];
        columns.extend(view.course_column("hit % over time"));
        let mut table = Table::new("caches", "Caches", columns);
        for (trace, name, cache) in all {
            let mut cells = vec![
                text(Some(&name)),
                view.trace_cell(trace),
                Cell::Count(cache.accesses),
                Cell::Count(cache.hits),
                Cell::Count(cache.accesses - cache.hits),
                Cell::Percent(100.0 * (cache.hits as f64 / cache.accesses as f64)),
                optional(cache.hit_bytes.total(), Cell::Bytes),
                optional(cache.miss_bytes.total(), Cell::Bytes),
            ];
            if let Some(width) = view.sparkline_width {
                cells.push(text(Some(&rates(&cache.course, width))));
            }
            table.rows.push(cells);
        }
        vec![Part::Table(table)]
    }
}

/// The rate of hits in each part of the time.
fn rates(parts: &[(f64, f64)], width: usize) -> String {
    let used = parts.iter().enumerate().filter(|(_, (_, all))| *all > 0.0);
    let rates = used.map(|(at, (hits, all))| (at as f64, hits / all));
    sparkline(rates, (0.0, width as f64), width, Floor::Zero)
}
