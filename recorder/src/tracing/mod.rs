//! Records the spans and events of programs that use [`tracing`](https://docs.rs/tracing).
//!
//! [`Subscriber`] is for programs that need nothing else, and costs least;
//! [`MetricsLayer`] works beside other layers. Both record while a
//! [`Recorder`](crate::Recorder) runs, in whatever order the two are started, and leave out what is above
//! [its level](crate::Recorder::level), unless the subscriber has a [filter](Subscriber::with_filter).
//!
//! ```
//! # let path = std::env::temp_dir().join(format!("ringscope-tracing-doc-{}.trace", std::process::id()));
//! let recorder = ringscope::Recorder::builder().path(&path).start()?;
//! ringscope::tracing::Subscriber::new().install()?;
//!
//! let attention = tracing::info_span!("attention", heads = 8);
//! for _token in 0..64 {
//!     let _inside = attention.enter();
//! }
//! tracing::error!(code = 7, "the model is out of ideas");
//!
//! assert_eq!(recorder.finish()?.stored, 65);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is recorded
//!
//! - **Every enter and exit is a slice** of its span, when it happens: a record of the
//!   kind *slice* with the span's name, its number in the link, and its depth on the
//!   thread. A span that is created once and entered for every token has a slice a token; one
//!   that is created, entered, left and closed has one, and nothing more is recorded of it.
//! - **A span that lives longer than its slice** has a record for its whole life too, written
//!   when it is closed: from creation to close, with the time that it was `busy`, the number
//!   of its `slices`, and how many `moves` it made from thread to thread. That is the case if
//!   it was entered more than once or never, if its thread entered another span before it, and if
//!   it was entered or closed by another thread than created it.
//! - That life is a **task** if its slices are pieces of one piece of work, as of a future that
//!   is polled many times; what it was not busy it was idle. It is a **reused span** if they
//!   are calls of their own, as of a span that a model keeps for each of its layers. `tracing` does
//!   not say which. What is entered while a thread is inside of it is reused, since nobody polls
//!   a future twice at once; so is what was entered within a span that is not its parent, unless it
//!   is closed by the very thread that has just left it, as futures are.
//! - **Tasks that wait** while the process dies, and are on no thread's stack, are among its open
//!   spans, as far as a table of 512 has room: those of call sites one of whose tasks has come to
//!   its end before.
//! - **Fields** come with the first slice that ends after they were recorded, and with the
//!   life, which has the last value of each. Numbers of up to 64 bits and truth values keep their
//!   type; everything else is text, cut to what an event can hold. Behind an error (`dyn Error`) come
//!   those that led to it, up to 16. A `Debug` that panics does not take the program down: its text
//!   is what it had written, and a remark.
//! - **Explicit parents** and `follows_from` are links to the number of the other span; a life also
//!   has a link to the span that it was created in.
//! - **Events** are events, with their `level` and fields, and those of the level `ERROR` are
//!   errors, whose texts are kept up to 64 KiB each. One without a name is called after its target and line.
//!
//! [Rules](crate::Rules) apply to the names of spans as to all others: to slices, and to lives
//! apart from them. With `request=1/10`, one in ten slices and one in ten tasks are recorded, not
//! those of the same spans; `slices` and `busy` of such a task are those of all its slices.
//!
//! # Limits
//!
//! - A span that was created before the recorder was started, or in an earlier recording, has slices and no
//!   life. Its fields come with its first slice, so these are formatted and kept also while nothing is recorded.
//!   One that the level of that time left out is not there later either.
//! - Where the start or the end of a recording changes the level, every call site of `tracing` asks its subscribers
//!   again what they take: code of the program, which must not wait for locks that the caller of `start` or `finish`
//!   holds. A call site that another thread comes to for the first time just then may go by the level before.
//! - When a span is created is looked up only where it may matter: not at a call site whose
//!   first 64 spans were told by their slices. If a later one lives longer after all, its
//!   life begins with its first enter and has the field `from_first_enter`; from then on the creation
//!   of all spans of that call site is looked up again. Nobody knows then whether it is of an earlier
//!   recording either: one that was not entered before this recording has such a life in it.
//! - At most four million spans exist at once; what is created beyond that is counted as lost.
//! - Numbers of spans begin again after four billion of them. So do `slices` and `busy` of a span that
//!   is left four billion times, each time with one of `moves` too many.
//! - Of a span that several threads are inside of at once, `busy` and `slices` are too low.
//! - A span has 22 fields and 4 links at most; further fields are counted in `fields_left_out`.
//! - There is no link to a span that was closed before it was named as parent or in `follows_from`:
//!   its number is gone with it.
//! - A [`MetricsLayer`] that is replaced (`tracing_subscriber::reload`) or dropped takes its spans along: they
//!   are left and closed by that, and the layer that follows does not know them. Other threads that
//!   are inside of them stay so, as far as is recorded.
//!
//! Entering and leaving a span, and creating and closing one without fields, neither allocate nor
//! lock nor format. `ringscope-benches tracing` measures what they cost.

#[cfg(not(feature = "off"))]
mod details;
#[cfg(not(feature = "off"))]
mod errors;
#[cfg(not(feature = "off"))]
mod events;
mod filter;
#[cfg(not(feature = "off"))]
mod layer;
#[cfg(not(feature = "off"))]
pub(crate) mod level;
#[cfg(not(feature = "off"))]
mod life;
#[cfg(feature = "off")]
mod off;
#[cfg(not(feature = "off"))]
mod other_ids;
#[cfg(not(feature = "off"))]
mod sites;
#[cfg(not(feature = "off"))]
mod slots;
#[cfg(not(feature = "off"))]
mod spans;
#[cfg(not(feature = "off"))]
mod subscriber;
#[cfg(not(feature = "off"))]
mod thread;

pub use filter::Filter;
#[cfg(feature = "off")]
pub use off::{MetricsLayer, Subscriber};
#[cfg(not(feature = "off"))]
pub(crate) use thread::Thread;
#[cfg(not(feature = "off"))]
pub use {layer::MetricsLayer, subscriber::Subscriber};
