//! `threads`: what each thread and queue did with its time.
//!
//! A track is busy while it is in a span or, if it is a device's queue, while it
//! works; what overlaps counts once. With a filter only what is in counts. Chunks
//! are read in one order, last first; what is held grows with the number of tracks
//! and of names on each.

use std::collections::HashMap;

use ringscope_format::{Columns, Kind, Loss, TrackKind};

use super::{Context, spans::percent, stragglers::stragglers};
use crate::{
    Result,
    cli::Common,
    device::is_device_work,
    load::Loaded,
    output::{Cell, Column, Document, Part, Table, count},
    scan::backwards,
    summary::{
        busy::Busy,
        nesting::{self, Ancestors, Open, PerTrack, nests},
    },
};

/// Rows that people get unasked.
const USUAL_ROWS: usize = 40;

/// Options of `threads`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let context = Context::open(args.common)?;
    let (table, is_exact) = threads(&context);
    let table = context.arrange(table, context.common.limit(USUAL_ROWS))?;
    let mut parts = vec![Part::Table(table)];
    parts.extend(stragglers(&context)?.map(Part::Table));
    let mut document = context.document("ringscope.threads/1", parts);
    document.exact &= is_exact;
    Ok((context.common, document))
}

/// What is remembered of a span while its children are read.
#[derive(Clone, Copy, Debug)]
struct Tag {
    name: u32,
    counts: bool,
    /// Whether its time has been counted as busy, as its own or an ancestor's.
    is_busy: bool,
}

/// What is known of one track.
#[derive(Debug, Default)]
struct TrackSum {
    open: Ancestors<Tag>,
    events: u64,
    spans: u64,
    /// Earliest start and latest end.
    life: Option<(u64, u64)>,
    busy: Busy,
    /// Self time by name.
    own: HashMap<u32, i128>,
}

impl TrackSum {
    fn live(&mut self, start: u64, end: u64) {
        let life = self.life.get_or_insert((start, end));
        *life = (life.0.min(start), life.1.max(end));
    }

    fn span(&mut self, mut span: Open<Tag>) {
        let (start, end, ticks) = (span.start, span.end, i128::from(span.duration()));
        let parent = self.open.parent_of(&span).map(|parent| parent.tag);
        let Tag { name, counts, .. } = span.tag;
        if let Some(parent) = parent.filter(|parent| parent.counts) {
            *self.own.entry(parent.name).or_default() -= ticks;
        }
        let above = parent.is_some_and(|parent| parent.is_busy);
        if counts {
            *self.own.entry(name).or_default() += ticks;
            self.spans += 1;
            if !above {
                self.busy.add(start, end);
            }
        }
        span.tag.is_busy = above || counts;
        self.open.push(span);
    }

    fn work(&mut self, name: u32, start: u64, end: u64) {
        *self.own.entry(name).or_default() += i128::from(end - start);
        self.busy.add(start, end);
    }

    /// The name with the most self time, and that time.
    fn top(&self) -> Option<(u32, i128)> {
        let by_time = self.own.iter().filter(|(_, ticks)| **ticks > 0);
        by_time.map(|(&name, &ticks)| (name, ticks)).max_by_key(|&(name, ticks)| (ticks, !name))
    }
}

/// The tracks of all traces.
fn read(context: &Context) -> Vec<HashMap<u32, TrackSum>> {
    let traces = &context.traces;
    let mut tracks: Vec<PerTrack<TrackSum>> = Vec::new();
    tracks.resize_with(traces.list.len(), PerTrack::default);
    let columns = nesting::columns() | Columns::NAME;
    backwards(traces, columns, "reading", |trace, _, batch| {
        let loaded = &traces.list[trace];
        let sieve = context.sieves.get(trace).filter(|sieve| !sieve.is_open());
        for at in (0..batch.events).rev() {
            let counts = sieve.is_none_or(|sieve| sieve.takes_record(batch, at));
            let kind = Kind(batch.kind[at]);
            if !counts && !nests(kind.0) {
                continue;
            }
            let sum = tracks[trace].of(batch.track[at]);
            let name = loaded.name_index(batch.name[at]);
            let span = Open::of(batch, at, Tag { name, counts, is_busy: false });
            if counts {
                sum.events += 1;
                // A life goes on while its thread does something else, and after it. A thread may
                // work for somebody and be in no span.
                if !kind.is_overlay() {
                    sum.live(span.start, if kind.is_timed() { span.end } else { span.start });
                }
            }
            if nests(kind.0) {
                sum.span(span);
            } else if is_device_work(kind) {
                sum.work(name, span.start, span.end);
            }
        }
    });
    let finish = |mut tracks: PerTrack<TrackSum>| {
        let mut tracks = tracks.take();
        tracks.values_mut().for_each(|sum| sum.busy.finish());
        tracks
    };
    tracks.into_iter().map(finish).collect()
}

