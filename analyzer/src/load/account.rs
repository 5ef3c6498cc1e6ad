//! What became of the events of the time that a file is of.
//!
//! Vitals count a recording from its start to the end of a file (SPEC 5.2). That is also the
//! account of the file where it is all there is of the recording so far. A later file of a
//! rotation has in its table of losses (SPEC 8.3.3) what was lost in its own time, and so have
//! the chunks that a flight recorder kept: the rest was lost before. Where damage may have cost
//! entries of that table, or some could not be written, all that is known is the recording's
//! account. Vitals may be older than the table, which is written first: it is the table that is
//! believed.

use ringscope_format::{Loss, LostCause, Mode, RecordingState, SkipCause, Vitals};

use super::Loaded;
use crate::output::count;

/// The key in a trace's metadata of what its counts are not of, or of more than it.
pub(crate) const SOURCE_ACCOUNT: &str = "source.account";

/// Events of the program by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events stored.
    pub stored: u64,
    /// Events lost, by cause.
    pub lost: [u64; 8],
    /// Slots lost with them, by cause.
    pub lost_slots: [u64; 8],
    /// Events skipped on request, by cause.
    pub skipped: [u64; 8],
}

/// What an account is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The file, which is all there is of the recording up to its end.
    All,
    /// The file, which is a part of the recording.
    Part,
    /// The recording: how much of it was lost in the time of this file is not known.
    Recording,
}

/// What became of the events of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// What this is of.
    pub scope: Scope,
    /// What became of these events.
    pub own: Counts,
    /// What became of those before; nothing unless the file is a part.
    pub before: Counts,
}

impl Counts {
    /// Events lost, for whatever cause.
    pub fn total_lost(&self) -> u64 {
        self.among(Vitals::default()).total_lost()
    }

    /// Events skipped on request, for whatever cause.
    pub fn total_skipped(&self) -> u64 {
        self.among(Vitals::default()).total_skipped()
    }

    /// Events that the program produced: stored, lost and skipped.
    pub fn produced(&self) -> u64 {
        self.among(Vitals::default()).produced()
    }

    /// How many of a hundred events were lost.
    pub fn percent_lost(&self) -> f64 {
        100.0 * self.total_lost() as f64 / self.produced().max(1) as f64
    }

    pub(crate) fn of(vitals: &Vitals) -> Self {
        let Vitals { stored, lost, lost_slots, skipped, .. } = *vitals;
        Self { stored, lost, lost_slots, skipped }
    }

    /// Vitals with these counts.
    pub(crate) fn among(&self, vitals: Vitals) -> Vitals {
        let Self { stored, lost, lost_slots, skipped } = *self;
        Vitals { stored, lost, lost_slots, skipped, ..vitals }
    }

    /// By the table of losses, without what the recorder lost of its own readings: vitals do not
    /// count those.
    fn in_table(loaded: &Loaded) -> Self {
        let mut counts = Self::default();
        for loss in loaded.losses().iter().filter(|loss| !loaded.is_recorder(loss.track)) {
            let cause = usize::from(loss.cause);
            let add = |to: Option<&mut u64>, more: u64| {
                to.into_iter().for_each(|it| *it = it.saturating_add(more));
            };
            match loss.class {
                Loss::LOST => {
                    add(counts.lost.get_mut(cause), loss.events);
                    add(counts.lost_slots.get_mut(cause), loss.slots);
                }
                Loss::SKIPPED => add(counts.skipped.get_mut(cause), loss.events),
                _ => {}
            }
        }
        counts
    }

    /// These and others.
    pub(crate) fn plus(&self, more: &Self) -> Self {
        self.with(more, u64::saturating_add)
    }

    /// These without others.
    pub(crate) fn minus(&self, less: &Self) -> Self {
        self.with(less, u64::saturating_sub)
    }

    /// Of each the larger.
    pub(crate) fn at_least(&self, least: &Self) -> Self {
        self.with(least, u64::max)
    }

    fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        let each = |a: &[u64; 8], b: &[u64; 8]| std::array::from_fn(|at| of(a[at], b[at]));
        Self {
            stored: of(self.stored, other.stored),
            lost: each(&self.lost, &other.lost),
            lost_slots: each(&self.lost_slots, &other.lost_slots),
            skipped: each(&self.skipped, &other.skipped),
        }
    }

    /// `12 of 1,000 events were lost (12 ring full)`, if any were lost or skipped.
    pub(crate) fn missing_in_words(&self) -> Option<String> {
        let (lost, skipped) = (self.total_lost(), self.total_skipped());
        let of = count(self.produced());
        let skips = || format!("skipped on request ({})", self.skips());
        let losses = || format!("{} of {of} events were lost ({})", count(lost), self.causes());
        match (lost, skipped) {
            (0, 0) => None,
            (_, 0) => Some(losses()),
            (0, _) => Some(format!("{} of {of} events were {}", count(skipped), skips())),
            _ => Some(format!("{} and {} {}", losses(), count(skipped), skips())),
        }
    }

    /// Lost events by cause, in words.
    pub(crate) fn causes(&self) -> String {
        by_cause(&self.lost, |byte| LostCause::from_byte(byte).map(LostCause::describe))
    }

    /// Skipped events by cause, in words.
    pub(crate) fn skips(&self) -> String {
        by_cause(&self.skipped, |byte| SkipCause::from_byte(byte).map(SkipCause::describe))
    }
}

