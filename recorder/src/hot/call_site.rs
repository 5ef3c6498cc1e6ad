//! A place in the program that records: its name, and whether it records now.
//!
//! One relaxed load of [`CallSite::state`] answers everything the hot path asks:
//!
//! | state | meaning |
//! |---|---|
//! | 0 | off: no recorder, nothing to do |
//! | 1 to 2^31 - 1 | on: this is the name's id |
//! | 2^31 and above | needs a closer look: never seen before, a rule applies, or no counter to read |
//!
//! Sites are linked into a list when they first run, so that starting, stopping
//! and changing rules can set each one's state.

#![allow(unsafe_code)] // one list of statics, walked through raw pointers

use std::{
    cell::Cell,
    collections::HashMap,
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use crate::{
    hot::{clock, names, turns::Turns, verdict::Verdict},
    rules::{Action, Rules},
};

pub(crate) const OFF: u32 = 0;
pub(crate) const LOOK_CLOSER: u32 = 1 << 31;

/// A key of a field, interned together with its call site.
#[doc(hidden)]
#[derive(Debug)]
pub struct Key {
    text: &'static str,
    id: AtomicU32,
}

impl Key {
    /// For the macros.
    pub const fn new(text: &'static str) -> Self {
        Self { text, id: AtomicU32::new(0) }
    }

    #[inline(always)]
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Relaxed)
    }
}

/// A named place that records spans, events or readings.
///
/// The macros make one for each use. [`CallSite::named`] makes one for a name
/// that is only known at run time.
#[derive(Debug)]
pub struct CallSite {
    state: AtomicU32,
    /// The name's id; 0 until the site has run once.
    name_id: AtomicU32,
    /// Rule: record one in so many; 0 for none.
    one_in: AtomicU32,
    /// Which of them.
    turns: Turns,
    /// Rule: record if at least this long, in ticks; 0 for none.
    at_least: AtomicU64,
    /// Whether launches have asked here, which decide for their work.
    has_launches: AtomicBool,
    name: &'static str,
    module: &'static str,
    file: &'static str,
    line: u32,
    keys: &'static [Key],
    next: AtomicPtr<CallSite>,
}

static HEAD: AtomicPtr<CallSite> = AtomicPtr::new(ptr::null_mut());
/// Set in a forked child: nothing records there again.
static FORKED: AtomicBool = AtomicBool::new(false);
static RULES_VERSION: AtomicU32 = AtomicU32::new(0);
/// When sites were last switched on.
static ON_SINCE: AtomicU64 = AtomicU64::new(0);
static CONTROL: Mutex<Control> =
    Mutex::new(Control { recording: None, rules: None, by_name: None });

/// What decides the state of sites, behind one lock with their registration.
struct Control {
    /// Ticks per second, while a recorder runs.
    recording: Option<u64>,
    rules: Option<Rules>,
    by_name: Option<HashMap<&'static str, &'static CallSite>>,
}

thread_local! {
    /// Whether this thread is registering something. An allocator that is itself
    /// instrumented would come back here while the locks are held.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, which may lock, unless this thread is inside another such call or
/// in a forked child.
pub(crate) fn unless_reentered<R>(f: impl FnOnce() -> R) -> Option<R> {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            BUSY.set(false);
        }
    }
    if is_forked() || BUSY.replace(true) {
        return None;
    }
    let _reset = Reset;
    Some(f())
}

