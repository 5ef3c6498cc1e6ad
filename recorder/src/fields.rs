//! What may stand behind `key =` in a macro.

use ringscope_format::Value;

/// A value that can be recorded as a field without formatting; and without allocating, but
/// for long texts of errors.
///
/// Integers, floats, `bool`, `&str` (copied, cut to what an event can hold; in `error!` up
/// to 64 KiB) and `Duration` (as nanoseconds).
pub trait IntoValue<'a> {
    /// The value as it is recorded.
    fn into_value(self) -> Value<'a>;
}

macro_rules! values {
    ($($from:ty => $variant:ident as $to:ty),+ $(,)?) => {$(
        impl<'a> IntoValue<'a> for $from {
            #[inline(always)]
            fn into_value(self) -> Value<'a> {
                Value::$variant(self as $to)
            }
        }
    )+};
}

values! {
    u8 => U64 as u64, u16 => U64 as u64, u32 => U64 as u64, u64 => U64 as u64, usize => U64 as u64,
    i8 => I64 as i64, i16 => I64 as i64, i32 => I64 as i64, i64 => I64 as i64, isize => I64 as i64,
    f32 => F64 as f64, f64 => F64 as f64,
    bool => Bool as bool,
}

impl<'a> IntoValue<'a> for &'a str {
    #[inline(always)]
    fn into_value(self) -> Value<'a> {
        Value::Text(self)
    }
}

impl<'a> IntoValue<'a> for &'a String {
    #[inline(always)]
    fn into_value(self) -> Value<'a> {
        Value::Text(self)
    }
}

impl<'a> IntoValue<'a> for std::time::Duration {
    #[inline(always)]
    fn into_value(self) -> Value<'a> {
        Value::U64(self.as_nanos() as u64)
    }
}

impl<'a> IntoValue<'a> for Value<'a> {
    #[inline(always)]
    fn into_value(self) -> Value<'a> {
        self
    }
}
