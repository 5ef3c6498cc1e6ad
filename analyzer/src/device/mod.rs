//! Work of devices: kernels, copies and fills, with the calls that launched them.
//!
//! Unlike spans these are held in memory, with their launches: a sweep over a
//! device's queues wants them in order, and there are far fewer of them. Counting
//! what is made from them that is up to 200 bytes each. Chunks that hold neither are
//! read for the kinds of their records only, and a trace without a track that could
//! be a queue is not read.
//!
//! - [`load`] finds the records and joins launches to them.
//! - [`timeline`] tells busy from idle, and why.
//! - [`categories`] says what a kernel does, by its name.
//! - [`names`] takes a name apart.
//! - [`groups`] sums up.
//! - [`timing`] says how times were taken, and what has none.

pub mod categories;
pub mod groups;
mod loading;
pub mod names;
pub mod timeline;
pub mod timing;

use ringscope_format::Kind;

#[cfg(feature = "sql")]
pub(crate) use self::loading::launch_of;
pub use self::loading::load;
pub(crate) use self::loading::{UNNAMED_DEVICE, device_in, is_read};

/// What devices do, wherever it is recorded.
pub fn is_device_work(kind: Kind) -> bool {
    matches!(kind, Kind::KERNEL | Kind::COPY | Kind::FILL)
}

/// One piece of work of a device. Times are ticks of its trace.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// When it started.
    pub start: u64,
    /// How long it took; 0 if the counter ran backwards.
    pub duration: u64,
    /// When it was submitted, else when the call that launched it started, if that is known.
    pub launch: Option<u64>,
    /// Bytes moved or set, if that is known.
    pub bytes: Option<u64>,
    /// Index into [`DeviceWork::queues`].
    pub queue: u32,
    /// Index into [`Traces::names`](crate::load::Traces::names).
    pub name: u32,
    /// Index into [`DeviceWork::shapes`].
    pub shape: u32,
    /// Kernel, copy or fill.
    pub kind: Kind,
}

impl Work {
    /// When it ended.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// From its submission, or the start of its launch, to its own start. Negative if the clocks of host and
    /// device disagree.
    pub fn queue_delay(&self) -> Option<i64> {
        self.launch.map(|launch| self.start.wrapping_sub(launch) as i64)
    }
}

/// A queue of a device in one trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Queue {
    /// Which trace.
    pub trace: usize,
    /// The device: what a field `device` says, else what the queue's name says.
    pub device: String,
    /// What the queue is called.
    pub name: String,
    /// Its track.
    pub track: u32,
}

/// How a kernel was launched: threads in a block, blocks in the grid. Empty where
/// nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// `17888x1x1`.
    pub grid: String,
    /// `128x1x1`.
    pub block: String,
}

/// All work of devices that is in.
#[derive(Debug, Default)]
pub struct DeviceWork {
    /// In order of trace, queue and start.
    pub work: Vec<Work>,
    /// By trace, device and name.
    pub queues: Vec<Queue>,
    /// The distinct ones.
    pub shapes: Vec<Shape>,
    /// How its times were taken, what took longest first.
    pub timed: Vec<timing::Timed>,
    /// Durations that were negative and count as 0.
    pub backwards: u64,
}
