//! Names become numbers once, cold; the hot path carries the numbers.
//!
//! The table lives as long as the process: ids stay valid across recordings, so
//! a call site is interned once however often a recorder is started. Its size is
//! bounded: past [`MAX_NAMES`] every further name is the name [`OVERFLOW`].

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use ringscope_format::MAX_NAME_BYTES;

/// How many different names one process can have.
pub(crate) const MAX_NAMES: usize = 1 << 20;
/// What names past the limit read as.
pub(crate) const OVERFLOW: &str = "(too many names)";

/// What the file is told about a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Text { id: u32, text: &'static str },
    CallSite { name: u32, line: u32, file: u32, module: u32 },
}

#[derive(Debug)]
pub(crate) struct Names {
    ids: HashMap<&'static str, u32>,
    /// In order of appearance; the drain writes it to the file piece by piece.
    entries: Vec<Entry>,
    overflow: Option<u32>,
}

static NAMES: Mutex<Option<Names>> = Mutex::new(None);
/// Length of `entries`, so that the drain looks without locking.
static PUBLISHED: AtomicU32 = AtomicU32::new(0);

fn lock() -> MutexGuard<'static, Option<Names>> {
    // A panic while this is held leaves the table whole: each step only appends.
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` on the table, then publishes what it added.
pub(crate) fn with<R>(f: impl FnOnce(&mut Names) -> R) -> R {
    let mut guard = lock();
    let names = guard.get_or_insert_with(|| Names {
        ids: HashMap::new(),
        entries: Vec::new(),
        overflow: None,
    });
    let result = f(names);
    // Release, with the load in `published`: an id that reaches the drain through
    // a ring is in the table by then.
    PUBLISHED.store(names.entries.len() as u32, Ordering::Release);
    result
}

/// The text as far as its characters fit.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

/// How many entries there are.
pub(crate) fn published() -> u32 {
    PUBLISHED.load(Ordering::Acquire)
}

/// Copies the entries from `first` on, at most `limit` of them.
pub(crate) fn copy_entries(first: u32, limit: usize, into: &mut Vec<Entry>) {
    into.clear();
    if let Some(names) = lock().as_ref() {
        into.extend(names.entries.iter().skip(first as usize).take(limit).copied());
    }
}

impl Names {
    pub(crate) fn intern(&mut self, text: &'static str) -> u32 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        if self.ids.len() >= MAX_NAMES {
            return self.overflow();
        }
        // Ids count texts from 1, not entries: `ids` grows by one with each.
        let id = self.ids.len() as u32 + 1;
        self.ids.insert(text, id);
        self.entries.push(Entry::Text { id, text });
        id
    }

    /// Like [`Names::intern`] for a text that is made at run time; the table keeps a copy for good.
    pub(crate) fn intern_copy(&mut self, text: &str) -> (&'static str, u32) {
        if let Some((&known, &id)) = self.ids.get_key_value(text) {
            return (known, id);
        }
        if self.ids.len() >= MAX_NAMES {
            return (OVERFLOW, self.overflow());
        }
        // Of a huge one, one character more than the file takes: so it says that it was cut.
        let most = (MAX_NAME_BYTES + 1..text.len()).find(|&at| text.is_char_boundary(at));
        if let Some(most) = most {
            return self.intern_copy(&text[..most]);
        }
        let kept: &'static str = Box::leak(text.into());
        (kept, self.intern(kept))
    }

    pub(crate) fn add_call_site(
        &mut self,
        name: u32,
        file: &'static str,
        module: &'static str,
        line: u32,
    ) {
        let (file, module) = (self.intern(file), self.intern(module));
        self.entries.push(Entry::CallSite { name, line, file, module });
    }

    fn overflow(&mut self) -> u32 {
        *self.overflow.get_or_insert_with(|| {
            let id = self.ids.len() as u32 + 1;
            self.entries.push(Entry::Text { id, text: OVERFLOW });
            id
        })
    }
}
