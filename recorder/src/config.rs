//! What can be set before a recorder starts, and what happens if nothing is.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Error, Level, Recorder, rules::Rules};

/// The smallest flight-recorder area that can hold a few chunks.
pub(crate) const SMALLEST_CAP: u64 = 4 << 20;
pub(crate) const LARGEST_CAP: u64 = 1 << 40;

/// When a flight recorder writes a dump because a span was slow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowTrigger {
    pub(crate) pattern: String,
    pub(crate) longer_than: Duration,
}

/// The flight recorder's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeepLast {
    pub(crate) window: Duration,
    pub(crate) cap_bytes: u64,
}

/// Everything a recorder is started with.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) path: PathBuf,
    pub(crate) ring_records: Option<usize>,
    pub(crate) ring_budget: u64,
    pub(crate) rotate_bytes: Option<u64>,
    pub(crate) keep_last: Option<KeepLast>,
    pub(crate) triggers: Vec<SlowTrigger>,
    pub(crate) hold_off: Duration,
    pub(crate) after_trigger: Duration,
    pub(crate) max_dumps: u32,
    pub(crate) dump_signal: Option<i32>,
    pub(crate) control_file: bool,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) rules: Rules,
    pub(crate) readings: Option<Duration>,
    pub(crate) on_panic: bool,
    pub(crate) on_fatal_signal: bool,
    pub(crate) busy_tick: Duration,
    pub(crate) idle_tick: Duration,
    pub(crate) level: Option<Level>,
    /// What there is without it: what the environment or the file said when the recording was started.
    #[cfg(not(feature = "off"))]
    pub(crate) usual_level: Level,
    pub(crate) gpu_latency: bool,
    #[cfg_attr(not(feature = "exporters"), allow(dead_code))]
    pub(crate) output: Output,
}

impl Config {
    #[cfg(not(feature = "off"))]
    pub(crate) fn level(&self) -> Level {
        self.level.unwrap_or(self.usual_level)
    }
}

/// What is exported as it happens.
#[cfg_attr(not(feature = "exporters"), allow(dead_code))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    pub(crate) console: bool,
    pub(crate) jsonl: Option<PathBuf>,
    pub(crate) jsonl_interval: Option<Duration>,
    /// From when on a span is slow.
    pub(crate) slow: Option<Duration>,
    /// Whether failures become scripts.
    pub(crate) repro: bool,
}

/// Sets up a [`Recorder`]. Every setting has a default that suits most programs.
///
/// ```no_run
/// use std::time::Duration;
/// use ringscope::Recorder;
///
/// let recorder = Recorder::builder()
///     .path("inference.trace")
///     .metadata("build.commit", "4f2a91c")
///     .rules("tokenize=1/100".parse()?)
///     .start()?;
/// // ... the program ...
/// let summary = recorder.finish()?;
/// println!("{summary}");
///
/// // A flight recorder: the last half minute, at most 64 MiB, with a copy of it
/// // whenever a request takes longer than 200 ms.
/// let recorder = Recorder::builder()
///     .path("flight.trace")
///     .keep_last(Duration::from_secs(30), 64 << 20)
///     .dump_when_slower("request", Duration::from_millis(200))
///     .start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `start`"]
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) config: Config,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            config: Config {
                path: default_path(),
                ring_records: None,
                ring_budget: 1 << 30,
                rotate_bytes: None,
                keep_last: None,
                triggers: Vec::new(),
                hold_off: Duration::from_secs(10),
                after_trigger: Duration::from_millis(100),
                max_dumps: 100,
                dump_signal: None,
                control_file: true,
                metadata: Vec::new(),
                rules: Rules::new(),
                readings: Some(Duration::from_secs(1)),
                on_panic: true,
                on_fatal_signal: true,
                busy_tick: Duration::from_micros(200),
                idle_tick: Duration::from_millis(100),
                level: None,
                #[cfg(not(feature = "off"))]
                usual_level: Level::Trace,
                gpu_latency: true,
                output: Output::default(),
            },
        }
    }
}

/// The program's name with `.trace` behind it, in the current directory.
fn default_path() -> PathBuf {
    let program = std::env::args_os().next().unwrap_or_default();
    let stem = Path::new(&program).file_stem().map_or("ringscope".into(), PathBuf::from);
    stem.with_extension("trace")
}

