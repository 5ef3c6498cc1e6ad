//! The same front door with nothing behind it: no span is ever enabled.

use std::marker::PhantomData;

use tracing_core::{
    Dispatch, Event, Interest, LevelFilter, Metadata, dispatcher,
    span::{Attributes, Current, Id, Record},
};
use tracing_subscriber::Layer;

use super::Filter;
use crate::Error;

/// Records nothing.
#[must_use = "a subscriber does nothing until it is installed"]
#[derive(Debug, Default)]
pub struct Subscriber;

impl Subscriber {
    /// A subscriber that takes nothing.
    pub fn new() -> Self {
        Self
    }

    /// Nothing is taken anyway.
    pub fn with_filter(self, _: impl Into<Filter>) -> Self {
        self
    }

    /// Makes it the subscriber of the whole process.
    ///
    /// # Errors
    ///
    /// [`Error::SubscriberAlreadySet`] if the process has one already.
    pub fn install(self) -> Result<(), Error> {
        dispatcher::set_global_default(Dispatch::new(self)).map_err(|_| Error::SubscriberAlreadySet)
    }
}

impl tracing_core::Subscriber for Subscriber {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::never()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(u64::MAX)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn current_span(&self) -> Current {
        Current::none()
    }
}

/// Records nothing.
#[derive(Debug)]
pub struct MetricsLayer<S> {
    subscriber: PhantomData<fn(S)>,
}

impl<S> MetricsLayer<S> {
    /// A layer that does nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { subscriber: PhantomData }
    }
}

impl<S> Default for MetricsLayer<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: tracing_core::Subscriber> Layer<S> for MetricsLayer<S> {}
