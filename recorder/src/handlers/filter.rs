//! What an exporter wants to see.

use std::time::Duration;

use ringscope_format::{Kind, Status};

use crate::rules::matches;

/// Which events an exporter is given. All conditions have to hold.
///
/// ```
/// use ringscope::handlers::ExportFilter;
/// use std::time::Duration;
///
/// let slow_io = ExportFilter::all().names("io.*").at_least(Duration::from_millis(10));
/// let errors = ExportFilter::all().only_errors();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ExportFilter {
    names: Vec<String>,
    kinds: Vec<Kind>,
    at_least: Option<Duration>,
    only_errors: bool,
    readings: bool,
}

impl ExportFilter {
    /// Everything but the recorder's own readings.
    pub fn all() -> Self {
        Self::default()
    }

    /// Names that match a pattern (`*` any characters, `?` one). Several calls
    /// add patterns of which one has to match.
    pub fn names(mut self, pattern: impl Into<String>) -> Self {
        self.names.push(pattern.into());
        self
    }

    /// Events of this kind. Several calls add kinds.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Only what took at least this long.
    pub fn at_least(mut self, duration: Duration) -> Self {
        self.at_least = Some(duration);
        self
    }

    /// Only errors, and spans that failed.
    pub fn only_errors(mut self) -> Self {
        self.only_errors = true;
        self
    }

    /// Also the recorder's readings of the process and of itself.
    pub fn with_readings(mut self) -> Self {
        self.readings = true;
        self
    }

    /// What can be told before an event is decoded.
    #[cfg_attr(feature = "off", allow(dead_code))]
    pub(crate) fn takes(
        &self,
        kind: Kind,
        status: Status,
        duration: Option<Duration>,
        is_reading: bool,
    ) -> bool {
        let error = kind == Kind::ERROR || status == Status::ERROR;
        (!is_reading || self.readings)
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (!self.only_errors || error)
            && self.at_least.is_none_or(|least| duration.is_some_and(|it| it >= least))
    }

    #[cfg_attr(feature = "off", allow(dead_code))]
    pub(crate) fn takes_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|pattern| matches(pattern, name))
    }
}
