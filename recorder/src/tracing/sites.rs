//! From a call site of `tracing` to ours, without a lock.
//!
//! `tracing` knows a call site by its metadata, which is static. A table that only
//! grows leads from its address to a [`Site`]; a larger table replaces it when it is
//! half full, and the old one stays for those who are reading it. All of it is as
//! long-lived as the program's call sites themselves.

#![allow(unsafe_code)] // tables and sites that live for ever, behind atomic pointers

use std::{
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{
            AtomicPtr,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use tracing_core::Metadata;

use crate::hot::{
    call_site::{CallSite, Key, unless_reentered},
    names,
};

/// How many call sites the first table takes, twice over.
const FIRST_PLACES: usize = 1 << 10;

/// What is known of one call site.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) metadata: &'static Metadata<'static>,
    /// Its keys are those of the fields, in their order, and `level`.
    pub(super) call_site: CallSite,
    /// The name of its level.
    level: u32,
}

impl Site {
    /// The id of the key of a field.
    pub(super) fn key(&self, field: usize) -> u32 {
        self.call_site.keys().get(field).map_or(0, Key::id)
    }

    /// The key and the name of its level.
    pub(super) fn level(&self) -> (u32, u32) {
        (self.key(self.metadata.fields().len()), self.level)
    }
}

#[derive(Debug)]
struct Table {
    /// A power of two of them, null or a site each.
    places: Box<[AtomicPtr<Site>]>,
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());
/// Held while a site is added; counts them.
static ADDING: Mutex<usize> = Mutex::new(0);

impl Table {
    fn of(places: usize) -> Self {
        Self { places: (0..places).map(|_| AtomicPtr::default()).collect() }
    }

    /// Places in the order in which they are tried.
    #[inline(always)]
    fn probe(&self, metadata: *const Metadata<'static>) -> impl Iterator<Item = &AtomicPtr<Site>> {
        // Metadata are more than 64 bytes apart; the multiplier spreads the rest.
        let first = (metadata.addr() >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize) >> 20;
        let mask = self.places.len() - 1;
        (0..self.places.len()).map(move |step| &self.places[(first + step) & mask])
    }

    #[inline(always)]
    fn find(&self, metadata: &'static Metadata<'static>) -> Option<&'static Site> {
        for place in self.probe(metadata) {
            // Acquire, with the Release in `put`: who sees a site sees what is in it.
            // SAFETY: null, or made by `Box::leak` in `add`.
            let site: &'static Site = unsafe { place.load(Acquire).as_ref() }?;
            if ptr::eq(site.metadata, metadata) {
                return Some(site);
            }
        }
        None
    }

    fn put(&self, site: &'static Site) {
        let free = self.probe(site.metadata).find(|place| place.load(Relaxed).is_null());
        if let Some(place) = free {
            place.store(ptr::from_ref(site).cast_mut(), Release);
        }
    }
}

/// Our site for one of `tracing`; none if this thread is just registering
/// something else and must not lock.
#[inline(always)]
pub(super) fn of(metadata: &'static Metadata<'static>) -> Option<&'static Site> {
    // SAFETY: null, or made by `Box::leak` in `add`.
    let table: Option<&'static Table> = unsafe { TABLE.load(Acquire).as_ref() };
    table.and_then(|table| table.find(metadata)).or_else(|| add(metadata))
}

#[cold]
#[inline(never)]
fn add(metadata: &'static Metadata<'static>) -> Option<&'static Site> {
    let site = unless_reentered(|| {
        let mut count = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as in `of`.
        let known: Option<&'static Table> = unsafe { TABLE.load(Acquire).as_ref() };
        if let Some(site) = known.and_then(|table| table.find(metadata)) {
            return site; // another thread came first
        }
        let site: &'static Site = Box::leak(Box::new(describe(metadata)));
        *count += 1;
        match known {
            Some(table) if *count * 2 <= table.places.len() => table.put(site),
            _ => {
                let larger = Table::of(known.map_or(FIRST_PLACES, |table| table.places.len() * 2));
                for place in known.iter().flat_map(|table| &table.places) {
                    // SAFETY: as in `find`.
                    if let Some(site) = unsafe { place.load(Relaxed).as_ref() } {
                        larger.put(site);
                    }
                }
                larger.put(site);
                TABLE.store(Box::leak(Box::new(larger)), Release);
            }
        }
        site
    })?;
    site.call_site.settle();
    Some(site)
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
    Site { metadata, call_site, level }
}