impl Builder {
    /// Where the trace goes. A trace that is already there, or an empty file, is
    /// replaced when the recording has begun, and stays if it cannot begin; any other
    /// file is refused. Default: the program's name with `.trace`.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.path = path.into();
        self
    }

    /// How many 32-byte records a thread's ring holds. Default: 61,440 (1.9 MiB),
    /// and 262,144 (8 MiB) for the first thread to record.
    pub fn ring_records(mut self, records: usize) -> Self {
        self.config.ring_records = Some(records.clamp(1, 1 << 24));
        self
    }

    /// How much memory all rings may take together; a thread that gets none has
    /// its events counted as lost. Two get one in any case. Default: 1 GiB, which is 542 threads at once.
    pub fn ring_budget(mut self, bytes: u64) -> Self {
        self.config.ring_budget = bytes;
        self
    }

    /// Keeps everything, and goes on in a new file (`name.1.trace`, `name.2.trace`, ...)
    /// whenever one has grown to about this size. Of this, [`full`](Self::full) and
    /// [`keep_last`](Self::keep_last) the last call counts, and any of them goes before the
    /// environment's mode. Default: one file, however large.
    pub fn rotate_at(mut self, bytes: u64) -> Self {
        self = self.full();
        self.config.rotate_bytes = Some(bytes.max(1 << 20));
        self
    }

    /// Keeps everything in one file, whatever mode was said before. Default: yes.
    pub fn full(mut self) -> Self {
        (self.config.keep_last, self.config.rotate_bytes) = (None, None);
        self
    }

    /// Flight recorder: keeps about the last `window` and never more than
    /// `cap_bytes` of it (at least 4 MiB), older data being overwritten. Such a
    /// recording does not rotate, whatever was said before.
    ///
    /// Its dumps lie beside the trace, as `name.dump-1-panic.trace` and so on. Numbers
    /// begin above the highest that is there: dumps of earlier runs are never overwritten.
    pub fn keep_last(mut self, window: Duration, cap_bytes: u64) -> Self {
        self.config.keep_last =
            Some(KeepLast { window, cap_bytes: cap_bytes.clamp(SMALLEST_CAP, LARGEST_CAP) });
        self.config.rotate_bytes = None;
        self
    }

    /// Flight recorder: writes a dump when a span whose name matches `pattern`
    /// takes longer than this.
    pub fn dump_when_slower(mut self, pattern: impl Into<String>, longer_than: Duration) -> Self {
        self.config.triggers.push(SlowTrigger { pattern: pattern.into(), longer_than });
        self
    }

    /// How long after a dump slow spans cause no further one. Default: 10 s.
    pub fn hold_off(mut self, duration: Duration) -> Self {
        self.config.hold_off = duration;
        self
    }

    /// How long a dump waits after a slow span, to show what followed. Default: 100 ms.
    pub fn after_trigger(mut self, duration: Duration) -> Self {
        self.config.after_trigger = duration;
        self
    }

    /// How many dumps one recording may write, whatever earlier ones have left. Default: 100.
    pub fn max_dumps(mut self, dumps: u32) -> Self {
        self.config.max_dumps = dumps;
        self
    }

    /// Flight recorder: writes a dump when the process receives this signal, such
    /// as `SIGUSR2`. Its previous handler is called too. Signals that cannot be
    /// caught, and fatal ones, are not taken. Default: none.
    pub fn dump_on_signal(mut self, signal: i32) -> Self {
        self.config.dump_signal = Some(signal);
        self
    }

    /// Whether commands are taken from a file beside the trace (its name with
    /// `.control` behind it; removed once read). Its lines are `dump`, or rules
    /// as in [`Rules`], each ended by a new line. It is looked for every second. Lines
    /// that are not understood, and `dump` where there is no flight recorder, come back
    /// in `.control.rejected`. Default: yes.
    pub fn control_file(mut self, yes: bool) -> Self {
        self.config.control_file = yes;
        self
    }

    /// Adds a line about this run: a commit, a model, a build flag.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.metadata.push((key.into(), value.into()));
        self
    }

    /// What to record less of; see [`Rules`]. Default: everything is recorded.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.config.rules = rules;
        self
    }

    /// How often the process's memory, page faults and CPU time, and the
    /// recorder's own cost, are recorded. `None` for never. Default: every second.
    pub fn readings(mut self, interval: Option<Duration>) -> Self {
        let sensible = Duration::from_millis(10)..=Duration::from_secs(86_400);
        self.config.readings =
            interval.map(|every| every.clamp(*sensible.start(), *sensible.end()));
        self
    }

    /// Whether a panic flushes the rings and is itself recorded. Default: yes.
    pub fn on_panic(mut self, yes: bool) -> Self {
        self.config.on_panic = yes;
        self
    }

    /// Whether a fatal signal (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) flushes
    /// the rings before it takes its course. Programs that live with such signals
    /// (virtual machines, garbage collectors) should say no: recording pauses for a
    /// second after each. Default: yes.
    pub fn on_fatal_signal(mut self, yes: bool) -> Self {
        self.config.on_fatal_signal = yes;
        self
    }

    /// How long the drain sleeps between two looks at the rings: at least, while
    /// there is something in them, and when there has been nothing for half a second.
    /// In between it sleeps as long as the rings allow, up to a millisecond, or up to 4 where
    /// fewer than about 64 events happen in one: waking costs more than these.
    ///
    /// A thread that wakes up after such a pause and records faster than its ring
    /// holds for one idle tick loses events, counted; a shorter idle tick costs
    /// CPU time instead. A fatal signal waits for the next look, a second at most.
    /// Default: 200 us and 100 ms, which covers 610,000 events a second of a thread, and
    /// 2.4 million of the first.
    pub fn ticks(mut self, busy: Duration, idle: Duration) -> Self {
        self.config.busy_tick = busy;
        self.config.idle_tick = idle.max(busy);
        self
    }

    /// How much of what `tracing` tells is recorded, by a layer or a subscriber without a filter,
    /// whether it is made before the recording is started or after. [`Level::Off`] is about everything:
    /// the recorder that [`start`](Self::start) returns then records nothing and writes no file.
    /// Default: what `RINGSCOPE_LEVEL` or else `ringscope.toml` says, of `tracing` alone unless the
    /// builder [begins with them](Self::from_env); everything if neither does.
    pub fn level(mut self, level: Level) -> Self {
        self.config.level = Some(level);
        self
    }

    /// Whether exact times of each kernel are worth some throughput: each has a command
    /// buffer of its own then, where otherwise kernels of a stream share them (Metal). Work of devices
    /// is recorded either way. [`gpu_latency`](crate::gpu_latency) tells programs that put
    /// command buffers together themselves. Default: yes.
    pub fn gpu_latency(mut self, yes: bool) -> Self {
        self.config.gpu_latency = yes;
        self
    }

    /// Writes one line an event on standard error. Default: no.
    #[cfg(feature = "exporters")]
    pub fn console(mut self, yes: bool) -> Self {
        self.config.output.console = yes;
        self
    }

    /// Writes one line of JSON an event to this file, in place of earlier ones; one that begins
    /// otherwise than these, with `{"at":"`, is kept, and nothing written. See
    /// [`JsonlExporter`](crate::handlers::JsonlExporter). Default: no.
    #[cfg(feature = "exporters")]
    pub fn jsonl(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.output.jsonl = Some(path.into());
        self
    }

    /// Writes rows of latency and of memory at this interval, to files beside
    /// those of [`jsonl`](Self::jsonl), which has to be given; once a second at most. Default: no.
    #[cfg(feature = "statistics")]
    pub fn jsonl_interval(mut self, every: Duration) -> Self {
        self.config.output.jsonl_interval = Some(every);
        self
    }

    /// Warns on standard error of spans that take at least this long; see
    /// [`ConsoleExporter::slow`](crate::handlers::ConsoleExporter::slow). Default: no.
    #[cfg(feature = "exporters")]
    pub fn warn_when_slower(mut self, least: Duration) -> Self {
        self.config.output.slow = Some(least);
        self
    }

    /// Writes a Python script beside the trace for every error that carries
    /// `function`, and `library`, `module` and `arguments` (JSON) as far as they are needed:
    /// `run.error-1.py` and so on, up to 100; that there will be no more of them is said once on
    /// standard error. `analyze repro` makes the same later, of any error. Scripts of an
    /// earlier run are replaced one by one: those that this one does not come to stay beside
    /// the new trace, and say in their first lines when their error was. Default: no.
    #[cfg(feature = "exporters")]
    pub fn repro_scripts(mut self, yes: bool) -> Self {
        self.config.output.repro = yes;
        self
    }

    /// Creates the file and starts recording, unless the level is [`Level::Off`].
    ///
    /// # Errors
    ///
    /// If a recorder is already running in this process, or the file cannot be
    /// created, locked or given its first few megabytes. Nothing is recorded then,
    /// and the program's spans cost what they cost without a recorder.
    pub fn start(mut self) -> Result<Recorder, Error> {
        // Later files, dumps and the control file stay beside the trace even if the program
        // goes to another directory meanwhile.
        if let Ok(path) = std::path::absolute(&self.config.path) {
            self.config.path = path;
        }
        Recorder::start(self.config)
    }
}