fn control() -> MutexGuard<'static, Control> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CallSite {
    /// For the macros; [`CallSite::named`] is for people.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        module: &'static str,
        file: &'static str,
        line: u32,
        keys: &'static [Key],
    ) -> Self {
        Self {
            state: AtomicU32::new(LOOK_CLOSER),
            name_id: AtomicU32::new(0),
            one_in: AtomicU32::new(0),
            turns: Turns::new(),
            at_least: AtomicU64::new(0),
            has_launches: AtomicBool::new(false),
            name,
            module,
            file,
            line,
            keys,
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The site for a name that is made at run time, such as `block_17`.
    ///
    /// Looks the name up under a lock: call it once and keep the result. The
    /// same name gives the same site, which lives as long as the process. Names
    /// are cut to 1,024 bytes, and past a million of them all further ones share
    /// the name `(too many names)`.
    ///
    /// ```
    /// use ringscope::{CallSite, span};
    ///
    /// let blocks: Vec<_> = (0..32).map(|i| CallSite::named(&format!("block_{i}"))).collect();
    /// for block in &blocks {
    ///     let _span = span!(site: block);
    /// }
    /// ```
    pub fn named(name: &str) -> &'static CallSite {
        static UNNAMED: CallSite = CallSite::new(names::OVERFLOW, "", "", 0, &[]);
        unless_reentered(|| {
            let mut control = control();
            let (text, id) = names::with(|names| names.intern_copy(name));
            let by_name = control.by_name.get_or_insert_with(HashMap::new);
            if let Some(&site) = by_name.get(text) {
                return site;
            }
            let site: &'static CallSite = Box::leak(Box::new(CallSite::new(text, "", "", 0, &[])));
            by_name.insert(text, site);
            site.name_id.store(id, Relaxed);
            site.link(&control);
            site
        })
        .unwrap_or(&UNNAMED)
    }

    /// The name it records under.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The number of its name; 0 until it has run once.
    #[cfg(feature = "gpu")]
    pub(crate) fn name_id(&self) -> u32 {
        self.name_id.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Relaxed)
    }

    /// The rule's least duration in ticks; 0 if there is none.
    pub(crate) fn at_least(&self) -> u64 {
        self.at_least.load(Relaxed)
    }

    pub(crate) fn keys(&self) -> &'static [Key] {
        self.keys
    }

    /// Gives the keys their numbers, of a site that only has keys.
    #[inline(always)]
    pub(crate) fn intern_keys(&'static self) {
        if self.keys.first().is_some_and(|key| key.id() == 0) {
            self.intern_keys_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn intern_keys_now(&'static self) {
        unless_reentered(|| {
            names::with(|names| {
                // The first one last, and with release: who finds it finds all.
                for key in self.keys.iter().rev() {
                    key.id.store(names.intern(key.text), Release);
                }
            });
        });
    }

    /// Gives the name and the keys their ids, if they have none yet. Within
    /// [`unless_reentered`]: it locks.
    #[cfg(feature = "tracing")]
    pub(crate) fn settle(&'static self) {
        if self.state.load(Acquire) == LOOK_CLOSER {
            self.register();
        }
    }

    /// Decides for a site whose state says [`LOOK_CLOSER`].
    pub(crate) fn look_closer(&'static self) -> Verdict {
        self.look_closer_counting(&self.turns)
    }

    /// The same for what is counted apart from the rest of its site. Two kinds that took turns
    /// at one count would always be taken, or never.
    #[cold]
    pub(crate) fn look_closer_counting(&'static self, turns: &Turns) -> Verdict {
        // Not `name_id`: while another thread registers the site, that is set
        // before the state, and what came in between would be dropped uncounted.
        if self.state.load(Acquire) == LOOK_CLOSER {
            unless_reentered(|| self.register());
        }
        let state = self.state();
        if state == OFF {
            return Verdict::Nothing;
        }
        let name = state & !LOOK_CLOSER;
        if name == 0 {
            return Verdict::Nothing; // being registered by this very thread, further up
        }
        if state & LOOK_CLOSER == 0 {
            return Verdict::Record { name };
        }
        match (self.one_in.load(Relaxed), self.at_least.load(Relaxed)) {
            (0, 0) => Verdict::SwitchedOff,
            (0, _) => Verdict::RecordIfLong { name },
            (one_in, _) if turns.takes(one_in) => Verdict::Record { name },
            _ => Verdict::Sampled,
        }
    }

    /// The same for an error, of which each counts: rules may switch errors off, and sample none.
    #[cold]
    pub(crate) fn look_closer_at_error(&'static self) -> Verdict {
        match self.look_closer() {
            Verdict::Sampled => Verdict::Record { name: self.state() & !LOOK_CLOSER },
            verdict => verdict,
        }
    }

    /// The same for a scope, which says for whom others were: rules may switch scopes off, and
    /// thin none of them out.
    #[cold]
    pub(crate) fn look_closer_at_scope(&'static self) -> Verdict {
        match self.look_closer() {
            Verdict::Sampled => Verdict::Record { name: self.state() & !LOOK_CLOSER },
            Verdict::RecordIfLong { name } => Verdict::Record { name },
            verdict => verdict,
        }
    }

    /// The same for a launch, which is decided here for its work as well.
    pub(crate) fn look_closer_at_launch(&'static self) -> Verdict {
        self.has_launches.store(true, Relaxed);
        self.look_closer()
    }

    /// The same for work whose launch was recorded. Counted here once more, of a launch and
    /// its work one would always be the one that is skipped. Work that is launched under
    /// another name has only its own to ask.
    pub(crate) fn look_closer_at_launched(&'static self) -> Verdict {
        let name = self.state.load(Acquire) & !LOOK_CLOSER;
        if name != 0 && self.has_launches.load(Relaxed) && self.one_in.load(Relaxed) != 0 {
            return Verdict::Record { name };
        }
        self.look_closer()
    }

    /// Work whose launch was skipped: it is skipped too, for the cause that there is now.
    pub(crate) fn look_at_skipped(&self) -> Verdict {
        let is_registered = self.state.load(Acquire) != LOOK_CLOSER;
        match (self.one_in.load(Relaxed), self.at_least.load(Relaxed)) {
            (0, 0) if is_registered => Verdict::SwitchedOff,
            _ => Verdict::Sampled,
        }
    }

    /// How a rule skips, before their end, things that come here; [`Verdict::Nothing`] if none does.
    #[cfg(feature = "tracing")]
    pub(crate) fn how_it_skips(&self) -> Verdict {
        let state = self.state.load(Acquire);
        if state & !LOOK_CLOSER == 0 || state & LOOK_CLOSER == 0 {
            return Verdict::Nothing;
        }
        match (self.one_in.load(Relaxed), self.at_least.load(Relaxed)) {
            (0, 0) => Verdict::SwitchedOff,
            (0 | 1, _) => Verdict::Nothing,
            _ => Verdict::Sampled,
        }
    }

    fn register(&'static self) {
        let control = control();
        if self.name_id.load(Relaxed) != 0 {
            return; // another thread came first
        }
        let id = names::with(|names| {
            for key in self.keys {
                key.id.store(names.intern(key.text), Relaxed);
            }
            let id = names.intern(self.name);
            // Kinds of the vocabulary are recorded in many places, and have none of their own.
            if !self.file.is_empty() {
                names.add_call_site(id, self.file, self.module, self.line);
            }
            id
        });
        self.name_id.store(id, Relaxed);
        self.link(&control);
    }

    /// Puts the site into the list and gives it its state. Called with the lock held.
    fn link(&'static self, control: &Control) {
        self.next.store(HEAD.load(Relaxed), Relaxed);
        HEAD.store(ptr::from_ref(self).cast_mut(), Release);
        self.apply(control);
    }

    fn apply(&self, control: &Control) {
        let Some(ticks_per_second) = control.recording.filter(|_| !FORKED.load(Relaxed)) else {
            self.state.store(OFF, Relaxed);
            return;
        };
        let id = self.name_id.load(Relaxed);
        let action = control.rules.as_ref().map_or(Action::On, |rules| rules.action(self.name));
        let (one_in, at_least) = match action {
            // Without a hardware counter every one needs a closer look.
            Action::On => (1, 0),
            Action::Off => (0, 0),
            Action::OneIn(n) => (n, 0),
            // One tick is the least that can be asked for: 0 would read as "off".
            Action::AtLeast(least) => (0, to_ticks(least, ticks_per_second).max(1)),
        };
        self.one_in.store(one_in, Relaxed);
        self.at_least.store(at_least, Relaxed);
        self.turns.reset();
        let closer = if action == Action::On && clock::is_hardware() { 0 } else { LOOK_CLOSER };
        // Release, although the hot path loads it relaxed: `look_closer` may run
        // once with the rule from before, and no more than that. With its acquire
        // load: who sees a state sees the keys.
        self.state.store(id | closer, Release);
    }
}

pub(crate) fn to_ticks(duration: Duration, ticks_per_second: u64) -> u64 {
    // In two parts: the drain asks in every tick, and dividing 128 bits takes a hundred instructions.
    let part = |nanos: u64| nanos.checked_mul(ticks_per_second).map(|ticks| ticks / 1_000_000_000);
    let seconds = duration.as_secs().saturating_mul(ticks_per_second);
    let rest = part(u64::from(duration.subsec_nanos())).unwrap_or(ticks_per_second);
    seconds.saturating_add(rest)
}

/// All sites that have run or been named so far.
fn all() -> impl Iterator<Item = &'static CallSite> {
    let mut next = HEAD.load(Acquire);
    std::iter::from_fn(move || {
        // SAFETY: the list holds only pointers made from `&'static CallSite` in `link`.
        let site: &'static CallSite = unsafe { next.as_ref() }?;
        next = site.next.load(Relaxed);
        Some(site)
    })
}

