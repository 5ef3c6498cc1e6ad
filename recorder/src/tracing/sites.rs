//! From a call site of `tracing` to ours, without a lock.
//!
//! `tracing` knows a call site by its metadata, which is static. A table leads from
//! its address to a [`Site`]; it is in static memory, so that a look costs two loads. Sites
//! that find the places around theirs taken are in a map behind a lock. All of
//! it is as long-lived as the program's call sites themselves.

#![allow(unsafe_code)] // sites that live for ever, behind atomic pointers

use std::{
    collections::HashMap,
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicPtr, AtomicU32,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use tracing_core::Metadata;

use crate::hot::{
    call_site::{CallSite, Key, unless_reentered},
    names,
    turns::Turns,
    verdict::Verdict,
};

/// 32 KiB, of which the system hands out the pages that are used.
const PLACES: usize = 1 << 12;
/// How many places are tried.
const PROBES: usize = 8;

/// So many spans of a site in a row that were told by their one slice: then when they are
/// created is not looked up any more.
const PLAIN_ENOUGH: u32 = 64;
/// The same where spans have fields.
const PLAIN_WITH_FIELDS: u32 = PLAIN_ENOUGH + 1;
/// A span of the site had a life of its own: from now on all of them are timed.
const HAS_LIVES: u32 = u32::MAX - 1;
/// That was a task, and is over: others may be waiting.
const HAS_TASKS: u32 = u32::MAX;

/// What is known of one call site.
// In this order, so that a site is where its call site is: who enters a span needs both.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Site {
    /// Its keys are those of the fields, in their order, and `level`.
    pub(super) call_site: CallSite,
    pub(super) metadata: &'static Metadata<'static>,
    /// The name of its level.
    level: u32,
    /// How many of its spans were plain, up to [`PLAIN_ENOUGH`] or
    /// [`PLAIN_WITH_FIELDS`]; or [`HAS_LIVES`], or [`HAS_TASKS`].
    plain: AtomicU32,
    /// Which of its lives a rule takes, which counts them apart from slices.
    lives: Turns,
}

impl Site {
    /// The id of the key of a field.
    pub(super) fn key(&self, field: usize) -> u32 {
        self.call_site.keys().get(field).map_or(0, Key::id)
    }

    /// Whether its spans have no fields, and the moment of their creation is not looked up.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.plain.load(Relaxed) == PLAIN_ENOUGH
    }

    /// Whether the moment at which its spans are created is worth a look at the clock.
    ///
    /// That moment is told only of a span that lives longer than its slice. Where the
    /// first [`PLAIN_ENOUGH`] did not, the next hardly will; if one does, its life is told
    /// from its first enter, and says so.
    #[inline(always)]
    pub(super) fn times_creation(&self) -> bool {
        !(PLAIN_ENOUGH..=PLAIN_WITH_FIELDS).contains(&self.plain.load(Relaxed))
    }

    /// A span whose creation was timed was told by its slice alone.
    #[inline(always)]
    pub(super) fn saw_plain(&self) {
        let plain = self.plain.load(Relaxed);
        if plain < PLAIN_ENOUGH {
            let is_last = plain + 1 == PLAIN_ENOUGH && !self.metadata.fields().is_empty();
            let next = if is_last { PLAIN_WITH_FIELDS } else { plain + 1 };
            // Fails only if another thread counts or sees a life, which weighs more.
            let _ = self.plain.compare_exchange(plain, next, Relaxed, Relaxed);
        }
    }

    /// A span had a life of its own.
    pub(super) fn saw_life(&self) {
        if self.plain.load(Relaxed) < HAS_LIVES {
            self.plain.fetch_max(HAS_LIVES, Relaxed);
        }
    }

    /// Whether spans had lives of their own, and none of them was a task.
    #[inline(always)]
    pub(super) fn has_lives_only(&self) -> bool {
        self.plain.load(Relaxed) == HAS_LIVES
    }

    /// That was a task.
    pub(super) fn saw_task(&self) {
        self.plain.store(HAS_TASKS, Relaxed);
    }

    /// Whether tasks of the site have come to an end.
    pub(super) fn has_tasks(&self) -> bool {
        self.plain.load(Relaxed) == HAS_TASKS
    }

    /// What a rule says of a life.
    pub(super) fn look_closer_at_life(&'static self) -> Verdict {
        self.call_site.look_closer_counting(&self.lives)
    }

    /// The key and the name of its level.
    pub(super) fn level(&self) -> (u32, u32) {
        (self.key(self.metadata.fields().len()), self.level)
    }
}

