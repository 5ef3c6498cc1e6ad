//! Metrics that take time.

use crate::{
    Span,
    metric::{Timed, current_request},
};

/// A metric that is recorded when it ends, with the time it took. Made by the
/// method `span` of each kind.
///
/// ```
/// use ringscope::vocabulary::Call;
/// use std::time::Duration;
///
/// let mut call = Call::new().function("generate").span();
/// call.set(|call| call.queue(Duration::from_micros(40)).result("done"));
/// call.fail();
/// ```
#[must_use = "a span lasts until it is dropped; bind it: `let _span = ...`"]
#[derive(Debug)]
pub struct MetricSpan<M: Timed> {
    span: Span,
    metric: M,
    request: u128,
}

impl<M: Timed> MetricSpan<M> {
    /// For [`metric_kind!`](crate::metric_kind!).
    #[doc(hidden)]
    #[inline]
    pub fn begin(metric: M) -> Self {
        let span = Span::enter(M::site());
        let request = if span.is_recording() { current_request() } else { 0 };
        Self { span, metric, request }
    }

    /// Fills in what is known only now.
    #[inline]
    pub fn set(&mut self, change: impl FnOnce(M) -> M)
    where
        M: Copy,
    {
        self.metric = change(self.metric);
    }
}

impl<M: Timed> std::ops::Deref for MetricSpan<M> {
    type Target = Span;
    #[inline]
    fn deref(&self) -> &Span {
        &self.span
    }
}

impl<M: Timed> std::ops::DerefMut for MetricSpan<M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Span {
        &mut self.span
    }
}

impl<M: Timed> Drop for MetricSpan<M> {
    #[inline]
    fn drop(&mut self) {
        if self.span.is_recording() {
            self.metric.end(&mut self.span, self.request);
        }
    }
}