/// Switches every site on, as the rules allow.
pub(crate) fn switch_on(ticks_per_second: u64, rules: Rules) {
    let mut control = control();
    ON_SINCE.store(clock::ticks(), Relaxed);
    control.recording = Some(ticks_per_second);
    control.rules = Some(rules);
    RULES_VERSION.fetch_add(1, Release);
    all().for_each(|site| site.apply(&control));
}

/// Whether that was before the recording of now began.
#[cfg(feature = "tracing")]
pub(crate) fn was_before(tick: u64, now: u64) -> bool {
    let since = ON_SINCE.load(Relaxed);
    // A counter that has gone back since then tells nothing.
    tick < since && since <= now
}

/// Replaces the rules while recording.
pub(crate) fn set_rules(rules: Rules) {
    let mut control = control();
    control.rules = Some(rules);
    RULES_VERSION.fetch_add(1, Release);
    all().for_each(|site| site.apply(&control));
}

/// Differs whenever the rules may have changed.
pub(crate) fn rules_version() -> u32 {
    RULES_VERSION.load(Acquire)
}

/// The rules in force.
pub(crate) fn rules() -> Rules {
    control().rules.clone().unwrap_or_default()
}

/// Switches every site off.
pub(crate) fn switch_off() {
    let mut control = control();
    control.recording = None;
    all().for_each(|site| site.apply(&control));
}