/// Null, or a site each.
static TABLE: [AtomicPtr<Site>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];
/// Sites without a place, by the address of their metadata. Held while one is added.
static OTHERS: Mutex<Option<HashMap<usize, &'static Site>>> = Mutex::new(None);

/// Our site for one of `tracing`; none if this thread is just registering
/// something else and must not lock.
pub(super) fn of(metadata: &'static Metadata<'static>) -> Option<&'static Site> {
    of_known(metadata).or_else(|| look_further(metadata, place_of(metadata)))
}

/// The same, if it is known and where it should be.
#[inline(always)]
pub(super) fn of_known(metadata: &'static Metadata<'static>) -> Option<&'static Site> {
    site_at(place_of(metadata)).filter(|site| ptr::eq(site.metadata, metadata))
}

#[inline(always)]
fn place_of(metadata: &'static Metadata<'static>) -> usize {
    // Metadata are over 64 bytes long; the multiplier spreads what is left of the address.
    let spread = (ptr::from_ref(metadata).addr() as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (spread >> (64 - PLACES.trailing_zeros())) as usize
}

#[inline(always)]
fn site_at(place: usize) -> Option<&'static Site> {
    // Acquire, with the Release in `add`: who sees a site sees what is in it.
    // SAFETY: null, or made by `Box::leak` in `add`.
    unsafe { TABLE[place % PLACES].load(Acquire).as_ref() }
}

fn look_further(metadata: &'static Metadata<'static>, first: usize) -> Option<&'static Site> {
    let near = (first..first + PROBES).filter_map(site_at);
    let known = near.into_iter().find(|site| ptr::eq(site.metadata, metadata));
    known.or_else(|| unless_reentered(|| find_or_add(metadata, first)))
}

fn others() -> MutexGuard<'static, Option<HashMap<usize, &'static Site>>> {
    OTHERS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn find_or_add(metadata: &'static Metadata<'static>, first: usize) -> &'static Site {
    let mut others = others();
    let places = first..first + PROBES;
    let near = places.clone().filter_map(site_at).find(|site| ptr::eq(site.metadata, metadata));
    let address = ptr::from_ref(metadata).addr();
    let further = || others.as_ref()?.get(&address).copied();
    if let Some(site) = near.or_else(further) {
        return site;
    }
    let site: &'static Site = Box::leak(Box::new(describe(metadata)));
    site.call_site.settle();
    match places.map(|place| place % PLACES).find(|&place| site_at(place).is_none()) {
        Some(free) => TABLE[free].store(ptr::from_ref(site).cast_mut(), Release),
        None => {
            others.get_or_insert_default().insert(address, site);
        }
    }
    site
}

fn describe(metadata: &'static Metadata<'static>) -> Site {
    let (line, target) = (metadata.line().unwrap_or(0), metadata.target());
    // Events that nobody has named are called `event src/main.rs:17`. Where they
    // come from says as much, and is the same on every machine.
    let is_nameless = metadata.is_event() && metadata.name().starts_with("event ");
    let (name, level) = names::with(|names| {
        let name = match is_nameless {
            true => names.intern_copy(&format!("{target}:{line}")).0,
            false => metadata.name(),
        };
        (name, names.intern(metadata.level().as_str()))
    });
    let keys = metadata.fields().iter().map(|field| field.name()).chain(["level"]);
    let keys: Vec<Key> = keys.map(Key::new).collect();
    let (module, file) = (metadata.module_path().unwrap_or(target), metadata.file().unwrap_or(""));
    let call_site = CallSite::new(name, module, file, line, keys.leak());
    Site { metadata, call_site, level, plain: AtomicU32::new(0), lives: Turns::new() }
}
