//! An event as exporters see it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use ringscope_format::{Kind, Status};

use crate::vocabulary::CorrelationId;

/// Something that happened, with where and in the midst of what.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// Its name.
    pub name: &'static str,
    /// A span, an event, an error, a counter, a kernel, ...
    pub kind: Kind,
    /// How it ended.
    pub status: Status,
    /// The thread or queue it was recorded on. Of what wanders between threads, an asynchronous
    /// span or the life of a span of `tracing`, that is the one that it ended on, while
    /// `analyze` has it on the one that it began on: see [`began_on`](Self::began_on).
    pub track: Arc<str>,
    /// The number of that thread or queue in the trace, which tells those of one name apart.
    pub track_id: u32,
    /// The thread that it began on, if that is another than it ended on and still known.
    pub began_on: Option<Began>,
    /// When it began.
    pub at: SystemTime,
    /// How long it took; `None` for what has no duration.
    pub duration: Option<Duration>,
    /// The number of a counter or a gauge.
    pub value: Option<Field>,
    /// Names of the spans around it, the outermost first. They may not have ended yet.
    pub path: Vec<&'static str>,
    /// Keys and values.
    pub fields: Vec<(&'static str, Field)>,
    /// The request it was done for, of what says so itself: events of the vocabulary, and the
    /// scope that tells of a request when that is left ([`Kind::SCOPE`]). For whom the spans and
    /// events in a scope were is only known once it has ended, which is after they came here: theirs
    /// is `None`. Whoever needs it keeps what came from a `track` until the scope comes that it
    /// began in; `analyze` does.
    pub request: Option<CorrelationId>,
}

/// Where something began that ended on another thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Began {
    /// The thread's name.
    pub track: Arc<str>,
    /// Its number in the trace.
    pub track_id: u32,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Field {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A floating-point number.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// A name that was interned.
    Name(&'static str),
    /// A duration.
    Time(Duration),
    /// A text. One that was longer than an event holds ends in `…`; those of errors are longer.
    Text(String),
}

impl Event {
    /// A field by its key.
    pub fn field(&self, key: &str) -> Option<&Field> {
        self.fields.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Whether it is an error or a span that failed.
    pub fn is_error(&self) -> bool {
        self.kind == Kind::ERROR || self.status == Status::ERROR
    }
}

impl Field {
    /// The text of a text or a name.
    pub fn text(&self) -> Option<&str> {
        match self {
            Field::Name(text) => Some(text),
            Field::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of a number, nanoseconds of a duration.
    pub fn number(&self) -> Option<f64> {
        match self {
            Field::U64(n) => Some(*n as f64),
            Field::I64(n) => Some(*n as f64),
            Field::F64(n) => Some(*n),
            Field::Time(time) => Some(time.as_nanos() as f64),
            Field::Bool(_) | Field::Name(_) | Field::Text(_) => None,
        }
    }
}

/// As people read it.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::U64(n) => write!(f, "{n}"),
            Field::I64(n) => write!(f, "{n}"),
            Field::F64(n) => write!(f, "{n}"),
            Field::Bool(is) => write!(f, "{is}"),
            Field::Name(text) => f.write_str(text),
            Field::Time(time) => write!(f, "{time:.2?}"),
            Field::Text(text) => f.write_str(text),
        }
    }
}
