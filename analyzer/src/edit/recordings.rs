//! What the sources of a merged trace lost, all files of a recording together.
//!
//! Vitals count a recording up to the end of a file, so what two files in a row lost is what the
//! second counts. Before the first, and in files that are not among the sources, more may have
//! been lost: that is said and not counted. A flight recorder's trace and its dumps have chunks
//! in common, and the same event twice would be two: those are refused.

use std::collections::{BTreeMap, HashSet};

use ringscope_format::{Mode, Vitals};

use super::provenance::{elsewhere, in_one};
use crate::{
    Error, Result,
    load::{Counts, Loaded, Scope, Traces, texts_cut_somewhere},
    output::shown,
};

/// What each source adds to the totals, and what is to be said of what it does not add. Of the
/// files of a recording the last one has it all.
pub(super) fn totals(traces: &Traces) -> Result<Vec<(Vitals, Option<String>)>> {
    let alone = |loaded: &Loaded| {
        let said = elsewhere(loaded).map(|(_, said)| said);
        (loaded.own_vitals(), said)
    };
    let mut totals: Vec<_> = traces.list.iter().map(alone).collect();
    let mut recordings: BTreeMap<[u8; 16], Vec<usize>> = BTreeMap::new();
    for (at, loaded) in traces.list.iter().enumerate() {
        let header = loaded.trace.header();
        if header.mode != Mode::Converted {
            recordings.entry(header.recording).or_default().push(at);
        }
    }
    for mut files in recordings.into_values().filter(|files| files.len() > 1) {
        let produced = |at: usize| traces.list[at].trace.vitals().map(Vitals::produced);
        files.sort_by_key(|&at| (traces.list[at].trace.header().file_number, produced(at)));
        let list: Vec<&Loaded> = files.iter().map(|&at| &traces.list[at]).collect();
        refuse_common_events(&list)?;
        let (all, said) = together(&list);
        for &at in &files {
            totals[at] = (Vitals { tick: totals[at].0.tick, ..Vitals::default() }, None);
        }
        if let Some(&last) = files.last() {
            totals[last] = (Vitals { tick: totals[last].0.tick, ..all }, said);
        }
    }
    Ok(totals)
}

/// What files of one recording, in order, lost together; what it lost besides.
fn together(list: &[&Loaded]) -> (Vitals, Option<String>) {
    let Some(last) = list.iter().rev().find_map(|loaded| loaded.trace.vitals()) else {
        return (Vitals::default(), None);
    };
    let (mut lost, mut stored) = (Counts::default(), 0_u64);
    // The file before, and what had been counted by its end.
    let mut before: Option<(u32, Option<Counts>)> = None;
    let mut unknown = None;
    for loaded in list {
        let header = loaded.trace.header();
        let follows = before.filter(|&(number, _)| {
            header.mode == Mode::Full && number.checked_add(1) == Some(header.file_number)
        });
        let counted = follows.and_then(|(_, counted)| counted);
        stored = stored.saturating_add(loaded.events.saturating_sub(loaded.readings()));
        let Some((account, vitals)) = loaded.account().zip(loaded.trace.vitals()) else {
            before = Some((header.file_number, counted));
            continue;
        };
        let so_far = Counts::of(vitals);
        lost = match counted {
            Some(counted) => lost.plus(&so_far.minus(&counted)),
            None if account.scope == Scope::Recording => {
                unknown = account.elsewhere(loaded);
                // That has what those before it lost.
                lost.at_least(&so_far)
            }
            None => lost.plus(&account.own),
        };
        before = Some((header.file_number, Some(so_far)));
    }
    let here = Counts { stored, ..lost };
    let missing = Counts::of(last).minus(&here).missing_in_words();
    let missing = missing.map(|missing| format!("in what is not here of its recording, {missing}"));
    // What is overwritten in the last of them may be here by one of the others.
    let others = list.iter().rev().skip(1).fold(0_u64, |sum, it| sum.saturating_add(it.events));
    let files = list.iter().map(|loaded| loaded.trace.header());
    let is_whole =
        files.zip(0..).all(|(file, at)| file.mode == Mode::Full && file.file_number == at);
    let (texts_cut, cut_somewhere) = match is_whole {
        true => (last.texts_cut, None),
        false => (0, texts_cut_somewhere(last.texts_cut)),
    };
    let overwritten = last.overwritten.saturating_sub(others);
    let all = Vitals { overwritten, texts_cut, ..here.among(*last) };
    (all, in_one([unknown.or(missing), cut_somewhere]))
}

/// Files of a rotation have events of their own; a flight recorder's dumps are copies of chunks.
fn refuse_common_events(list: &[&Loaded]) -> Result<()> {
    let chunks: Vec<HashSet<u64>> = list.iter().map(|loaded| sequences(loaded)).collect();
    for (at, later) in list.iter().enumerate() {
        for (earlier, known) in list[..at].iter().zip(&chunks) {
            let (a, b) = (earlier.trace.header(), later.trace.header());
            let has_common = match (a.mode, b.mode) {
                (Mode::Full, Mode::Full) => a.file_number == b.file_number,
                _ => !known.is_disjoint(&chunks[at]),
            };
            if has_common {
                let other = earlier.path.display().to_string();
                let why = format!(
                    "has events that {} has too: both are of one recording; give one of them",
                    shown(&other)
                );
                return Err(Error::of(&later.path, why));
            }
        }
    }
    Ok(())
}

/// By which number a chunk is known in its recording.
fn sequences(loaded: &Loaded) -> HashSet<u64> {
    let chunks = loaded.trace.chunks().iter().filter(|chunk| chunk.events > 0);
    chunks.map(|chunk| chunk.sequence).collect()
}
