//! Runs for `diff`: traces whose names take about as long as they are told to.

use std::{fs::File, io::BufWriter, path::Path};

use ringscope_format::{FileHeader, Kind, LostCause, Record, TraceWriter, TrackKind};

/// One run to be written.
#[derive(Clone)]
pub(crate) struct Program {
    /// Name, calls, and what a call takes in nanoseconds.
    pub(crate) names: Vec<(String, u64, f64)>,
    /// How far calls are apart, as a part of what they take.
    pub(crate) spread: f64,
    /// How far runs are apart in each name.
    pub(crate) between: f64,
    pub(crate) metadata: Vec<(&'static str, &'static str)>,
    pub(crate) lost: u64,
}

impl Program {
    /// Twenty names, 400 calls each.
    pub(crate) fn new() -> Self {
        let names = (0..20).map(|at| (format!("step_{at:02}"), 400, 10_000.0 * f64::from(at + 1)));
        Self { names: names.collect(), spread: 0.04, between: 0.004, metadata: vec![], lost: 0 }
    }

    /// The same with one name so many times as slow.
    pub(crate) fn with(mut self, name: &str, times: f64) -> Self {
        self.names.iter_mut().filter(|it| it.0 == name).for_each(|it| it.2 *= times);
        self
    }

    /// The same with all names so many times as slow.
    pub(crate) fn all(mut self, times: f64) -> Self {
        self.names.iter_mut().for_each(|it| it.2 *= times);
        self
    }

    /// Writes the `number`-th run, which begins so many seconds after the first.
    pub(crate) fn write(&self, path: &Path, number: u64, begun_s: i64) {
        let file = BufWriter::new(File::create(path).expect("a file"));
        let begun = (1_700_000_000 + begun_s) * 1_000_000_000;
        let header = FileHeader::converted(*b"analyzer's tests", begun);
        let mut writer = TraceWriter::new(file, header).expect("a header");
        writer.metadata(&self.metadata).expect("metadata");
        let main = writer.track(TrackKind::Thread, 7, "main");
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
        // Between -1 and 1.
        let mut noise = move || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (z >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        };
        let mut now = 0;
        for (name, calls, duration) in &self.names {
            let id = writer.name(name);
            let duration = duration * (1.0 + self.between * noise());
            for _ in 0..*calls {
                let length = (duration * (1.0 + self.spread * noise())) as u64;
                let record = Record::timed(Kind::SPAN, id, main, now, length);
                writer.event(record, &[], &[]).expect("an event");
                now += length + 100;
            }
        }
        if self.lost > 0 {
            writer.lose(main, LostCause::RingFull, self.lost);
        }
        writer.finish().expect("a trace");
    }
}

/// Writes so many runs a side, in turns: `b0.trace`, `h0.trace` and so on. Returns the
/// arguments that name them.
pub(crate) fn sides(dir: &Path, runs: u64, base: &Program, head: &Program) -> Vec<String> {
    let mut arguments = vec!["diff".to_owned(), "--base".to_owned()];
    for run in 0..runs {
        base.write(&dir.join(format!("b{run}.trace")), 2 * run, 20 * run as i64);
        arguments.push(format!("b{run}.trace"));
    }
    arguments.push("--head".to_owned());
    for run in 0..runs {
        // In turns: whichever side begins, the other goes on.
        let at = 20 * run as i64 + if run % 2 == 0 { 10 } else { -10 };
        head.write(&dir.join(format!("h{run}.trace")), 2 * run + 1, at);
        arguments.push(format!("h{run}.trace"));
    }
    arguments
}
