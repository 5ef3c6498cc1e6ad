//! Kernels and other work of devices: `analyze kernels`.
//!
//! A launch is recorded on the thread that makes it, the work itself on the
//! device's own line of time, a [`DeviceQueue`]; the number that
//! [`KernelDispatched::record`] returns ties the two together. Rules are asked at the launch:
//! with `sdpa=1/100`, of each launch that is recorded the work is recorded too, and of no other.

use std::time::Duration;

use ringscope_format::Kind;

use crate::{
    CallSite, DeviceQueue, Key,
    metric::{self, DeviceWork},
    metric_kind,
    vocabulary::{Given, Label, Metric, Recorded},
};

metric_kind! {
    /// A kernel was compiled, or found in a cache.
    pub struct KernelCompiled<'a> = "kernel.compiled" {
        /// Which.
        kernel: Label<'a> = "kernel",
        /// How long it took; a span tells that by itself.
        time: Duration = "time_ns",
        /// Whether it was in a cache.
        hit: bool = "hit",
    }
}

metric_kind! {
    /// A thread waited for a device: a span.
    pub struct DeviceSync<'a> = "device.sync" {
        /// Which device.
        device: Label<'a> = "device",
    }
}

metric_kind! {
    /// How long a command buffer waited for the device.
    pub struct CommandBufferQueued<'a> = "command_buffer.queued" {
        /// Which device.
        device: Label<'a> = "device",
        /// Which buffer.
        buffer: Label<'a> = "buffer",
        /// From commit to the begin of its work.
        queue: Duration = "queue_ns",
        /// The system's own work of scheduling it.
        schedule: Duration = "schedule_ns",
    }
}

metric_kind! {
    /// Work of a device of which no time is known: it failed, its device was lost, it
    /// had not completed when its profiler ended, nobody told of its end, or too much was in
    /// flight to profile it.
    pub struct KernelUntimed<'a> = "kernel.untimed" {
        /// Which device, or queue of one.
        device: Label<'a> = "device",
        /// How many pieces of work.
        count: u64 = "count",
        /// Why.
        reason: Label<'a> = "reason",
    }
}

/// What work without a name of its own is called.
static UNNAMED: CallSite = CallSite::new("kernel", "", "", 0, &[]);
static COPY: CallSite = CallSite::new("copy", "", "", 0, &[]);
static FILL: CallSite = CallSite::new("fill", "", "", 0, &[]);

macro_rules! keys {
    ($($key:literal),+) => {{
        static KEYS: [Key; <[&str]>::len(&[$($key),+])] = [$(Key::new($key)),+];
        static SITE: CallSite = CallSite::new("", "", "", 0, &KEYS);
        &SITE
    }};
}

macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident : $type:ty),+ $(,)?) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $field(mut self, value: impl Given<$type>) -> Self {
            self.$field = value.given();
            self
        }
    )+};
}

#[inline(always)]
fn side(sides: Option<[u32; 3]>, axis: usize) -> Option<ringscope_format::Value<'static>> {
    sides.map(|sides| ringscope_format::Value::U64(u64::from(sides[axis])))
}

/// A kernel was handed to a device.
///
/// ```
/// use ringscope::{CallSite, DeviceQueue, vocabulary::{KernelCompleted, KernelDispatched}};
/// use std::time::Duration;
///
/// let (sdpa, queue) = (CallSite::named("sdpa_f16"), DeviceQueue::named("GPU 0 queue 0"));
/// let link = KernelDispatched::new().kernel(sdpa).op("attention").groups([8, 8, 1]).record();
/// // ... when the device is done, on whichever thread learns of it:
/// KernelCompleted::new().kernel(sdpa).queue(queue).link(link)
///     .duration(Duration::from_micros(40)).source("timestamps").record();
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "it is recorded with `record`"]
pub struct KernelDispatched<'a> {
    kernel: Option<&'static CallSite>,
    op: Option<Label<'a>>,
    device: Option<Label<'a>>,
    groups: Option<[u32; 3]>,
    threads: Option<[u32; 3]>,
    link: u32,
}

impl<'a> KernelDispatched<'a> {
    /// One that says nothing yet.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Which; see [`CallSite::named`].
    #[inline(always)]
    pub fn kernel(mut self, kernel: &'static CallSite) -> Self {
        self.kernel = Some(kernel);
        self
    }

    /// The number of a launch that is known elsewhere, instead of a new one.
    #[inline(always)]
    pub fn link(mut self, link: u32) -> Self {
        self.link = link;
        self
    }

    setters! {
        /// The operation that it is for.
        op: Label<'a>,
        /// Which device.
        device: Label<'a>,
        /// Groups in the grid.
        groups: [u32; 3],
        /// Threads in a group.
        threads: [u32; 3],
    }

    /// Records the launch. Returns its number, for [`KernelCompleted::link`]: `u32::MAX` if a
    /// rule skipped it, which has its work skipped too. Hand on what this returns, not
    /// the number that was given.
    #[inline]
    pub fn record(mut self) -> u32 {
        if self.link == 0 {
            self.link = metric::next_link();
        }
        self.record_linked()
    }

