//! A program that does not exist: 200 names, each with a distribution of its own, and
//! as many runs of it as wanted.
//!
//! What real traces do to a test is in here: neighbouring calls are alike
//! (autocorrelation up to 0.98), slow episodes hit all names at once, names have one
//! to three modes that last, one call in a hundred takes much longer, and every run
//! is off by 1 to 3 % as a whole and a little more in each name.

use ringscope_analyzer::diff::{NameSummary, RunSummary, USUAL_PERCENTILES};

use crate::random::Random;

pub(crate) const NAMES: usize = 200;

/// Where the distributions of all names are kept.
pub(crate) struct Universe {
    names: Vec<Name>,
    /// Standard deviation of what a run is off by as a whole.
    run_offset: f64,
    /// Slow episodes a run, in the mean.
    episodes: f64,
}

struct Name {
    label: String,
    calls: usize,
    median_ns: f64,
    /// Standard deviation of the logarithm within a mode.
    spread: f64,
    /// Between neighbouring calls.
    correlation: f64,
    modes: Vec<Mode>,
    /// How likely a call is to choose its mode anew.
    switching: f64,
    /// How many calls take much longer, and how heavy that tail is.
    tail: f64,
    heaviness: f64,
    /// Standard deviation of what a run is off by in this name alone.
    offset: f64,
}

#[derive(Clone, Copy)]
struct Mode {
    level: f64,
    /// Up to here of one.
    upto: f64,
}

struct Episode {
    from: f64,
    to: f64,
    factor: f64,
}

/// Random numbers of every kind, quick rather than fine.
pub(crate) struct Dice<'a> {
    random: Random,
    normal: &'a Normal,
}

/// Normal deviates at 65,536 equal chances.
pub(crate) struct Normal(Vec<f64>);

impl Normal {
    pub(crate) fn new() -> Self {
        // Adding up the density from the middle outwards finds the deviates.
        let half = 1 << 15;
        let mut upper = Vec::with_capacity(half);
        let (mut z, mut chance) = (0.0_f64, 0.0);
        let step = 1e-5;
        while upper.len() < half {
            let wanted = (upper.len() as f64 + 0.5) / (2.0 * half as f64);
            while chance < wanted {
                let middle = z + 0.5 * step;
                chance += step * (-0.5 * middle * middle).exp() / std::f64::consts::TAU.sqrt();
                z += step;
            }
            upper.push(z);
        }
        Self(upper.iter().rev().map(|z| -z).chain(upper.iter().copied()).collect())
    }
}

impl<'a> Dice<'a> {
    pub(crate) fn new(seed: u64, normal: &'a Normal) -> Self {
        Self { random: Random::new(seed), normal }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        ((self.random.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// As likely between 1 and 2 as between 10 and 20.
    fn by_size(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    fn normal(&mut self) -> f64 {
        self.normal.0[(self.random.next() >> 48) as usize]
    }

    /// So many distinct numbers below `bound`, in any order.
    pub(crate) fn distinct(&mut self, wanted: usize, bound: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..bound).collect();
        for at in 0..wanted.min(bound) {
            let other = at + self.below(bound - at);
            all.swap(at, other);
        }
        all.truncate(wanted);
        all
    }
}

impl Universe {
    /// With `calls` times as many calls as usual.
    pub(crate) fn new(dice: &mut Dice<'_>, calls: usize) -> Self {
        let mut names: Vec<Name> = (0..NAMES).map(|at| Name::new(at, dice)).collect();
        names.iter_mut().for_each(|it| it.calls *= calls);
        Self { names, run_offset: dice.between(0.01, 0.03), episodes: dice.between(0.0, 2.0) }
    }

    /// One run, with intervals from a part of the durations as `analyze` takes them, and
    /// with intervals from all of them.
    pub(crate) fn run(&self, dice: &mut Dice<'_>) -> (RunSummary, RunSummary) {
        let offset = self.run_offset * dice.normal();
        let number = (0..4).filter(|_| dice.unit() < self.episodes / 4.0).count();
        let episodes: Vec<Episode> = (0..number)
            .map(|_| {
                let (from, length) = (dice.unit(), dice.by_size(0.01, 0.1));
                Episode { from, to: from + length, factor: dice.between(1.1, 1.6) }
            })
            .collect();
        let mut durations = Vec::new();
        let mut summary = |name: &Name| {
            name.fill(offset, &episodes, dice, &mut durations);
            let all = durations.len();
            let by = |most| {
                NameSummary::of_thinned_durations(&name.label, &durations, &USUAL_PERCENTILES, most)
            };
            (NameSummary::of_durations(&name.label, &durations, &USUAL_PERCENTILES), by(all))
        };
        let (as_read, of_all) = self.names.iter().map(&mut summary).unzip();
        let run = |names| RunSummary {
            percentiles: USUAL_PERCENTILES.to_vec(),
            names,
            ..RunSummary::default()
        };
        (run(as_read), run(of_all))
    }
}

impl Name {
    fn new(at: usize, dice: &mut Dice<'_>) -> Self {
        let weights: Vec<f64> = (0..1 + dice.below(3)).map(|_| dice.between(0.1, 1.0)).collect();
        let whole: f64 = weights.iter().sum();
        let (mut level, mut upto) = (1.0, 0.0);
        let mut modes = Vec::new();
        for weight in weights {
            upto += weight / whole;
            modes.push(Mode { level, upto });
            level *= dice.between(1.15, 2.5);
        }
        // Half of the names hardly correlate, the others up to 0.98.
        let correlation =
            if dice.unit() < 0.5 { dice.between(0.0, 0.3) } else { 1.0 - dice.by_size(0.02, 0.7) };
        Self {
            label: format!("name_{at:03}"),
            calls: dice.by_size(200.0, 6_000.0) as usize,
            median_ns: dice.by_size(1e3, 1e7),
            spread: dice.by_size(0.01, 0.25),
            correlation,
            modes,
            switching: dice.by_size(0.02, 1.0),
            tail: dice.between(0.0, 0.02),
            heaviness: dice.between(1.5, 4.0),
            offset: dice.by_size(0.002, 0.03),
        }
    }

    fn fill(
        &self,
        run_offset: f64,
        episodes: &[Episode],
        dice: &mut Dice<'_>,
        durations: &mut Vec<f64>,
    ) {
        durations.clear();
        let scale = self.median_ns * (run_offset + self.offset * dice.normal()).exp();
        let fresh = (1.0 - self.correlation * self.correlation).sqrt();
        let mut state = dice.normal();
        let mut level = self.level(dice);
        for call in 0..self.calls {
            state = self.correlation * state + fresh * dice.normal();
            let chance = dice.unit();
            if chance < self.switching {
                level = self.level(dice);
            }
            let mut duration = scale * level * (self.spread * state).exp();
            // The upper end of the same number: a call is rarely both.
            if chance > 1.0 - self.tail {
                duration *= 1.0 + dice.unit().powf(-1.0 / self.heaviness);
            }
            let at = call as f64 / self.calls as f64;
            for episode in episodes.iter().filter(|it| it.from <= at && at < it.to) {
                duration *= episode.factor;
            }
            durations.push(duration);
        }
    }

    fn level(&self, dice: &mut Dice<'_>) -> f64 {
        let chance = dice.unit();
        let mode = self.modes.iter().find(|mode| chance <= mode.upto).or(self.modes.last());
        mode.map_or(1.0, |mode| mode.level)
    }
}
