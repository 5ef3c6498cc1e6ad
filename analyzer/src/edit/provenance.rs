//! What a new trace says in its metadata about where it comes from.

use ringscope_format::RecordingState;

use crate::{
    load::{Loaded, SOURCE_STATE},
    report::about,
};

/// What was done to the trace.
pub(super) const EDIT: &str = "edit";
/// The source's metadata, what was done to it, and how it ended if it did not finish.
pub(super) fn provenance(loaded: &Loaded, done: &str) -> Vec<(String, String)> {
    let before = loaded.trace.metadata();
    let mut all = inherited(loaded);
    let edits = before.get(EDIT).map(|before| format!("{before}, {done}"));
    all.push((EDIT.to_owned(), edits.unwrap_or_else(|| done.to_owned())));
    let state = before.get(SOURCE_STATE).cloned().or_else(|| unfinished(loaded));
    all.extend(state.map(|state| (SOURCE_STATE.to_owned(), state)));
    all
}

/// The source's metadata, without what an earlier edit said about itself.
pub(super) fn inherited(loaded: &Loaded) -> Vec<(String, String)> {
    let is_own = |key: &str| [EDIT, SOURCE_STATE].contains(&key);
    let pairs = loaded.trace.metadata().iter().filter(|(key, _)| !is_own(key));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What was done before.
pub(super) fn edits(loaded: &Loaded) -> impl Iterator<Item = &str> {
    loaded.trace.metadata().get(EDIT).into_iter().flat_map(|edits| edits.split(", "))
}

/// How the recording ended, if it did not finish.
pub(super) fn unfinished(loaded: &Loaded) -> Option<String> {
    let vitals = loaded.trace.vitals();
    let finished = vitals.is_some_and(|it| it.state == RecordingState::Finished);
    (!finished).then(|| about::recording_state(loaded))
}
