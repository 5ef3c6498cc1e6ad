//! `cut`: a trace of a part of another.
//!
//! Kept is what passes the filters, and nothing else: a span's parent is only there if
//! it passes as well. Depths stay as they were recorded, so a span whose parent was cut
//! away counts as a child of the next ancestor that is there, as one whose parent was
//! lost does; and self time is what the children that are there did not take. All
//! other figures of the new trace are those of the old one with the same filters.
//!
//! Scopes of requests are kept by their track and their start, whatever the name and the duration
//! asked for: for whom the rest was stays known, but for what is left of a request that was
//! entered before the part begins.
//!
//! With `--worst`, the filters choose which records are the worst, and all that
//! overlaps these is kept: what they ran in, what ran in them and beside them.
//!
//! Losses come along unless they surely happened at other times or on other tracks.

use std::path::PathBuf;

use ringscope_format::{Batch, Kind, Loss};

use super::{
    Target,
    copying::{AsItIs, Copying, Tally},
    header,
    provenance::provenance,
};
use crate::{
    Result,
    budget::Budget,
    cli::{Filters, parse_length},
    filter::{Filter, Sieve},
    load::Traces,
    output::number_of,
    report::{about, surroundings::longest},
};

/// Options of `cut`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    filters: Filters,
    /// Only durations of at least this
    #[arg(long, value_name = "TIME", value_parser = parse_length, help_heading = "Filters")]
    min_duration: Option<f64>,
    /// Of what passes the longest N, and all that overlaps them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Filters")]
    worst: Option<u32>,
    /// Also what overlaps so much time before and after each of the worst
    #[arg(long, value_name = "TIME", value_parser = parse_length, requires = "worst", help_heading = "Filters")]
    around: Option<f64>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let duration_ns = args.min_duration.map(|least| least..f64::INFINITY);
    let filter = Filter { duration_ns, ..args.filters.filter()? };
    let traces = args.target.open(&[args.trace])?;
    let sieve = filter.sieves(&traces, Budget::default())?.remove(0);
    let part = match args.worst {
        None => Part::Passing(sieve),
        Some(worst) => {
            let around = args.around.unwrap_or(0.0);
            Part::Near(windows(&traces, sieve, worst as usize, around)?)
        }
    };
    let loaded = &traces.list[0];
    let (mut kept, mut left_out, mut open) = (Tally::default(), Tally::default(), 0);
    args.target.write(header(&traces, "cut"), |writer| {
        let mut copying = Copying::new(&traces, 0, writer, AsItIs);
        copying.metadata(&provenance(loaded, "cut"))?;
        copying.clock_pairs();
        copying.chunks(
            |chunk| part.can_be_in(chunk.first_tick, chunk.last_tick),
            |batch, at| part.takes(batch, at),
        )?;
        copying.losses(traces.events_unreadable(0), |loss| part.may_have_lost(loss));
        copying.open_spans(|span| match &part {
            Part::Passing(sieve) => sieve.takes_open(span),
            Part::Near(windows) => overlaps(windows, span.start, u64::MAX),
        })?;
        (kept, left_out, open) = (copying.kept, copying.left_out, copying.open);
        Ok(())
    })?;
    about::warn_unreadable(&traces);
    let mut said = format!("{} kept, {} left out", kept.in_words(), left_out.in_short());
    if open > 0 {
        said.push_str(&format!("; {} kept", number_of(open, "open span")));
    }
    args.target.say(&said);
    Ok(())
}

/// Which part is kept.
enum Part {
    /// What passes.
    Passing(Sieve),
    /// What overlaps these ticks: rising, apart, ends included.
    Near(Vec<(u64, u64)>),
}

impl Part {
    fn can_be_in(&self, first: u64, last: u64) -> bool {
        match self {
            Part::Passing(sieve) => sieve.can_start_in(first, last),
            Part::Near(windows) => overlaps(windows, first, last),
        }
    }

    fn takes(&self, batch: &Batch, at: usize) -> bool {
        match self {
            Part::Passing(sieve) if Kind(batch.kind[at]) == Kind::SCOPE => {
                sieve.takes_scope(batch.track[at], batch.start[at])
                    && sieve.takes_request(batch, at)
            }
            Part::Passing(sieve) => sieve.takes_record(batch, at),
            Part::Near(windows) => {
                let start = batch.start[at];
                let is_timed = Kind(batch.kind[at]).is_timed();
                let ticks = if is_timed { (batch.value[at] as i64).max(0) as u64 } else { 0 };
                overlaps(windows, start, start.saturating_add(ticks))
            }
        }
    }

    /// Whether the loss may be of this part. One without a time may be of any.
    fn may_have_lost(&self, loss: &Loss) -> bool {
        let at_the_time = loss.not_after == 0 || self.can_be_in(loss.not_before, loss.not_after);
        let on_the_track = match self {
            Part::Passing(sieve) => loss.track == 0 || sieve.takes_track(loss.track),
            Part::Near(_) => true,
        };
        at_the_time && on_the_track
    }
}

/// When the worst ran, with what is to be around them.
fn windows(traces: &Traces, sieve: Sieve, worst: usize, around_ns: f64) -> Result<Vec<(u64, u64)>> {
    let around = (around_ns / traces.list[0].trace.clock().ns_per_tick()).round() as u64;
    let found = longest(traces, &[sieve], worst)?;
    let window =
        |(start, end): (u64, u64)| (start.saturating_sub(around), end.saturating_add(around));
    Ok(apart(found.iter().map(|it| window((it.start.0, it.end()))).collect()))
}

/// The same stretches, rising, those that touch joined.
fn apart(mut stretches: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    stretches.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::with_capacity(stretches.len());
    for (start, end) in stretches {
        match apart.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => apart.push((start, end)),
        }
    }
    apart
}

/// Whether something from `first` to `last` is in one of the windows.
fn overlaps(windows: &[(u64, u64)], first: u64, last: u64) -> bool {
    let next = windows.partition_point(|(_, end)| *end < first);
    windows.get(next).is_some_and(|(start, _)| *start <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_touch_are_one_and_their_ends_are_in() {
        let windows = apart(vec![(50, 60), (10, 20), (20, 30), (12, 13)]);
        assert_eq!(windows, [(10, 30), (50, 60)]);
        for (first, last, expected) in [
            (0, 9, false),
            (0, 10, true),
            (30, 30, true),
            (31, 49, false),
            (60, 99, true),
            (61, 99, false),
        ] {
            assert_eq!(overlaps(&windows, first, last), expected, "{first} to {last}");
        }
    }
}
