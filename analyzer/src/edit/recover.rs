//! `recover`: a whole, finished trace from a damaged, truncated or unfinished one.
//!
//! Kept is all that can be decoded. An event needs to be known by when it was, what
//! kind it is of and on which track: where another column of its chunk is damaged, it
//! is kept without that (its name, its status, its fields). Spans in flight become
//! open spans. What is lost is listed in the words of `check`, and counted as lost in
//! the new trace so far as its number is known; the list is in the new trace's
//! metadata as `recover.lost`.
//!
//! A file whose header is damaged is read by its chunks. Its raw slots and stacks in
//! flight cannot be found then, and its clock is known only by its own readings.

use std::path::PathBuf;

use ringscope_format::{
    Batch, ChunkInfo, Columns, Error as FormatError, Mode, RecordingState, Source, Trace,
};

use super::{
    Target,
    copying::{AsItIs, Copying, Tally},
    header,
    provenance::provenance,
};
use crate::{
    Error, Result,
    load::{Account, Loaded, Scope, Traces},
    output::{count, number_of, shown},
    progress::Progress,
    report::about,
};

/// What is listed in the metadata; what comes after is only counted.
const MOST_LISTED: usize = 1_000;

/// Options of `recover`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: Args) -> Result<()> {
    args.target.refuse_what_is_there(std::slice::from_ref(&args.trace))?;
    let (traces, header_damage) = Traces::open_damaged(&args.trace)
        .map_err(|error| Error::new(format!("{error}; nothing could be recovered")))?;
    if let Some(wrong) = &header_damage {
        eprintln!("analyze: {}: {wrong}", shown(&args.trace.display().to_string()));
        if traces.list[0].trace.clock().pairs() < 2 {
            let path = args.trace.display().to_string();
            eprintln!("analyze: {}: a tick is taken for a nanosecond", shown(&path));
        }
    }
    about::warn_damage(&traces);
    let loaded = &traces.list[0];
    let mut found = Found::of(loaded, header_damage);
    let said_so_far = found.list.len();
    let (mut kept, mut open) = (Tally::default(), 0);
    args.target.write(header(&traces, "recover"), |writer| {
        let mut copying = Copying::new(&traces, 0, writer, AsItIs);
        copying.metadata(&provenance(loaded, "recover"))?;
        copying.clock_pairs();
        let progress = Progress::new("recovering", loaded.events);
        let mut batch = Batch::default();
        for chunk in loaded.trace.chunks() {
            progress.advance(u64::from(chunk.events));
            if found.read(&loaded.trace, chunk, &mut batch) {
                copying.records(&batch, |_, _| true)?;
            }
        }
        progress.finish();
        found.tell_readings_apart(loaded, copying.kept);
        copying.losses(found.lost, |_| true);
        copying.open_spans(|_| true)?;
        copying.metadata(&found.listed())?;
        (kept, open) = (copying.kept, copying.open);
        if kept == Tally::default() && open == 0 && !found.list.is_empty() {
            return Err(Error::of(&args.trace, "nothing could be recovered"));
        }
        Ok(())
    })?;
    let path = args.trace.display().to_string();
    for message in &found.list[said_so_far..] {
        eprintln!("analyze: {}: {message}", shown(&path));
    }
    args.target.say(&found.sentence(kept, open, loaded.account()));
    Ok(())
}

/// What was found wrong.
struct Found {
    /// In the words of `check`.
    list: Vec<String>,
    /// Events that are lost, so far as is known.
    lost: u64,
    /// Readings of the recorder that are; `None` if some of those events may be such.
    readings_lost: Option<u64>,
    /// Whether more may be lost than is known.
    more: bool,
    /// Events that are kept without some of what they had.
    partly: u64,
}

impl Found {
    /// What was found when the trace was opened.
    fn of(loaded: &Loaded, header_damage: Option<String>) -> Self {
        let damage = loaded.trace.damage();
        let known: u64 = damage.iter().filter_map(ringscope_format::Damage::events).sum();
        Self {
            // What is missing by the recorder's count is missing, wherever it was.
            lost: known.max(loaded.trace.events_missing().unwrap_or(0)),
            more: header_damage.is_some() || damage.iter().any(|it| it.events().is_none()),
            list: header_damage.into_iter().chain(damage.iter().map(ToString::to_string)).collect(),
            readings_lost: Some(0),
            partly: 0,
        }
    }

