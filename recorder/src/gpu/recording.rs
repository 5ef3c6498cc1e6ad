//! What becomes of a scope: a launch on the caller's thread, and later the work itself on the
//! line of time of its device's queue, tied together by a number.

use ringscope_format::{Kind, Value};

use super::{host_clock::host_ticks, sample::Interval, source::TimingSource};
use crate::{
    CallSite, DeviceQueue, Key, Name,
    metric::{self, AdmittedWork},
};

/// What a kernel is called: a text, or a [`CallSite`] that was made of it before, which
/// saves looking it up.
#[derive(Clone, Copy, Debug)]
pub struct KernelName(&'static CallSite);

impl KernelName {
    /// The site that it is recorded under.
    pub fn site(self) -> &'static CallSite {
        self.0
    }
}

impl From<&'static CallSite> for KernelName {
    #[inline]
    fn from(site: &'static CallSite) -> Self {
        Self(site)
    }
}

impl From<&str> for KernelName {
    #[inline]
    fn from(name: &str) -> Self {
        Self(CallSite::named(name))
    }
}

impl From<&String> for KernelName {
    #[inline]
    fn from(name: &String) -> Self {
        Self(CallSite::named(name))
    }
}

/// What kind of work a scope is around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Work {
    /// A kernel: a compute or render pass, a dispatch.
    Kernel,
    /// A copy of so many bytes, if that is known.
    Copy {
        /// How much.
        bytes: Option<u64>,
        /// From where to where.
        direction: Option<Direction>,
    },
    /// Memory that is set, so many bytes if that is known.
    Fill {
        /// How much.
        bytes: Option<u64>,
    },
}

/// From where to where memory is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the device.
    HostToDevice,
    /// From the device to the host.
    DeviceToHost,
    /// Within the device.
    DeviceToDevice,
}

impl Direction {
    fn label(self) -> &'static Name {
        static NAMES: [Name; 3] = [Name::new("h2d"), Name::new("d2h"), Name::new("d2d")];
        &NAMES[self as usize]
    }
}

impl Work {
    /// A copy about which nothing else is known.
    pub const COPY: Self = Self::Copy { bytes: None, direction: None };

    fn kind(self) -> Kind {
        match self {
            Self::Kernel => Kind::KERNEL,
            Self::Copy { .. } => Kind::COPY,
            Self::Fill { .. } => Kind::FILL,
        }
    }
}

/// A launch that is under way: encoding a kernel, on the thread that does so.
#[derive(Debug)]
pub struct Launch {
    site: &'static CallSite,
    /// Of its name; what is not recorded has none.
    name: Option<u32>,
    link: u32,
    /// That it is made for; 0 if none.
    request: u128,
    start: u64,
    groups: Option<[u32; 3]>,
}

/// What is left of a launch for its work to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct Launched {
    site: &'static CallSite,
    name: u32,
    link: u32,
    request: u128,
}

impl Launch {
    /// Begins it. Whether a rule lets it be recorded is decided here, for the work too, and both
    /// are for the request that the calling thread works for now.
    pub fn begin(name: KernelName) -> Self {
        let site = name.site();
        let name = if metric::is_on(site) { metric::admit(site) } else { None };
        let link = if name.is_some() { metric::next_link() } else { 0 };
        let request = metric::current_request();
        Self { site, name, link, request, start: host_ticks(), groups: None }
    }

    /// Whether anything comes of it: if not, nothing need be sampled.
    pub fn is_recorded(&self) -> bool {
        self.name.is_some()
    }

    /// Groups in its grid.
    pub fn set_groups(&mut self, groups: [u32; 3]) {
        self.groups = Some(groups);
    }

    /// Records it, on the calling thread. `None` if nothing is recorded.
    pub fn end(self) -> Option<Launched> {
        static KEYS: [Key; 3] = [Key::new("grid_x"), Key::new("grid_y"), Key::new("grid_z")];
        static SITE: CallSite = CallSite::new("", "", "", 0, &KEYS);
        let Self { site, name, link, request, start, groups } = self;
        let name = name?;
        let took = host_ticks().saturating_sub(start);
        let (kind, queue) = (Kind::LAUNCH, None);
        let launch = AdmittedWork { site, name, kind, queue, start, took, link, request };
        let side = |axis: usize| groups.map(|groups| Value::U64(u64::from(groups[axis])));
        metric::record_admitted(launch, &SITE, [side(0), side(1), side(2)]);
        Some(Launched { site, name, link, request })
    }
}

impl Launched {
    /// What the kernel is called.
    pub fn name(&self) -> &'static str {
        self.site.name()
    }

    /// The same launch in place of several, under a name that says so. Rules were asked for each
    /// of them and are not for all together. It is for a request if all are for the same.
    pub(crate) fn with_others(self, others: &[Self]) -> Self {
        if others.is_empty() {
            return self;
        }
        let is_for_one = others.iter().all(|other| other.request == self.request);
        let request = if is_for_one { self.request } else { 0 };
        let site = CallSite::named(&format!("{} + {} more", self.name(), others.len()));
        match metric::name_of(site) {
            Some(name) => Self { site, name, request, ..self },
            None => Self { request, ..self },
        }
    }

    /// Records the work, on the calling thread's ring. Returns false if the recording has ended.
    pub fn record(
        &self,
        work: Work,
        queue: &'static DeviceQueue,
        backend: &'static Name,
        interval: Interval,
        submitted: u64,
        source: TimingSource,
    ) -> bool {
        static KEYS: [Key; 6] = [
            Key::new("source"),
            Key::new("backend"),
            Key::new("queue"),
            Key::new("uncertainty"),
            Key::new("bytes"),
            Key::new("direction"),
        ];
        static SITE: CallSite = CallSite::new("", "", "", 0, &KEYS);
        let (bytes, direction) = match work {
            Work::Kernel => (None, None),
            Work::Copy { bytes, direction } => (bytes, direction),
            Work::Fill { bytes } => (bytes, None),
        };
        let done = AdmittedWork {
            site: self.site,
            name: self.name,
            kind: work.kind(),
            queue: Some(queue),
            start: interval.start,
            took: interval.end.saturating_sub(interval.start),
            link: self.link,
            request: self.request,
        };
        let fields = [
            Some(source.label().value()),
            Some(backend.value()),
            Some(Value::Ticks(interval.start.saturating_sub(submitted))),
            Some(Value::Ticks(interval.error)),
            bytes.map(Value::U64),
            direction.map(|direction| direction.label().value()),
        ];
        metric::record_admitted(done, &SITE, fields)
    }
}
