//! Exporters: watching events as they happen, off the hot path.
//!
//! The drain hands what it has just written to the file to a bounded queue of
//! each exporter; a thread of the exporter's own puts names, fields and the path
//! of enclosing spans to it and calls [`MetricExporter::export`]. So an exporter
//! that is slow loses its own events, counted; one that panics, fails or blocks is
//! dropped with a note in [`Summary::problems`](crate::Summary::problems), and is given no further
//! event; and none of them can harm the recording or each other.
//!
//! ```
//! use ringscope::{Recorder, handlers::{ChannelExporter, ExportFilter}};
//!
//! # let path = std::env::temp_dir().join(format!("ringscope-handlers-doc-{}.trace", std::process::id()));
//! let recorder = Recorder::builder().path(&path).start()?;
//! let (exporter, events) = ChannelExporter::new(1_024);
//! let id = recorder.attach(exporter, ExportFilter::all().names("for*"));
//! {
//!     let _span = ringscope::span!("forward", token = 7);
//!     ringscope::event!("forgotten");
//! }
//! let report = recorder.detach(id).expect("it was attached");
//! assert_eq!((report.exported, report.lost), (2, 0));
//! let forgotten = events.recv()?;
//! assert_eq!((forgotten.name, forgotten.path.as_slice()), ("forgotten", &["forward"][..]));
//! # recorder.finish()?;
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! An event is seen one tick of the drain after it happened (about a millisecond),
//! a span when it ends, and on the thread that it ended on: one that wanders between threads says
//! beside that where it began, where `analyze` has it. Paths know the outermost 64 spans of a thread.
//! What an exporter itself records is not exported.

#[cfg(not(feature = "off"))]
mod attached;
mod channel;
mod console;
#[cfg(not(feature = "off"))]
mod decoding;
mod event;
#[cfg(not(feature = "off"))]
mod feeding;
mod filter;
mod jsonl;
#[cfg(not(feature = "off"))]
mod paths;
#[cfg(not(feature = "off"))]
mod recorder;
#[cfg(not(feature = "off"))]
mod repro;

pub use channel::ChannelExporter;
pub use console::ConsoleExporter;
pub use event::{Began, Event, Field};
pub use filter::ExportFilter;
pub use jsonl::JsonlExporter;

#[cfg(all(feature = "statistics", not(feature = "off")))]
pub(crate) use attached::Attached;
#[cfg(not(feature = "off"))]
pub(crate) use {
    attached::Handlers,
    feeding::{Batch, Feed},
};

/// What an exporter returns if it cannot go on.
pub type ExportError = Box<dyn std::error::Error + Send + Sync>;

/// What an exporter returns that has no room for one event and goes on with the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed;

impl std::fmt::Display for Missed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("had no room for an event")
    }
}

impl std::error::Error for Missed {}

/// Something that watches events. Implement it for your own.
///
/// It is called on a thread of its own, one event after the other.
///
/// ```
/// use ringscope::handlers::{Event, ExportError, MetricExporter};
///
/// struct Longest(std::time::Duration);
///
/// impl MetricExporter for Longest {
///     fn export(&mut self, event: &Event) -> Result<(), ExportError> {
///         self.0 = self.0.max(event.duration.unwrap_or_default());
///         Ok(())
///     }
/// }
/// ```
pub trait MetricExporter: Send + 'static {
    /// Takes one event.
    ///
    /// # Errors
    ///
    /// [`Missed`] if it has no room for this one, which is lost then, counted. Any other if it
    /// cannot go on: it is dropped, and the recording's summary says why.
    fn export(&mut self, event: &Event) -> Result<(), ExportError>;

    /// Writes what it holds back. Called when there has been nothing for a
    /// moment, and at least once a second.
    ///
    /// # Errors
    ///
    /// If it cannot go on.
    fn flush(&mut self) -> Result<(), ExportError> {
        Ok(())
    }

    /// Called once, when it has seen everything. Flushes, if nothing else is said.
    ///
    /// # Errors
    ///
    /// If it could not write everything.
    fn end(&mut self) -> Result<(), ExportError> {
        self.flush()
    }

    /// What notes about it call it.
    fn name(&self) -> String {
        std::any::type_name::<Self>().rsplit("::").next().unwrap_or_default().to_owned()
    }
}

/// Which exporter, for [`Recorder::detach`](crate::Recorder::detach).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExporterId(pub(crate) u64);

/// How exporting went. Once it has ended, `exported + filtered + lost` is everything that it
/// was fed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// Events that it took: `export` came back from them.
    pub exported: u64,
    /// Events that its filter left out.
    pub filtered: u64,
    /// Events that it was too slow for, or had no room for; and if it was dropped, the one it was
    /// at and those that waited for it, whatever its filter would have said.
    pub lost: u64,
    /// Why it was dropped, if it was.
    pub dropped: Option<String>,
}
