//! The layer: beside other layers, on a subscriber that keeps the spans.

use std::{fmt, marker::PhantomData};

use tracing_core::{
    Event, Interest, Metadata, Subscriber,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::layer::{Context, Layer};

use super::{events, level, life, other_ids::OtherIds, sites, spans};

/// Records the spans and events of `tracing` beside what other layers do with them.
///
/// Composes with every filter of `tracing-subscriber`, `EnvFilter` among them, for
/// all layers or for this one alone; and of what these let through it takes no more than
/// the [level](Self::new) of the recording. See the [module](super) for what is recorded.
/// Each layer keeps 128 KiB to find its spans.
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// let subscriber = tracing_subscriber::registry()
///     .with(ringscope::tracing::MetricsLayer::new())
///     .with(tracing_subscriber::EnvFilter::new("info,app[request]=trace"));
/// # let _ = subscriber;
/// ```
pub struct MetricsLayer<S> {
    /// Of those that it took: what was above the level is not there, and other layers have it.
    ids: OtherIds,
    subscriber: PhantomData<fn(S)>,
}

impl<S> MetricsLayer<S> {
    /// A layer that takes what the recording that runs is to have
    /// ([`Recorder::level`](crate::Recorder::level)), whichever of them is started first; while none
    /// runs, what `RINGSCOPE_LEVEL` or `ringscope.toml` asks for; everything if nobody says.
    ///
    /// Other layers get what this one leaves out.
    #[must_use]
    pub fn new() -> Self {
        life::prepare();
        level::prepare();
        Self { ids: OtherIds::new(), subscriber: PhantomData }
    }
}

impl<S> Default for MetricsLayer<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Drop for MetricsLayer<S> {
    /// Closes the spans it knows: when they are left and closed, nobody will tell it.
    fn drop(&mut self) {
        spans::leave_for_good(self.ids.all());
        self.ids.all().for_each(|own| _ = spans::drop_handle(own));
    }
}

impl<S> fmt::Debug for MetricsLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsLayer").finish_non_exhaustive()
    }
}

impl<S: Subscriber> Layer<S> for MetricsLayer<S> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if level::takes(metadata) {
            sites::of(metadata);
        }
        Interest::always()
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if !level::takes(attributes.metadata()) {
            return;
        }
        let find = |parent: &Id| self.ids.find(parent.into_u64()).unwrap_or(0);
        let own = spans::create(attributes, find);
        if own != spans::NOTHING {
            self.ids.put(id.into_u64(), own);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some(own) = self.ids.find(id.into_u64()) {
            spans::record(own, values);
        }
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        let find = |id: &Id| self.ids.find(id.into_u64());
        if let (Some(own), Some(earlier)) = (find(id), find(follows)) {
            spans::follows_from(own, earlier);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !level::takes(event.metadata()) {
            return;
        }
        events::record(event, event.parent().and_then(|parent| self.ids.find(parent.into_u64())));
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        if let Some(own) = self.ids.find(id.into_u64()) {
            spans::enter(own);
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        if let Some(own) = self.ids.find(id.into_u64()) {
            spans::exit(own);
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        if let Some(own) = self.ids.take(id.into_u64()) {
            spans::drop_handle(own);
        }
    }

    fn on_id_change(&self, old: &Id, new: &Id, _: Context<'_, S>) {
        if let Some(own) = self.ids.take(old.into_u64()) {
            self.ids.put(new.into_u64(), own);
        }
    }
}