fn by_cause(counts: &[u64; 8], describe: fn(u8) -> Option<&'static str>) -> String {
    let known = (1..8_u8).filter_map(|byte| {
        let events = counts[usize::from(byte)];
        let cause = describe(byte).unwrap_or("unknown cause");
        (events > 0).then(|| format!("{} {cause}", count(events)))
    });
    known.collect::<Vec<_>>().join(", ")
}

impl Account {
    /// The account of a file whose vitals are known.
    pub(super) fn of(loaded: &Loaded, vitals: &Vitals) -> Self {
        let recording = Counts::of(vitals);
        let header = loaded.trace.header();
        // What was overwritten of the source of a copy counts as stored.
        let is_here = vitals.overwritten == 0 || header.mode != Mode::Converted;
        let in_file = || loaded.events.saturating_sub(loaded.readings());
        if !is_part(loaded, vitals) {
            let stored = if is_here { vitals.stored } else { in_file() };
            let own = Counts { stored, ..recording };
            return Self { scope: Scope::All, own, before: Counts::default() };
        }
        if !has_its_losses(loaded, vitals) {
            return Self { scope: Scope::Recording, own: recording, before: Counts::default() };
        }
        let own = Counts { stored: in_file(), ..Counts::in_table(loaded) };
        Self { scope: Scope::Part, own, before: recording.minus(&own) }
    }

    /// What was lost and skipped of the recording and not of this file, or that nobody knows.
    pub(crate) fn elsewhere(&self, loaded: &Loaded) -> Option<String> {
        let of_source = || {
            // Whoever records may give any text to any key.
            loaded.edits().next()?;
            // Keys of merged traces have the name of a file before them.
            let said = loaded.trace.metadata().iter().filter_map(|(key, value)| {
                match key.strip_suffix(SOURCE_ACCOUNT)? {
                    "" => Some(value.clone()),
                    label => Some(format!("{}: {value}", label.strip_suffix('/')?)),
                }
            });
            let said: Vec<String> = said.collect();
            (!said.is_empty()).then(|| said.join("; "))
        };
        match self.scope {
            Scope::All => of_source(),
            Scope::Part => {
                let when = match loaded.trace.header().mode {
                    Mode::KeepLast | Mode::Dump => "before what is kept",
                    _ => "before this file",
                };
                let missing = self.before.missing_in_words();
                missing.map(|missing| format!("{when}, {missing}"))
            }
            Scope::Recording => self.own.missing_in_words().map(|_| {
                "what is counted as lost or skipped is of the whole recording up to here: how much of \
                 it of this file is not known"
                    .to_owned()
            }),
        }
    }
}

impl Loaded {
    /// What was lost in the time of the file. What a flight recorder kept may have entries of
    /// before its first event, in chunks without any: no dump leaves such a chunk out, however old.
    /// Chunks tell, and not ticks: a span may have begun long before all else that is kept.
    pub(crate) fn losses(&self) -> &[Loss] {
        let is_flight = matches!(self.trace.header().mode, Mode::KeepLast | Mode::Dump);
        let has_rest = is_flight && self.trace.vitals().is_some_and(|it| is_part(self, it));
        let first = self.trace.chunks().iter().find(|chunk| chunk.events > 0);
        self.trace.losses_since(first.filter(|_| has_rest).map_or(0, |chunk| chunk.sequence))
    }

    /// Its vitals, which count as lost and skipped what was in the time of the file; and no texts
    /// that stayed cut unless the file is all there is of the recording.
    pub(crate) fn own_vitals(&self) -> Vitals {
        let vitals = self.trace.vitals().copied().unwrap_or_default();
        let Some(Account { own, scope, .. }) = self.account() else { return vitals };
        let texts_cut = if scope == Scope::All { vitals.texts_cut } else { 0 };
        Vitals { texts_cut, ..own.among(vitals) }
    }
}

/// That texts stayed cut of which nobody knows in which file of a recording.
pub(crate) fn texts_cut_somewhere(texts_cut: u64) -> Option<String> {
    let said =
        || format!("{} long texts of errors were cut in the whole recording", count(texts_cut));
    (texts_cut > 0).then(said)
}

/// Whether the recording has had more than this file.
fn is_part(loaded: &Loaded, vitals: &Vitals) -> bool {
    match loaded.trace.header().mode {
        Mode::Full => loaded.trace.header().file_number > 0,
        Mode::KeepLast => vitals.overwritten > 0,
        Mode::Dump => true,
        Mode::Converted => false,
    }
}

/// Whether the table of losses has all that was lost in the time of the file.
fn has_its_losses(loaded: &Loaded, vitals: &Vitals) -> bool {
    let counts_untold = loaded.trace.counts_untold();
    let is_written = match vitals.state {
        RecordingState::Continued => true,
        // What could not be written down at last was lost because nothing could be written.
        RecordingState::Finished | RecordingState::FatalSignal => {
            counts_untold || vitals.lost[LostCause::File as usize] == 0
        }
        RecordingState::Recording => counts_untold,
        RecordingState::GivenUp | RecordingState::Unknown(_) => false,
    };
    is_written && vitals.untold == 0 && loaded.trace.damage().is_empty()
}
