//! The same front door with nothing behind it.
//!
//! Every type is empty and every function does nothing, so that the optimiser
//! leaves no trace of a span. `tests/off` compares the machine code.

pub(crate) mod metric;

use std::{
    marker::PhantomData,
    path::{Path, PathBuf},
};

use ringscope_format::{Kind, Value};

use crate::{Builder, Error, Level, Rules, Summary, config::Config};

/// Does nothing.
#[must_use = "a span lasts until it is dropped; bind it: `let _span = span!(...)`"]
#[derive(Debug)]
pub struct Span {
    not_send: PhantomData<*const ()>,
}

impl Span {
    #[doc(hidden)]
    #[inline(always)]
    pub fn enter(_: &'static CallSite) -> Self {
        Self { not_send: PhantomData }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn enter_in(_: &ThreadHandle, _: &'static CallSite) -> Self {
        Self { not_send: PhantomData }
    }

    /// Does nothing.
    #[inline(always)]
    pub fn fail(&mut self) {}

    /// Does nothing.
    #[inline(always)]
    pub fn succeed(&mut self) {}

    /// Does nothing.
    #[inline(always)]
    pub fn cancel(&mut self) {}

    /// No.
    #[inline(always)]
    pub fn is_recording(&self) -> bool {
        false
    }
}

/// Does nothing.
#[must_use = "a span lasts until it is dropped; bind it: `let _span = span!(...)`"]
#[derive(Debug)]
pub struct SpanWith<'a, const N: usize> {
    span: Span,
    values: PhantomData<[Value<'a>; N]>,
}

impl<'a, const N: usize> SpanWith<'a, N> {
    #[doc(hidden)]
    #[inline(always)]
    pub fn enter(site: &'static CallSite, _: [Value<'a>; N]) -> Self {
        Self { span: Span::enter(site), values: PhantomData }
    }

    #[doc(hidden)]
    #[inline(always)]
    pub fn enter_in(_: &ThreadHandle, site: &'static CallSite, values: [Value<'a>; N]) -> Self {
        Self::enter(site, values)
    }
}

impl<const N: usize> std::ops::Deref for SpanWith<'_, N> {
    type Target = Span;
    fn deref(&self) -> &Span {
        &self.span
    }
}

impl<const N: usize> std::ops::DerefMut for SpanWith<'_, N> {
    fn deref_mut(&mut self) -> &mut Span {
        &mut self.span
    }
}

/// Does nothing.
#[must_use = "a span lasts until it is dropped or ended"]
#[derive(Debug)]
pub struct AsyncSpan<const N: usize = 0>;

impl<const N: usize> AsyncSpan<N> {
    #[doc(hidden)]
    #[inline(always)]
    pub fn begin(_: &'static CallSite, _: [Value<'static>; N]) -> Self {
        Self
    }

    /// Does nothing.
    #[inline(always)]
    pub fn end(self) {}

    /// 0: it is not recorded.
    #[inline(always)]
    pub fn id(&self) -> u64 {
        0
    }

    /// Does nothing.
    #[inline(always)]
    pub fn fail(&mut self) {}

    /// Does nothing.
    #[inline(always)]
    pub fn succeed(&mut self) {}
}

#[doc(hidden)]
#[inline(always)]
pub fn record_point<const N: usize>(
    _: &'static CallSite,
    _: Kind,
    _: Value<'_>,
    _: [Value<'_>; N],
) {
}

#[doc(hidden)]
pub const NO_VALUE: Value<'static> = Value::Text("");

/// A key that is never interned.
#[doc(hidden)]
#[derive(Debug)]
pub struct Key;

impl Key {
    /// For the macros.
    pub const fn new(_: &'static str) -> Self {
        Self
    }
}

/// A place that records nothing.
#[derive(Debug)]
pub struct CallSite;

impl CallSite {
    #[doc(hidden)]
    pub const fn new(
        _: &'static str,
        _: &'static str,
        _: &'static str,
        _: u32,
        _: &'static [Key],
    ) -> Self {
        Self
    }

    /// A place that records nothing.
    #[inline(always)]
    pub fn named(_: &str) -> &'static CallSite {
        &CallSite
    }

    /// Nothing is kept, not even the name.
    pub fn name(&self) -> &'static str {
        ""
    }
}

/// Does nothing.
#[derive(Clone, Copy, Debug)]
pub struct ThreadHandle {
    not_send: PhantomData<*const ()>,
}

impl ThreadHandle {
    /// A handle that does nothing.
    #[inline(always)]
    pub fn current() -> Self {
        Self { not_send: PhantomData }
    }
}

/// Does nothing; there is no ring.
#[inline(always)]
pub fn register_thread() -> bool {
    false
}

/// A recorder that records nothing and writes no file.
#[must_use = "a recording ends when its recorder is dropped"]
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
}

impl Recorder {
    /// Sets up a recording that will not take place.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn start(config: Config) -> Result<Self, Error> {
        Ok(Self { path: config.path })
    }

    /// Reports that nothing was recorded.
    ///
    /// # Errors
    ///
    /// None.
    pub fn finish(self) -> Result<Summary, Error> {
        Ok(Summary { path: self.path, ..Summary::default() })
    }

    /// There is nothing to flush.
    #[inline(always)]
    pub fn flush(&self) -> bool {
        true
    }

    /// Does nothing.
    #[inline(always)]
    pub fn set_rules(&self, _: Rules) {}

    /// There is nothing to dump.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn dump(&self) -> Result<PathBuf, Error> {
        Err(Error::NotAFlightRecorder)
    }

    /// Drops the exporter: there is nothing to see.
    #[cfg(feature = "exporters")]
    pub fn attach(
        &self,
        exporter: impl crate::handlers::MetricExporter,
        _: crate::handlers::ExportFilter,
    ) -> crate::handlers::ExporterId {
        drop(exporter);
        crate::handlers::ExporterId(0)
    }

    /// None is attached.
    #[cfg(feature = "exporters")]
    pub fn detach(&self, _: crate::handlers::ExporterId) -> Option<crate::handlers::ExportReport> {
        None
    }

    /// None is attached.
    #[cfg(feature = "exporters")]
    pub fn export_report(
        &self,
        _: crate::handlers::ExporterId,
    ) -> Option<crate::handlers::ExportReport> {
        None
    }

    /// Where the trace would be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// None: nothing is recorded.
    pub fn level(&self) -> Level {
        Level::Off
    }
}

/// A name that is never interned.
#[derive(Debug)]
pub struct Name;

impl Name {
    /// A name that is not kept.
    pub const fn new(_: &'static str) -> Self {
        Self
    }

    /// A name that is not kept.
    #[inline(always)]
    pub fn of(_: &str) -> &'static Name {
        &Name
    }

    /// Nothing is kept.
    pub fn text(&self) -> &'static str {
        ""
    }

    #[inline(always)]
    pub(crate) fn value(&'static self) -> Value<'static> {
        NO_VALUE
    }
}

/// A line of time on which nothing is shown.
#[derive(Debug)]
pub struct DeviceQueue;

impl DeviceQueue {
    /// A queue that is not kept.
    #[inline(always)]
    pub fn named(_: &str) -> &'static DeviceQueue {
        &DeviceQueue
    }

    /// Nothing is kept, not even the name.
    pub fn name(&self) -> &str {
        ""
    }
}
