//! Constant texts as values: interned at their first use, numbers from then on.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};

use ringscope_format::Value;

use crate::hot::{call_site::unless_reentered, names};

/// A constant text that is recorded as a number. Made by [`name!`](crate::name!),
/// or as a `static` of your own; [`Name::of`] is for texts made at run time.
#[derive(Debug)]
pub struct Name {
    text: &'static str,
    /// 0 until it was recorded once.
    id: AtomicU32,
}

impl Name {
    /// A name that is not interned yet.
    pub const fn new(text: &'static str) -> Self {
        Self { text, id: AtomicU32::new(0) }
    }

    /// The name for a text that is made at run time. Kept for good: call it once
    /// for each text, and keep the result.
    pub fn of(text: &str) -> &'static Name {
        let text: &'static str = Box::leak(text.into());
        Box::leak(Box::new(Name::new(text)))
    }

    /// The text.
    pub fn text(&self) -> &'static str {
        self.text
    }

    #[inline]
    pub(crate) fn value(&'static self) -> Value<'static> {
        // Acquire, with the release in `intern`: the drain that gets this number
        // from us finds it in the table.
        match self.id.load(Acquire) {
            0 => self.intern(),
            id => Value::Name(id),
        }
    }

    #[cold]
    fn intern(&'static self) -> Value<'static> {
        let Some(id) = unless_reentered(|| names::with(|names| names.intern(self.text))) else {
            return Value::Text(self.text);
        };
        self.id.store(id, Release);
        Value::Name(id)
    }
}
