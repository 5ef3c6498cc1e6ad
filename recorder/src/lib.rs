//! Records what a hot loop does without slowing it down.
//!
//! Each thread writes fixed-size binary records into a ring of its own; a
//! background thread moves them into a trace file that stays readable even if
//! the process is killed.
//!
//! ```
//! # let path = std::env::temp_dir().join(format!("ringscope-lib-doc-{}.trace", std::process::id()));
//! let recorder = ringscope::Recorder::builder().path(&path).start()?;
//!
//! for batch in 0..10 {
//!     let _span = ringscope::span!("batch", size = batch * 32);
//!     let _span = ringscope::span!("forward");
//!     ringscope::counter!("tokens", 128);
//! }
//!
//! println!("{}", recorder.finish()?);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What happens when
//!
//! - **A ring is full:** the newest event is dropped and counted. The thread never waits.
//! - **Too many long texts of errors come at once:** they stay cut, and that is counted.
//! - **The process is killed:** the file holds everything up to the last tick of
//!   the drain (about a millisecond while recording, 4 ms where fewer than 64 events happen in
//!   one, 100 ms after half a second without any: [`Builder::ticks`]), and which spans every
//!   thread was inside of.
//! - **It panics or crashes:** the rings are flushed first.
//! - **The disk is full:** recording goes on in memory as far as that reaches; what
//!   is lost is counted.
//! - **It forks:** the child records nothing, the parent's file is untouched.
//! - **No recorder runs:** a span costs one relaxed load and a branch. With the
//!   feature `off` it costs nothing.
//!
//! # What it never does on the hot path
//!
//! Allocate, lock, format, make a system call, wait, or store to memory that
//! belongs to a file. The first use of a thread or of a call site is cold; a
//! thread can pay for it early with [`register_thread`]. An error whose texts are longer
//! than an event holds (about 700 bytes) is cold as well: they are copied, up to 64 KiB each,
//! and kept beside it. Recording from inside a signal handler is not supported.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `attribute` | `#[ringscope::instrument]`, a span around a function |
//! | `config` | settings from `ringscope.toml`, beside those of the environment |
//! | `exporters` | [`handlers`]: watching events as they happen |
//! | `statistics` | [`statistics`]: rolling figures in process, and rows of them at an interval |
//! | `tracing` | [`tracing`]: a subscriber and a layer for the spans of `tracing` |
//! | `gpu` | [`gpu`]: what the profilers of GPU kernels share, for a backend of your own |
//! | `wgpu` | [`gpu::wgpu`]: kernels of wgpu, with the device's own times |
//! | `metal` | `gpu::metal`: a profiler of Metal's command queues, on macOS |
//! | `off` | nothing: every macro and call compiles to nothing |

mod config;
mod error;
mod fields;
#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "exporters")]
pub mod handlers;
mod macros;
mod rules;
mod settings;
#[cfg(feature = "statistics")]
pub mod statistics;
mod summary;
pub mod vocabulary;

// The whole recorder, or an empty one with the same front door.
#[cfg(not(feature = "off"))]
mod atomics;
#[cfg(not(feature = "off"))]
mod cold;
#[cfg(any(not(feature = "off"), feature = "exporters"))]
mod file_names;
#[cfg(not(feature = "off"))]
mod hot;
#[cfg(not(feature = "off"))]
mod last_words;
#[cfg(not(feature = "off"))]
mod long_texts;
#[cfg(feature = "off")]
mod off;
#[cfg(not(feature = "off"))]
mod recorder;
#[cfg(not(feature = "off"))]
mod rendezvous;
#[cfg(feature = "tracing")]
pub mod tracing;

#[cfg(not(feature = "off"))]
use hot::metric;
#[cfg(feature = "off")]
use off::metric;

#[cfg(feature = "off")]
pub use off::{
    AsyncSpan, CallSite, DeviceQueue, Name, Recorder, Span, SpanWith, ThreadHandle, register_thread,
};
#[cfg(feature = "off")]
#[doc(hidden)]
pub use off::{Key, NO_VALUE, record_point};
#[cfg(not(feature = "off"))]
pub use {
    hot::async_span::AsyncSpan,
    hot::call_site::CallSite,
    hot::name::Name,
    hot::queues::DeviceQueue,
    hot::ring_pool::{ThreadHandle, register_thread},
    hot::span::{Span, SpanWith},
    recorder::Recorder,
};
#[cfg(not(feature = "off"))]
#[doc(hidden)]
pub use {
    hot::call_site::Key,
    hot::span::{NO_VALUE, record_point},
};

pub use config::Builder;
pub use error::Error;
pub use fields::IntoValue;
pub use metric::gpu_latency;
pub use ringscope_format::{Kind, LostCause, SkipCause, Status, Value};
pub use rules::{Action, Rule, RuleError, Rules};
pub use settings::{Level, init_from_env};
pub use summary::{Problem, Summary};
pub use vocabulary::MetricEvent;

/// For [`metric_kind!`].
#[doc(hidden)]
pub mod __metric {
    pub use crate::metric::{Timed, end_span, is_on, record_point};
}

#[cfg(feature = "attribute")]
pub use ringscope_attribute::instrument;

/// In debug builds, kills the process here if the environment says so: how the
/// tests stop it between any two steps of a hand-over.
#[cfg(not(feature = "off"))]
#[inline]
fn crash_point(step: &str) {
    #[cfg(debug_assertions)]
    last_words::crash_if_asked(step);
    #[cfg(not(debug_assertions))]
    let _ = step;
}
