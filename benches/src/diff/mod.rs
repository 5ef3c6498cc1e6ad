//! `diff`: how often identical code is flagged, how often slower code is found.

mod trials;
mod universe;

pub(crate) fn run_raw(quick: bool, seed: u64) {
    let plan = if quick {
        trials::Plan { universes: 12, runs: 24, diffs: 30, slowed: 3 }
    } else {
        trials::Plan { universes: 100, runs: 30, diffs: 30, slowed: 3 }
    };
    let begin = std::time::Instant::now();
    let found = trials::run(plan, seed);
    for (what, out) in [("FA", &found.alarms), ("power", &found.power)] {
        for (k, shares) in out {
            let (h, o) = shares.iter().fold((0, 0), |s, it| (s.0 + it.hits, s.1 + it.of));
            println!("{what} {k}: {h}/{o} = {:.2} %", 100.0 * h as f64 / o as f64);
        }
    }
    println!("quiet {:.2}; {:?}", found.quiet_share, begin.elapsed());
}
