//! From ticks to nanoseconds (SPEC 9).
//!
//! A clock pair brackets one reading of the host's clocks between two ticks.
//! One ratio serves the whole file, so that equal durations stay equal. It is
//! taken only between pairs that nothing came between: a counter that goes on
//! while the machine sleeps would otherwise stretch every second of the trace.
//!
//! What it cannot promise: between two pairs the counter is taken to be even,
//! and ticks that a counter went through twice belong to its later pass.

use bytemuck::{Pod, Zeroable};

/// One reading of the host's clocks, or of a device's, between two ticks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct ClockPair {
    /// Tick before the clocks were read.
    pub tick_before: u64,
    /// Tick after.
    pub tick_after: u64,
    /// Monotonic clock, which stops while the machine sleeps.
    pub mono_ns: i64,
    /// Wall clock, nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// Boot clock, which goes on while the machine sleeps.
    pub boot_ns: i64,
    /// Track whose device clock this is about; 0: the host's.
    pub track: u32,
    /// Written as zero.
    pub unused: u32,
}

impl ClockPair {
    /// The tick taken for this pair: the middle of the two.
    pub fn tick(&self) -> u64 {
        self.tick_before + self.width() / 2
    }

    fn width(&self) -> u64 {
        self.tick_after.saturating_sub(self.tick_before)
    }
}

/// A counter that did not advance, or a monotonic clock that went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Tick of the last pair before.
    pub after_tick: u64,
    /// Tick of the first pair after.
    pub to_tick: u64,
    /// What the monotonic clock advanced by meanwhile.
    pub mono_ns: i64,
}

/// The machine slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspend {
    /// Tick of the last pair before.
    pub after_tick: u64,
    /// For how long.
    pub slept_ns: i64,
}

/// The wall clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallStep {
    /// Tick of the last pair before.
    pub after_tick: u64,
    /// By how much, forward if positive.
    pub step_ns: i64,
}

/// Differences below this are the clocks' own noise.
const NOISE_NS: i128 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct Anchor {
    tick: u64,
    mono_ns: i64,
    wall_ns: i64,
    /// Whether something came between the anchor before and this one.
    begins_run: bool,
}

/// The map from ticks to nanoseconds.
#[derive(Clone, Debug)]
pub struct ClockFit {
    ns_per_tick: f64,
    error_ns: f64,
    anchors: Vec<Anchor>,
    pairs: usize,
    jumps: Vec<Jump>,
    suspends: Vec<Suspend>,
    wall_steps: Vec<WallStep>,
}

