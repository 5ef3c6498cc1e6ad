//! What a new trace says in its metadata about where it comes from.

use crate::{
    load::{EDIT, Loaded, SOURCE_ACCOUNT, SOURCE_STATE, Scope, texts_cut_somewhere},
    report::about,
};

/// The source's metadata, what was done to it, how it ended if it did not finish, and what was
/// lost of its recording elsewhere.
pub(super) fn provenance(loaded: &Loaded, done: &str) -> Vec<(String, String)> {
    let before = loaded.trace.metadata();
    let mut all = inherited(loaded);
    let edits = before.get(EDIT).map(|before| format!("{before}, {done}"));
    all.push((EDIT.to_owned(), edits.unwrap_or_else(|| done.to_owned())));
    let state = before.get(SOURCE_STATE).cloned().or_else(|| unfinished(loaded));
    all.extend(state.map(|state| (SOURCE_STATE.to_owned(), state)));
    all.extend(elsewhere(loaded));
    all
}

/// The source's metadata, without what an earlier edit said about itself.
pub(super) fn inherited(loaded: &Loaded) -> Vec<(String, String)> {
    let is_own = |key: &str| [EDIT, SOURCE_STATE, SOURCE_ACCOUNT].contains(&key);
    let pairs = loaded.trace.metadata().iter().filter(|(key, _)| !is_own(key));
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What was lost and skipped of its recording and not in it, and which texts stayed cut nobody
/// knows where: the new trace does not count that.
pub(super) fn elsewhere(loaded: &Loaded) -> Option<(String, String)> {
    let said = match loaded.account() {
        Some(account) if account.scope != Scope::All => {
            let texts_cut = loaded.trace.vitals().map_or(0, |vitals| vitals.texts_cut);
            in_one([account.elsewhere(loaded), texts_cut_somewhere(texts_cut)])
        }
        // Whoever records may give any text to any key.
        _ if loaded.edits().next().is_none() => None,
        _ => loaded.trace.metadata().get(SOURCE_ACCOUNT).cloned(),
    };
    said.map(|said| (SOURCE_ACCOUNT.to_owned(), said))
}

/// What there is to be said, if anything.
pub(super) fn in_one(said: [Option<String>; 2]) -> Option<String> {
    said.into_iter().flatten().reduce(|a, b| format!("{a}; {b}"))
}

/// How the recording ended, if it did not finish. A file that goes on in the next one is whole.
pub(super) fn unfinished(loaded: &Loaded) -> Option<String> {
    let vitals = loaded.trace.vitals();
    let finished = vitals.is_some_and(|it| it.state.file_is_complete());
    (!finished).then(|| about::recording_state(loaded))
}