/// Switches every site off for good, without a lock: for a forked child, where
/// the thread that held it may not exist.
pub(crate) fn switch_off_for_good() {
    FORKED.store(true, Relaxed);
    switch_off_now();
}

/// Switches every site off without a lock: for a process that is dying, whose
/// dying thread may hold it.
pub(crate) fn switch_off_now() {
    all().for_each(|site| site.state.store(OFF, Relaxed));
}

/// Puts back what [`switch_off_now`] took: the process survived after all.
pub(crate) fn switch_on_again() {
    let control = control();
    all().for_each(|site| site.apply(&control));
}

/// Whether this is a forked child, where no lock may be taken any more.
pub(crate) fn is_forked() -> bool {
    FORKED.load(Relaxed)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_a_time_are_exact_and_never_overflow() {
        let times = [0, 1, 999, 1_000, 999_999_999, 1_000_000_000, 3_000_000_001, u64::MAX];
        for hz in [1, 24_000_000, 1_000_000_000, 2_999_999_999, 12_000_000_001] {
            for time in times {
                let exact = u128::from(time) * u128::from(hz) / 1_000_000_000;
                let exact = u64::try_from(exact).unwrap_or(u64::MAX);
                assert_eq!(to_ticks(Duration::from_nanos(time), hz), exact, "{time} ns at {hz} Hz");
            }
            assert_eq!(to_ticks(Duration::MAX, hz), u64::MAX);
        }
    }
}
