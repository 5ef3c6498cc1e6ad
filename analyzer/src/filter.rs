//! Which records a question is about: the one filter that serves every command.
//!
//! A record is in if it *starts* in the range of time, its name and its track
//! match one of the patterns given, its duration is long enough, and it was done
//! for the request asked for. Records without a duration are not asked about theirs.

use std::{ops::Range, sync::Arc};

use globset::{Glob, GlobSet, GlobSetBuilder};
use ringscope_format::{Batch, Columns, Kind, OpenSpan};

use crate::{
    Error, Result,
    budget::Budget,
    load::{Loaded, Traces},
    requests::{self, OfRequest, Prefix},
};

/// What the user asked for, in nanoseconds since the trace's first event.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Not before this; negative counts from the end.
    pub from_ns: Option<f64>,
    /// Before this; negative counts from the end.
    pub to_ns: Option<f64>,
    /// The last so many nanoseconds.
    pub last_ns: Option<f64>,
    /// Patterns, of which a name matches one; none for all names.
    pub names: Patterns,
    /// Patterns, of which a track matches one; none for all tracks.
    pub tracks: Patterns,
    /// Durations from here to below there.
    pub duration_ns: Option<Range<f64>>,
    /// The request it was done for.
    pub request: Option<Prefix>,
}

/// Shell patterns: `*`, `?`, `[a-z]`, `{a,b}`; one with `!` before it excludes.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    include: Option<GlobSet>,
    exclude: Option<GlobSet>,
}

impl Patterns {
    /// Parses them all.
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let (mut include, mut exclude) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let (mut any_included, mut any_excluded) = (false, false);
        for pattern in patterns {
            let (set, text) = match pattern.strip_prefix('!') {
                Some(text) => {
                    any_excluded = true;
                    (&mut exclude, text)
                }
                None => {
                    any_included = true;
                    (&mut include, pattern)
                }
            };
            let wrong = |error| Error::new(format!("pattern {pattern:?}: {error}"));
            set.add(Glob::new(text).map_err(wrong)?);
        }
        let build = |set: GlobSetBuilder, any: bool| -> Result<Option<GlobSet>> {
            let set = set.build().map_err(|error| Error::new(format!("pattern: {error}")))?;
            Ok(any.then_some(set))
        };
        Ok(Self { include: build(include, any_included)?, exclude: build(exclude, any_excluded)? })
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.include.is_none() && self.exclude.is_none()
    }

    /// Whether `text` is in.
    pub fn matches(&self, text: &str) -> bool {
        self.include.as_ref().is_none_or(|set| set.is_match(text))
            && !self.exclude.as_ref().is_some_and(|set| set.is_match(text))
    }
}

/// A filter in the terms of one trace: ids and ticks.
#[derive(Clone, Debug)]
pub struct Sieve {
    /// Which start ticks are in, if not all are.
    start: Option<Range<u64>>,
    /// Which durations in ticks are in, if not all are.
    duration: Option<Range<u64>>,
    /// By name id; what is past the end is the last entry.
    names: Option<Vec<bool>>,
    /// By track id, sorted.
    tracks: Option<Vec<u32>>,
    /// Shared: there may be many scopes.
    request: Option<Arc<OfRequest>>,
}

impl Filter {
    /// The filter as it applies to each trace. A request has to be looked for, within the
    /// budget.
    pub fn sieves(&self, traces: &Traces, budget: Budget) -> Result<Vec<Sieve>> {
        let compile = |loaded| self.compile(loaded, &traces.names);
        let mut sieves: Vec<Sieve> = traces.list.iter().map(compile).collect();
        if let Some(prefix) = &self.request {
            let found = requests::choose(traces, prefix, budget)?;
            for (sieve, of_request) in sieves.iter_mut().zip(found) {
                sieve.request = Some(Arc::new(of_request));
            }
        }
        Ok(sieves)
    }

    fn compile(&self, loaded: &Loaded, names: &[String]) -> Sieve {
        let per_ns = 1.0 / loaded.trace.clock().ns_per_tick();
        let length = loaded.length_ns();
        let at = |ns: f64| {
            let ns = if ns < 0.0 { (length + ns).max(0.0) } else { ns };
            loaded.first_tick.saturating_add((ns * per_ns).round() as u64)
        };
        let from = match (self.from_ns, self.last_ns) {
            (from, Some(last)) => from.map_or(0, at).max(at((length - last).max(0.0))),
            (from, None) => from.map_or(0, at),
        };
        let to = self.to_ns.map_or(u64::MAX, at);
        let start = (from > 0 || to < u64::MAX).then_some(from..to);
        let duration = self.duration_ns.as_ref().map(|range| {
            let end =
                if range.end.is_finite() { (range.end * per_ns).ceil() as u64 } else { u64::MAX };
            (range.start * per_ns).ceil() as u64..end
        });
        let names = (!self.names.is_empty()).then(|| {
            let matches: Vec<bool> = names.iter().map(|name| self.names.matches(name)).collect();
            let ids = 0..=loaded.name_of.len() as u32;
            ids.map(|id| matches[loaded.name_index(id) as usize]).collect()
        });
        let tracks = (!self.tracks.is_empty()).then(|| {
            let matching =
                loaded.tracks.iter().filter(|(_, label)| self.tracks.matches(&label.name));
            let mut ids: Vec<u32> = matching.map(|(id, _)| *id).collect();
            ids.sort_unstable();
            ids
        });
        Sieve { start, duration, names, tracks, request: None }
    }