impl ClockFit {
    /// Fits the host's pairs among these, which are in order of recording.
    /// `nominal_hz` serves where they do not give a ratio.
    pub fn fit(pairs: &[ClockPair], nominal_hz: u64) -> ClockFit {
        let nominal = if nominal_hz == 0 { 1.0 } else { 1e9 / nominal_hz as f64 };
        let mut host: Vec<ClockPair> =
            pairs.iter().filter(|pair| pair.track == 0).copied().collect();
        host.dedup();
        let mut fit = ClockFit {
            ns_per_tick: nominal,
            error_ns: 0.0,
            anchors: Vec::with_capacity(host.len()),
            pairs: host.len(),
            jumps: Vec::new(),
            suspends: Vec::new(),
            wall_steps: Vec::new(),
        };
        let (mut ticks, mut nanoseconds) = (0.0, 0.0);
        for (at, pair) in host.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &host[at]);
            let begins_run = before.is_none_or(|before| fit.interruption(before, pair, nominal));
            if let (false, Some(before)) = (begins_run, before) {
                ticks += pair.tick().wrapping_sub(before.tick()) as f64;
                nanoseconds += (i128::from(pair.mono_ns) - i128::from(before.mono_ns)) as f64;
            }
            fit.anchors.push(Anchor {
                tick: pair.tick(),
                mono_ns: pair.mono_ns,
                wall_ns: pair.wall_ns,
                begins_run,
            });
        }
        if ticks > 0.0 && nanoseconds > 0.0 {
            fit.ns_per_tick = nanoseconds / ticks;
            fit.error_ns = fit.largest_distance() + fit.widest_end(&host) / 2.0;
        }
        fit
    }

    /// The tick and wall clock at the file's creation, which serve where there
    /// is no pair at all. Monotonic time then counts from there.
    pub fn with_origin(mut self, tick: u64, wall_ns: i64) -> ClockFit {
        if self.anchors.is_empty() {
            self.anchors.push(Anchor { tick, mono_ns: 0, wall_ns, begins_run: true });
        }
        self
    }

    /// Notes what came between two pairs, and tells whether it ends the run.
    fn interruption(&mut self, a: &ClockPair, b: &ClockPair, nominal: f64) -> bool {
        let after_tick = a.tick();
        let mono = i128::from(b.mono_ns) - i128::from(a.mono_ns);
        let boot = i128::from(b.boot_ns) - i128::from(a.boot_ns);
        let wall = i128::from(b.wall_ns) - i128::from(a.wall_ns);
        let uncertainty = ((a.width() as f64 + b.width() as f64) / 2.0 * nominal) as i128;
        let jumped = b.tick() <= after_tick || mono < 0;
        let slept = boot - mono > NOISE_NS + uncertainty;
        if jumped {
            self.jumps.push(Jump { after_tick, to_tick: b.tick(), mono_ns: clamp(mono) });
        }
        if slept {
            self.suspends.push(Suspend { after_tick, slept_ns: clamp(boot - mono) });
        }
        if (wall - boot).abs() > NOISE_NS + uncertainty {
            self.wall_steps.push(WallStep { after_tick, step_ns: clamp(wall - boot) });
        }
        jumped || slept
    }

    /// Of any pair from the line through the first pair of its run.
    fn largest_distance(&self) -> f64 {
        let mut origin = self.anchors[0];
        let mut largest = 0.0_f64;
        for anchor in &self.anchors {
            if anchor.begins_run {
                origin = *anchor;
            }
            let line = (anchor.tick.wrapping_sub(origin.tick)) as f64 * self.ns_per_tick;
            let mono = (i128::from(anchor.mono_ns) - i128::from(origin.mono_ns)) as f64;
            largest = largest.max((mono - line).abs());
        }
        largest
    }

    /// Width of the widest pair at an end of a run, in nanoseconds.
    fn widest_end(&self, host: &[ClockPair]) -> f64 {
        let ends = host.iter().enumerate().filter(|(at, _)| {
            self.anchors[*at].begins_run
                || self.anchors.get(at + 1).is_none_or(|next| next.begins_run)
        });
        let widest = ends.map(|(_, pair)| pair.width()).max().unwrap_or(0);
        widest as f64 * self.ns_per_tick
    }

    /// A duration in nanoseconds.
    #[inline]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    /// Nanoseconds of a tick.
    #[inline]
    pub fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    /// The monotonic clock at a tick.
    pub fn mono_ns(&self, tick: u64) -> i64 {
        let at = self.last_at_or_before(tick);
        let Some(known) = self.anchors.get(..=at) else { return self.ns(tick) as i64 };
        let run = known.iter().rfind(|anchor| anchor.begins_run).unwrap_or(&known[0]);
        run.mono_ns.saturating_add(self.elapsed(run.tick, tick))
    }

    /// The wall clock at a tick, nanoseconds since the Unix epoch.
    pub fn wall_ns(&self, tick: u64) -> i64 {
        match self.anchors.get(self.last_at_or_before(tick)) {
            Some(anchor) => anchor.wall_ns.saturating_add(self.elapsed(anchor.tick, tick)),
            None => self.ns(tick) as i64,
        }
    }

    /// The largest distance of a pair from the line, plus the uncertainty of
    /// the ends. 0 if there was nothing to fit.
    pub fn error_ns(&self) -> f64 {
        self.error_ns
    }

    /// How many pairs of the host's clocks there were.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Where the clock jumped.
    pub fn jumps(&self) -> &[Jump] {
        &self.jumps
    }

    /// Where the machine slept.
    pub fn suspends(&self) -> &[Suspend] {
        &self.suspends
    }

    /// Where the wall clock was set.
    pub fn wall_steps(&self) -> &[WallStep] {
        &self.wall_steps
    }

    fn last_at_or_before(&self, tick: u64) -> usize {
        if self.jumps.is_empty() {
            self.anchors.partition_point(|anchor| anchor.tick <= tick).saturating_sub(1)
        } else {
            self.anchors.iter().rposition(|anchor| anchor.tick <= tick).unwrap_or(0)
        }
    }

    fn elapsed(&self, from: u64, to: u64) -> i64 {
        if to >= from { self.ns(to - from) as i64 } else { -(self.ns(from - to) as i64) }
    }
}

fn clamp(n: i128) -> i64 {
    n.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