/// A row for each track on which anything happened or got lost, and whether busy
/// times are exact.
fn threads(context: &Context) -> (Table, bool) {
    let tracks = read(context);
    let mut table = Table::new("threads", "Threads", columns(context));
    let (mut nameless, mut too_late) = (0, 0);
    let (mut has_lost, mut has_skipped) = (false, false);
    let mut rows = Vec::new();
    for (trace, mut tracks) in tracks.into_iter().enumerate() {
        let loaded = &context.traces.list[trace];
        let mut losses = losses(loaded);
        nameless += losses.remove(&0).map_or(0, |(lost, _)| lost);
        losses.retain(|&track, _| context.sieves[trace].takes_track(track));
        for &track in losses.keys() {
            tracks.entry(track).or_default();
        }
        // A track may be known only for spans that the filter leaves out.
        tracks.retain(|track, sum| sum.events > 0 || losses.contains_key(track));
        has_lost |= losses.values().any(|&(lost, _)| lost > 0);
        has_skipped |= losses.values().any(|&(_, skipped)| skipped > 0);
        for (track, sum) in &tracks {
            too_late += sum.busy.too_late;
            let busy_ns = sum.busy.ticks as f64 * loaded.trace.clock().ns_per_tick();
            rows.push((busy_ns, *track, row(context, loaded, *track, sum, losses.get(track))));
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    table.rows = rows.into_iter().map(|(_, _, row)| row).collect();
    for column in &mut table.columns {
        column.shown |= column.key == "lost_events" && has_lost;
        column.shown |= column.key == "skipped_events" && has_skipped;
    }
    let mut notes = Vec::new();
    if table.rows.is_empty() {
        notes.push("  no thread with events, or none that passes the filters".to_owned());
    }
    if nameless > 0 {
        let events = count(nameless);
        notes.push(format!("  {events} more events were lost on threads that never had a ring"));
    }
    if too_late > 0 {
        let work = count(too_late);
        notes.push(format!("  busy is not exact: {work} pieces of work were told of far too late"));
    }
    table.note = notes.join("\n");
    (table, too_late == 0)
}

fn columns(context: &Context) -> Vec<Column> {
    let mut columns = vec![Column::new("track", "thread")];
    if context.traces.list.len() > 1 {
        columns.push(Column::new("trace", "trace"));
    }
    columns.extend([
        Column::new("kind", "kind"),
        Column::hidden("events", "events"),
        Column::new("spans", "spans"),
        Column::new("busy_ns", "busy"),
        Column::new("busy_life_percent", "% of life"),
        Column::new("busy_trace_percent", "% of trace"),
        Column::new("first_ns", "first"),
        Column::new("last_ns", "last"),
        Column::new("longest_gap_ns", "longest gap"),
        Column::hidden("longest_gap_at_ns", "gap from"),
        Column::hidden("lost_events", "lost"),
        Column::hidden("skipped_events", "skipped"),
        Column::new("top_name", "most self time in"),
        Column::hidden("top_self_ns", "self time"),
        Column::hidden("life_ns", "life"),
        Column::hidden("track_id", "id"),
        Column::hidden("os_id", "system's id"),
    ]);
    columns
}

fn row(
    context: &Context,
    loaded: &Loaded,
    track: u32,
    sum: &TrackSum,
    losses: Option<&(u64, u64)>,
) -> Vec<Cell> {
    let ns = |ticks: f64| ticks * loaded.trace.clock().ns_per_tick();
    let known = loaded.trace.tracks().iter().find(|it| it.id == track);
    let mut row = vec![Cell::from(loaded.track_name(track))];
    if context.traces.list.len() > 1 {
        row.push(Cell::from(loaded.label.as_str()));
    }
    let kind = match known.map(|track| track.kind) {
        Some(TrackKind::Thread) => "thread",
        Some(TrackKind::GpuQueue) => "queue",
        Some(TrackKind::Recorder) => "recorder",
        Some(TrackKind::Other) => "other",
        Some(TrackKind::Unknown(_)) | None => "unknown",
    };
    let busy_ns = ns(sum.busy.ticks as f64);
    let life_ns = sum.life.map(|(first, last)| ns((last - first) as f64));
    let (lost, skipped) = losses.copied().unwrap_or_default();
    let since =
        |tick: Option<u64>| tick.map_or(Cell::None, |it| Cell::Ns(loaded.since_start_ns(it)));
    let gap = sum.busy.longest_gap;
    let top = sum.top();
    let top_name = top.map(|(name, _)| context.traces.names[name as usize].as_str());
    row.extend([
        Cell::from(kind),
        Cell::Count(sum.events),
        Cell::Count(sum.spans),
        Cell::Ns(busy_ns),
        percent(busy_ns, life_ns.unwrap_or(0.0)),
        percent(busy_ns, loaded.length_ns()),
        since(sum.life.map(|(first, _)| first)),
        since(sum.life.map(|(_, last)| last)),
        gap.map_or(Cell::None, |(from, to)| Cell::Ns(ns((to - from) as f64))),
        since(gap.map(|(from, _)| from)),
        Cell::Count(lost),
        Cell::Count(skipped),
        top_name.map_or(Cell::None, Cell::from),
        top.map_or(Cell::None, |(_, ticks)| Cell::Ns(ns(ticks as f64))),
        life_ns.map_or(Cell::None, Cell::Ns),
        Cell::Count(u64::from(track)),
        known.map_or(Cell::None, |track| Cell::Count(track.os_id)),
    ]);
    row
}

/// Events lost and skipped by track.
fn losses(loaded: &Loaded) -> HashMap<u32, (u64, u64)> {
    let mut by_track: HashMap<u32, (u64, u64)> = HashMap::new();
    for loss in loaded.losses() {
        let (lost, skipped) = by_track.entry(loss.track).or_default();
        match loss.class {
            Loss::LOST => *lost = lost.saturating_add(loss.events),
            Loss::SKIPPED => *skipped = skipped.saturating_add(loss.events),
            _ => {}
        }
    }
    by_track
}