    /// Reads what can be read of a chunk; false if that is nothing.
    fn read<S: Source>(&mut self, trace: &Trace<S>, chunk: &ChunkInfo, batch: &mut Batch) -> bool {
        let columns = Columns::ALL | Columns::LONG_TEXTS;
        let Err(error) = trace.decode_into(chunk, columns, batch) else {
            // Their events are kept, with as much of such a text as they hold.
            self.list.extend(batch.long_texts_error.as_ref().map(ToString::to_string));
            return true;
        };
        self.list.push(error.to_string());
        let events = u64::from(chunk.events);
        match rescue(trace, chunk) {
            Ok(rescued) => {
                self.list.extend(rescued.long_texts_error.as_ref().map(ToString::to_string));
                *batch = rescued;
                self.partly += events;
                true
            }
            Err(_) => {
                self.lost += events;
                false
            }
        }
    }

    /// Takes the readings out of what is lost, if it is known how many the file had. Vitals
    /// count the whole recording, so they tell only for one that is all in this file, and
    /// not what was overwritten.
    fn tell_readings_apart(&mut self, loaded: &Loaded, kept: Tally) {
        let (trace, header) = (&loaded.trace, loaded.trace.header());
        let had = trace.vitals().filter(|vitals| match header.mode {
            _ if vitals.state != RecordingState::Finished => false,
            Mode::Full => header.file_number == 0,
            Mode::KeepLast => header.file_number == 0 && vitals.overwritten == 0,
            Mode::Converted => true,
            Mode::Dump => false,
        });
        let has_readings = loaded.tracks.values().any(|track| track.is_recorder);
        self.readings_lost = match had {
            // The table of tracks may be among what is lost.
            None if self.lost > 0 && (has_readings || self.more) => None,
            None => Some(0),
            Some(vitals) => Some(vitals.own.saturating_sub(kept.readings).min(self.lost)),
        };
        self.lost -= self.readings_lost.unwrap_or(0);
    }

    fn listed(&self) -> Vec<(String, String)> {
        if self.list.is_empty() {
            return Vec::new();
        }
        let mut lines = self.list[..self.list.len().min(MOST_LISTED)].join("\n");
        if self.list.len() > MOST_LISTED {
            lines.push_str(&format!("\nand {} more", self.list.len() - MOST_LISTED));
        }
        vec![("recover.lost".to_owned(), lines)]
    }

    /// What became of it, and that this is not all that was lost if it lost events when recorded.
    fn sentence(&self, kept: Tally, open: u64, account: Option<Account>) -> String {
        let mut said = format!("{} recovered", kept.in_words());
        if self.partly > 0 {
            said.push_str(&format!(", {} of them in part", count(self.partly)));
        }
        if open > 0 {
            said.push_str(&format!(", and {}", number_of(open, "open span")));
        }
        let lost = Tally { events: self.lost, readings: self.readings_lost.unwrap_or(0) };
        match (lost == Tally::default(), self.more) {
            (true, false) => said.push_str("; none lost"),
            (true, true) => said.push_str("; how many are lost is unknown"),
            (false, false) => said.push_str(&format!("; {} lost", lost.in_short())),
            (false, true) => said.push_str(&format!("; at least {} lost", lost.in_short())),
        }
        if let Some(Account { own, scope, .. }) = account
            && own.total_lost() > 0
        {
            let of = if scope == Scope::Recording { " in the whole recording" } else { "" };
            let lost = count(own.total_lost());
            said.push_str(&format!(", beside {lost}{of} when it was recorded"));
        }
        if self.readings_lost.is_none() {
            said.push_str(", some of which may be readings of the recorder");
        }
        said
    }
}

/// A chunk of which some column is damaged, without that column.
fn rescue<S: Source>(
    trace: &Trace<S>,
    chunk: &ChunkInfo,
) -> std::result::Result<Batch, FormatError> {
    let needed = Columns::START | Columns::VALUE | Columns::KIND | Columns::DEPTH | Columns::TRACK;
    let mut batch = trace.decode(chunk, needed)?;
    let events = batch.events;
    // Zeros are what an absent column stands for.
    let column = |columns| trace.decode(chunk, columns).unwrap_or_default();
    let zeros = |mut column: Vec<u8>| {
        column.resize(events, 0);
        column
    };
    batch.name = column(Columns::NAME).name;
    batch.link = column(Columns::LINK).link;
    batch.name.resize(events, 0);
    batch.link.resize(events, 0);
    batch.status = zeros(column(Columns::STATUS).status);
    batch.shape = zeros(column(Columns::SHAPE).shape);
    let slots = column(Columns::SHAPE | Columns::SLOTS | Columns::LONG_TEXTS);
    (batch.slots, batch.long_texts) = (slots.slots, slots.long_texts);
    batch.long_texts_error = slots.long_texts_error;
    let needed = batch.slot_ranges().last().map_or(0, |range| range.end);
    if batch.slots.len() != needed {
        batch.slots.clear();
        batch.shape.iter_mut().for_each(|shape| *shape &= 0xE0);
    }
    Ok(batch)
}
