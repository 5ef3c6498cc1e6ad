//! Texts of the vocabulary: constants become numbers, the rest is copied.

use ringscope_format::Value;

use crate::Name;

/// What something is called: a constant ([`name!`](crate::name!)), a text that is
/// copied into the event, or a number.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Label<'a> {
    /// A name that is interned once.
    Name(&'static Name),
    /// A text that is copied, and cut to what an event can hold.
    Text(&'a str),
    /// A number: of a device, a cache, a worker.
    Number(u64),
}

impl<'a> Label<'a> {
    #[inline]
    pub(crate) fn value(self) -> Value<'a> {
        match self {
            Label::Name(name) => name.value(),
            Label::Text(text) => Value::Text(text),
            Label::Number(number) => Value::U64(number),
        }
    }
}

impl From<&'static Name> for Label<'_> {
    #[inline(always)]
    fn from(name: &'static Name) -> Self {
        Label::Name(name)
    }
}

impl<'a> From<&'a str> for Label<'a> {
    #[inline(always)]
    fn from(text: &'a str) -> Self {
        Label::Text(text)
    }
}

impl<'a> From<&'a String> for Label<'a> {
    #[inline(always)]
    fn from(text: &'a String) -> Self {
        Label::Text(text)
    }
}

macro_rules! numbers {
    ($($from:ty),+) => {$(
        impl From<$from> for Label<'_> {
            #[inline(always)]
            fn from(number: $from) -> Self {
                Label::Number(number as u64)
            }
        }
    )+};
}

numbers!(u8, u16, u32, u64, usize);

impl From<i32> for Label<'_> {
    /// So that a plain `0` will do; a negative number counts as 0.
    #[inline(always)]
    fn from(number: i32) -> Self {
        Label::Number(number.max(0) as u64)
    }
}

/// A constant text as a [`Name`]: interned at its first use, a number from then on.
///
/// ```
/// use ringscope::{name, vocabulary::Inference};
///
/// Inference::new().model(name!("qwen2-0.5b")).tokens(128).record();
/// ```
#[macro_export]
macro_rules! name {
    ($text:expr) => {{
        static NAME: $crate::Name = $crate::Name::new($text);
        &NAME
    }};
}
