//! Calls and worker pools: `analyze calls`, `analyze pool`, `analyze errors`.

use std::time::Duration;

use ringscope_format::{Kind, Value};

use crate::{
    metric, metric_kind,
    vocabulary::{Given, Label, Metric, Recorded},
};

metric_kind! {
    /// A call into a library, a worker or another process: a span, of which the
    /// parts are set as they are known. [`fail`](crate::Span::fail) marks one that failed. Recorded
    /// as an event, when it is over, it is taken to have lasted as long as its parts together.
    pub struct Call<'a> = "call" {
        /// What was called.
        function: Label<'a> = "function",
        /// How long it waited for its turn.
        queue: Duration = "queue_ns",
        /// How long its arguments took to encode.
        encode: Duration = "encode_ns",
        /// How long it ran.
        run: Duration = "run_ns",
        /// How long its result took to decode.
        decode: Duration = "decode_ns",
        /// What came of it.
        result: Label<'a> = "result",
    }
}

metric_kind! {
    /// A call failed. With `library`, `module`, `function` and `arguments`,
    /// `analyze repro` makes a script of it that fails the same way.
    pub struct CallException<'a> = "call.exception" as error {
        /// The class of the error: `ValueError`.
        kind: Label<'a> = "kind",
        /// What it said.
        payload: Label<'a> = "payload",
        /// Its stack trace.
        stack: Label<'a> = "stack",
        /// What was called.
        function: Label<'a> = "function",
        /// Where that is within the library.
        module: Label<'a> = "module",
        /// The library, as it is imported.
        library: Label<'a> = "library",
        /// Its arguments: JSON, an array or an object.
        arguments: Label<'a> = "arguments",
    }
}

metric_kind! {
    /// A task was given a worker.
    pub struct PoolCheckout<'a> = "pool.checkout" {
        /// Which pool.
        pool: Label<'a> = "pool",
        /// How long the task waited.
        queue: Duration = "queue_ns",
        /// Which worker.
        worker: Label<'a> = "worker",
    }
}

metric_kind! {
    /// A worker came back.
    pub struct PoolCheckin<'a> = "pool.checkin" {
        /// Which pool.
        pool: Label<'a> = "pool",
        /// How long the worker was taken.
        busy: Duration = "busy_ns",
        /// Which worker.
        worker: Label<'a> = "worker",
    }
}

metric_kind! {
    /// How many workers a pool has.
    pub struct PoolSize<'a> = "pool.size" {
        /// Which pool.
        pool: Label<'a> = "pool",
        /// All of them.
        size: u64 = "size",
        /// Those that wait for work.
        idle: u64 = "idle",
        /// Those that work.
        busy: u64 = "busy",
    }
}

metric_kind! {
    /// A worker died.
    pub struct WorkerCrash<'a> = "worker.crash" as error {
        /// Which pool.
        pool: Label<'a> = "pool",
        /// Which worker.
        worker: Label<'a> = "worker",
        /// What it died of.
        reason: Label<'a> = "reason",
    }
}

metric_kind! {
    /// A circuit breaker opened: calls fail at once from now on.
    pub struct CircuitOpened<'a> = "circuit.opened" {
        /// Which pool it guards.
        pool: Label<'a> = "pool",
        /// How many failures opened it.
        failures: u64 = "failures",
    }
}

/// How many tasks wait for a worker, now: a gauge.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "it is recorded with `record`"]
pub struct PoolDepth<'a> {
    depth: u64,
    pool: Option<Label<'a>>,
}

impl<'a> PoolDepth<'a> {
    /// Nobody waits.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// So many wait.
    #[inline(always)]
    pub fn depth(mut self, depth: impl Given<u64>) -> Self {
        self.depth = depth.given().unwrap_or(0);
        self
    }

    /// Which pool.
    #[inline(always)]
    pub fn pool(mut self, pool: impl Given<Label<'a>>) -> Self {
        self.pool = pool.given();
        self
    }

    /// Records it.
    #[inline]
    pub fn record(self) {
        self.record_now();
    }
}

impl Metric for PoolDepth<'_> {
    #[inline]
    fn record_now(&self) {
        static KEYS: [crate::Key; 1] = [crate::Key::new("pool")];
        static SITE: crate::CallSite = crate::CallSite::new("pool.depth", "", "", 0, &KEYS);
        if metric::is_on(&SITE) {
            let fields = [self.pool.map(Recorded::recorded)];
            metric::record_point(&SITE, Kind::GAUGE, Value::U64(self.depth), fields);
        }
    }
}