    /// Whether nothing is filtered.
    pub fn is_empty(&self) -> bool {
        self.from_ns.is_none()
            && self.to_ns.is_none()
            && self.last_ns.is_none()
            && self.names.is_empty()
            && self.tracks.is_empty()
            && self.duration_ns.is_none()
            && self.request.is_none()
    }
}

impl Sieve {
    /// Whether everything is in.
    pub fn is_open(&self) -> bool {
        self.start.is_none()
            && self.duration.is_none()
            && self.names.is_none()
            && self.tracks.is_none()
            && self.request.is_none()
    }

    /// Whether anything that starts in these ticks can be in.
    pub fn can_start_in(&self, first: u64, last: u64) -> bool {
        self.start.as_ref().is_none_or(|range| range.start <= last && first < range.end)
            && self.request.as_ref().is_none_or(|request| request.can_start_in(first, last))
    }

    /// Whether a start is in.
    #[inline]
    pub fn takes_start(&self, start: u64) -> bool {
        self.start.as_ref().is_none_or(|range| range.contains(&start))
    }

    /// Whether a duration is in.
    #[inline]
    pub fn takes_duration(&self, ticks: u64) -> bool {
        self.duration.as_ref().is_none_or(|range| range.contains(&ticks))
    }

    /// Whether the `at`-th record is in. Takes the columns that [`Self::columns`] tells.
    #[inline]
    pub fn takes_record(&self, batch: &Batch, at: usize) -> bool {
        let is_timed = Kind(batch.kind[at]).is_timed();
        let duration = || (batch.value[at] as i64).max(0) as u64;
        (self.names.is_none() || self.takes_name(batch.name[at]))
            && (self.tracks.is_none() || self.takes_track(batch.track[at]))
            && (self.start.is_none() || self.takes_start(batch.start[at]))
            && (self.duration.is_none() || !is_timed || self.takes_duration(duration()))
            && self.takes_request(batch, at)
    }

    /// Whether the `at`-th record was done for the request that is asked for, if one is.
    #[inline]
    pub fn takes_request(&self, batch: &Batch, at: usize) -> bool {
        self.request.as_ref().is_none_or(|request| request.takes(batch, at))
    }

    /// Whether a scope is in, by when and where it began. Its name is the same for all, and
    /// its duration is that of nothing in it.
    pub fn takes_scope(&self, track: u32, start: u64) -> bool {
        self.takes_track(track) && self.takes_start(start)
    }

    /// Whether a request is the one that is asked for, if one is; by its id.
    pub(crate) fn takes_request_of(&self, id: u128) -> bool {
        self.request.as_ref().is_none_or(|request| request.id() == id)
    }

    /// Whether a span is in that has not ended, of which no duration is known.
    pub fn takes_open(&self, span: &OpenSpan) -> bool {
        self.takes_name(span.name)
            && self.takes_track(span.track)
            && self.takes_start(span.start)
            && self
                .request
                .as_ref()
                .is_none_or(|request| request.takes_open(span.track, span.start))
    }

    /// Columns that decide whether a record is in.
    pub fn columns(&self) -> Columns {
        let needed = |needed: bool, column| if needed { column } else { Columns::NONE };
        Columns::KIND
            | needed(self.names.is_some(), Columns::NAME)
            | needed(self.tracks.is_some(), Columns::TRACK)
            | needed(self.start.is_some(), Columns::START)
            | needed(self.duration.is_some(), Columns::VALUE)
            | needed(self.request.is_some(), OfRequest::columns())
    }

    /// Whether a name is in.
    #[inline]
    pub fn takes_name(&self, id: u32) -> bool {
        self.names.as_ref().is_none_or(|takes| takes[(id as usize).min(takes.len() - 1)])
    }

    /// Whether a track is in.
    #[inline]
    pub fn takes_track(&self, id: u32) -> bool {
        self.tracks.as_ref().is_none_or(|ids| ids.binary_search(&id).is_ok())
    }
}
