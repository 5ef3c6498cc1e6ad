//! How a kind of event is made from its name, its keys and their types.

use std::time::Duration;

use ringscope_format::Value;

use crate::vocabulary::Label;

/// Something that can be recorded. Made with [`metric_kind!`](crate::metric_kind!).
pub trait Metric {
    /// Records it as something that happened now.
    fn record_now(&self);
}

/// What may be given for a field of type `T`: integers of any size for a
/// `u64`, where negative ones count as 0; text, names and numbers for a [`Label`]; and an
/// `Option` of anything but that, where `None` leaves the field out.
pub trait Given<T> {
    /// The field's value.
    fn given(self) -> Option<T>;
}

macro_rules! given {
    ($to:ty: $($from:ty),+ => $convert:expr) => {$(
        impl Given<$to> for $from {
            #[inline(always)]
            fn given(self) -> Option<$to> {
                let convert: fn($from) -> $to = $convert;
                Some(convert(self))
            }
        }
    )+};
}

given!(u64: u64 => |n| n);
given!(u64: u8, u16, u32, usize => |n| n as u64);
given!(u64: i8, i16, i32, i64, isize => |n| n.max(0) as u64);
given!(i64: i64 => |n| n);
given!(i64: i8, i16, i32, isize, u8, u16, u32 => |n| n as i64);
given!(f64: f64 => |n| n);
given!(f64: f32, i32, u32 => |n| f64::from(n));
given!(bool: bool => |is| is);
given!(Duration: Duration => |time| time);
given!([u32; 3]: [u32; 3] => |sides| sides);

impl<'a, T: Into<Label<'a>>> Given<Label<'a>> for T {
    #[inline(always)]
    fn given(self) -> Option<Label<'a>> {
        Some(self.into())
    }
}

macro_rules! given_if_any {
    ($($to:ty),+) => {$(
        impl<T: Given<$to>> Given<$to> for Option<T> {
            #[inline(always)]
            fn given(self) -> Option<$to> {
                self.and_then(Given::given)
            }
        }
    )+};
}

given_if_any!(u64, i64, f64, bool, Duration);

/// The types that a field can have, as they are recorded.
pub trait Recorded<'a> {
    /// The value in the record. Call it only while recording: it may give a name its number.
    fn recorded(self) -> Value<'a>;
}

macro_rules! recorded {
    ($($type:ty => $convert:expr),+ $(,)?) => {$(
        impl<'a> Recorded<'a> for $type {
            #[inline(always)]
            fn recorded(self) -> Value<'a> {
                let convert: fn($type) -> Value<'a> = $convert;
                convert(self)
            }
        }
    )+};
}

recorded! {
    u64 => Value::U64,
    i64 => Value::I64,
    f64 => Value::F64,
    bool => Value::Bool,
    Duration => |time| Value::U64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
}

impl<'a> Recorded<'a> for Label<'a> {
    #[inline(always)]
    fn recorded(self) -> Value<'a> {
        self.value()
    }
}

/// Makes a kind of event: a struct whose fields are typed, all optional, and
/// recorded under the keys given.
///
/// Types are `u64`, `i64`, `f64`, `bool`, `Duration` (recorded in nanoseconds; end its key in
/// `_ns`) and [`Label`](crate::vocabulary::Label) for texts and names.
///
/// ```
/// use std::time::Duration;
/// use ringscope::{metric_kind, record_metric, vocabulary::Label};
///
/// metric_kind! {
///     /// A shard was moved to another host.
///     pub struct ShardMoved<'a> = "shard.moved" {
///         /// Where to.
///         host: Label<'a> = "host",
///         /// How much of it.
///         bytes: u64 = "bytes",
///         /// How long it had to wait.
///         waited: Duration = "waited_ns",
///     }
/// }
///
/// ShardMoved::new().host("b7").bytes(1 << 20).waited(Duration::from_millis(3)).record();
/// let mut moving = ShardMoved::new().host("b8").span(); // or with the time it takes
/// moving.set(|shard| shard.bytes(4_096));
/// ```
#[macro_export]
macro_rules! metric_kind {
    (
        $(#[$about:meta])*
        $vis:vis struct $kind:ident<$a:lifetime> = $name:literal $(as $record:ident)? {
            $($(#[$doc:meta])* $field:ident : $type:ty = $key:literal),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default)]
        #[must_use = "it is recorded with `record`, or by `span` when that ends"]
        $vis struct $kind<$a> {
            $($field: ::core::option::Option<$type>,)+
            lifetime: ::core::marker::PhantomData<&$a ()>,
        }

        impl<$a> $kind<$a> {
            /// One that says nothing yet.
            #[inline]
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[$doc])*
                #[inline(always)]
                pub fn $field(mut self, value: impl $crate::vocabulary::Given<$type>) -> Self {
                    self.$field = $crate::vocabulary::Given::given(value);
                    self
                }
            )+

            /// Records it as something that happened now.
            #[inline]
            pub fn record(self) {
                $crate::vocabulary::Metric::record_now(&self);
            }

            /// Begins a span that records it when it is dropped, with the time it took.
            #[inline]
            pub fn span(self) -> $crate::vocabulary::MetricSpan<Self> {
                $crate::vocabulary::MetricSpan::begin(self)
            }
        }

        impl $crate::vocabulary::Metric for $kind<'_> {
            #[inline(always)]
            fn record_now(&self) {
                let site = <Self as $crate::__metric::Timed>::site();
                if $crate::__metric::is_on(site) {
                    $crate::__metric::record_point(
                        site,
                        $crate::__metric_record!($($record)?),
                        $crate::NO_VALUE,
                        [$(self.$field.map($crate::vocabulary::Recorded::recorded)),+],
                    );
                }
            }
        }

        impl $crate::__metric::Timed for $kind<'_> {
            #[inline(always)]
            fn site() -> &'static $crate::CallSite {
                static KEYS: [$crate::Key; <[&str]>::len(&[$($key),+])] =
                    [$($crate::Key::new($key)),+];
                // Not where it is used: many places record the same kind.
                static SITE: $crate::CallSite = $crate::CallSite::new($name, "", "", 0, &KEYS);
                &SITE
            }

            #[inline]
            fn end(&self, span: &mut $crate::Span, request: u128) {
                $crate::__metric::end_span(
                    span,
                    Self::site(),
                    [$(self.$field.map($crate::vocabulary::Recorded::recorded)),+],
                    request,
                );
            }
        }
    };
}

/// The kind of record: an event, if nothing else is said.
#[doc(hidden)]
#[macro_export]
macro_rules! __metric_record {
    () => {
        $crate::Kind::EVENT
    };
    (error) => {
        $crate::Kind::ERROR
    };
}
