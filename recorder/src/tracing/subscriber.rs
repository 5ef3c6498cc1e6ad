//! The stand-alone subscriber: `tracing` straight into the rings.

use tracing_core::{
    Dispatch, Event, Interest, LevelFilter, Metadata, dispatcher,
    span::{Attributes, Current, Id, Record},
};

use super::{events, filter::Filter, life, sites, slots, spans, thread};
use crate::Error;

/// Records the spans and events of `tracing`, and does nothing else.
///
/// For programs that need no other subscriber: nothing is between `tracing` and the
/// thread's ring. See the [module](super) for what is recorded.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("ringscope-subscriber-{}.trace", std::process::id()));
/// let recorder = ringscope::Recorder::builder().path(&path).start()?;
/// ringscope::tracing::Subscriber::new().with_filter("info,candle_nn=trace").install()?;
/// # recorder.finish()?;
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a subscriber does nothing until it is installed"]
#[derive(Debug)]
pub struct Subscriber {
    filter: Filter,
}

impl Default for Subscriber {
    fn default() -> Self {
        Self::new()
    }
}

impl Subscriber {
    /// A subscriber that takes what the recording that runs is to have
    /// ([`Recorder::level`](crate::Recorder::level)), whichever of them is started first; while none
    /// runs, what `RINGSCOPE_LEVEL` or `ringscope.toml` asks for; everything if nobody says.
    pub fn new() -> Self {
        life::prepare();
        Self { filter: Filter::by_level() }
    }

    /// Takes what the filter lets through, whatever the level of the recording; but if nothing of it
    /// is understood, that decides. What of it was not understood is
    /// in [`Filter::ignored`] and said on standard error.
    pub fn with_filter(mut self, filter: impl Into<Filter>) -> Self {
        self.filter = filter.into();
        for ignored in self.filter.ignored() {
            crate::settings::warn(format!("filter left out {ignored}"));
        }
        self
    }

    /// Makes it the subscriber of the whole process. It stays for good; without a
    /// running recorder events and spans cost next to nothing, but for the fields of spans: these
    /// are formatted and kept, 2 KiB for each span, since a recorder may be started while the
    /// span is open. A [filter](Self::with_filter) keeps out what is not wanted.
    ///
    /// # Errors
    ///
    /// [`Error::SubscriberAlreadySet`] if the process has one already.
    pub fn install(self) -> Result<(), Error> {
        dispatcher::set_global_default(Dispatch::new(self)).map_err(|_| Error::SubscriberAlreadySet)
    }
}

impl tracing_core::Subscriber for Subscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if !self.filter.takes(metadata) {
            return Interest::never();
        }
        sites::of(metadata);
        Interest::always()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.takes(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.max_level())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        Id::from_u64(spans::create(attributes, Id::into_u64))
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        spans::record(span.into_u64(), values);
    }

    fn record_follows_from(&self, span: &Id, follows: &Id) {
        spans::follows_from(span.into_u64(), follows.into_u64());
    }

    fn event(&self, event: &Event<'_>) {
        events::record(event, event.parent().map(Id::into_u64));
    }

    fn enter(&self, span: &Id) {
        spans::enter(span.into_u64());
    }

    fn exit(&self, span: &Id) {
        spans::exit(span.into_u64());
    }

    fn clone_span(&self, span: &Id) -> Id {
        if let Some(slot) = slots::find(span.into_u64()) {
            slot.add_reference();
        }
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        spans::drop_handle(span.into_u64())
    }

    fn current_span(&self) -> Current {
        let innermost = thread::current().and_then(|thread| thread.innermost_slot());
        match innermost.and_then(|(id, slot)| Some((id, slot.site()?))) {
            Some((id, site)) => Current::new(Id::from_u64(id), site.metadata),
            None => Current::none(),
        }
    }
}