    #[inline]
    fn record_linked(&self) -> u32 {
        let name = self.kernel.unwrap_or(&UNNAMED);
        if !metric::is_on(name) {
            return self.link;
        }
        let keys =
            keys!("op", "device", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z");
        let (groups, threads) = (self.groups, self.threads);
        let fields = [
            self.op.map(Recorded::recorded),
            self.device.map(Recorded::recorded),
            side(groups, 0),
            side(groups, 1),
            side(groups, 2),
            side(threads, 0),
            side(threads, 1),
            side(threads, 2),
        ];
        let (queue, took, ago) = (None, Duration::ZERO, Duration::ZERO);
        let work = DeviceWork { name, kind: Kind::LAUNCH, queue, took, ago, link: self.link };
        metric::record_work(work, keys, fields)
    }
}

impl Metric for KernelDispatched<'_> {
    #[inline]
    fn record_now(&self) {
        self.record_linked();
    }
}

macro_rules! device_work {
    (
        $(#[$about:meta])*
        $kind:ident, $record:expr, $unnamed:expr,
        { $($(#[$doc:meta])* $field:ident = $key:literal : $type:ty),+ $(,)? }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default)]
        #[must_use = "it is recorded with `record`"]
        pub struct $kind<'a> {
            kernel: Option<&'static CallSite>,
            queue: Option<&'static DeviceQueue>,
            duration: Duration,
            ago: Duration,
            link: u32,
            $($field: Option<$type>,)+
        }

        impl<'a> $kind<'a> {
            /// One that says nothing yet.
            #[inline]
            pub fn new() -> Self {
                Self::default()
            }

            /// What it is called; see [`CallSite::named`].
            #[inline(always)]
            pub fn kernel(mut self, kernel: &'static CallSite) -> Self {
                self.kernel = Some(kernel);
                self
            }

            /// Where it ran. Without one it is on a queue called `device`.
            #[inline(always)]
            pub fn queue(mut self, queue: &'static DeviceQueue) -> Self {
                self.queue = Some(queue);
                self
            }

            /// How long it took on the device.
            #[inline(always)]
            pub fn duration(mut self, duration: Duration) -> Self {
                self.duration = duration;
                self
            }

            /// How long ago it ended, if that is known.
            #[inline(always)]
            pub fn ago(mut self, ago: Duration) -> Self {
                self.ago = ago;
                self
            }

            /// The launch that it is the work of: what [`KernelDispatched::record`] returned. It is
            /// recorded if that was; without one, rules are asked for the work itself.
            #[inline(always)]
            pub fn link(mut self, link: u32) -> Self {
                self.link = link;
                self
            }

            setters! { $($(#[$doc])* $field: $type),+ }

            /// Records it.
            #[inline]
            pub fn record(self) {
                self.record_now();
            }
        }

        impl Metric for $kind<'_> {
            #[inline]
            fn record_now(&self) {
                let name = self.kernel.unwrap_or($unnamed);
                if !metric::is_on(name) {
                    return;
                }
                let work = DeviceWork {
                    name,
                    kind: $record,
                    queue: Some(self.queue.unwrap_or_else(any_queue)),
                    took: self.duration,
                    ago: self.ago,
                    link: self.link,
                };
                let fields = [$(self.$field.map(Recorded::recorded)),+];
                metric::record_work(work, keys!($($key),+), fields);
            }
        }
    };
}

device_work! {
    /// A kernel has run. An internal kernel of a larger operation names that as its `parent`.
    KernelCompleted, Kind::KERNEL, &UNNAMED,
    {
        /// The operation that it is for.
        op = "op": Label<'a>,
        /// What ran it: `metal`, `cuda`, `wgpu`.
        backend = "backend": Label<'a>,
        /// How its time was taken: `pass boundary`, `command buffer`, `submit to done`.
        source = "source": Label<'a>,
        /// The operation that it is an internal kernel of.
        parent = "parent": Label<'a>,
        /// Which device.
        device = "device": Label<'a>,
    }
}

device_work! {
    /// Memory was copied: a blit.
    DeviceCopy, Kind::COPY, &COPY,
    {
        /// How much.
        bytes = "bytes": u64,
        /// `h2d`, `d2h` or `d2d`.
        direction = "direction": Label<'a>,
        /// Which device.
        device = "device": Label<'a>,
    }
}

device_work! {
    /// Memory was filled.
    DeviceFill, Kind::FILL, &FILL,
    {
        /// How much.
        bytes = "bytes": u64,
        /// Which device.
        device = "device": Label<'a>,
    }
}

#[cfg(not(feature = "off"))]
#[cold]
fn any_queue() -> &'static DeviceQueue {
    static ANY: std::sync::OnceLock<&'static DeviceQueue> = std::sync::OnceLock::new();
    ANY.get_or_init(|| DeviceQueue::named("device"))
}

#[cfg(feature = "off")]
#[inline]
fn any_queue() -> &'static DeviceQueue {
    DeviceQueue::named("")
}
