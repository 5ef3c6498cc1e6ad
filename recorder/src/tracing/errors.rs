//! What an error has to say: as any event, but for texts that are longer than that holds.
//! These are kept up to what the file takes of one, in memory of their own, and find their
//! way beside the event ([`long_texts`](crate::long_texts)).

use std::{
    fmt::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
};

use ringscope_format::{MAX_LONG_TEXT_BYTES, Value};

use super::details::{CutText, Details, Fields, LONGEST_TEXT, MOST_FIELDS, PANICKED, Telling};
use crate::hot::names::cut;

/// One character more than the file takes, so that it is told that the text was cut.
const LONGEST: usize = MAX_LONG_TEXT_BYTES + 4;

/// Texts that an event does not hold, by their keys.
#[derive(Debug, Default)]
pub(super) struct LongFields(Vec<(u32, String)>);

impl LongFields {
    /// Adds them to `telling`.
    pub(super) fn tell<'a>(&'a self, telling: &mut Telling<'a>) {
        for (key, text) in &self.0 {
            telling.field(*key, Value::Text(text));
        }
    }
}

/// The fields of one error.
pub(super) struct ErrorFields<'a> {
    pub(super) details: &'a mut Details,
    pub(super) long: &'a mut LongFields,
}

impl ErrorFields<'_> {
    fn long_text(&mut self, key: u32, text: String) {
        if self.has_place() {
            self.long.0.push((key, text));
        }
    }

    /// Whether there may be one more field; if not, it is counted.
    fn has_place(&mut self) -> bool {
        let has_place = self.details.field_count() + self.long.0.len() < MOST_FIELDS;
        if !has_place {
            self.details.leave_out();
        }
        has_place
    }
}

impl Fields for ErrorFields<'_> {
    fn number(&mut self, key: u32, value: Value<'static>) {
        if self.has_place() {
            self.details.put_number(key, value);
        }
    }

    fn text(&mut self, key: u32, text: &str) {
        if text.len() <= self.details.room_for_text() {
            if self.has_place() {
                self.details.put_text(key, text);
            }
        } else {
            let mut long = Spilled::default();
            // What memory is short of is cut.
            let _ = long.write_str(text);
            self.long_text(key, long.0);
        }
    }

    fn formatted(&mut self, key: u32, value: &dyn fmt::Debug) {
        let mut text = Formatted { short: CutText::new(), spilled: None };
        let formatting = AssertUnwindSafe(|| {
            let _ = write!(text, "{value:?}"); // fails where the text is cut
        });
        let panicked = catch_unwind(formatting).is_err();
        match text.spilled {
            None => {
                if panicked {
                    text.short.note_panic(LONGEST_TEXT);
                }
                self.text(key, text.short.as_str());
            }
            Some(mut long) => {
                if panicked {
                    long.note_panic();
                }
                self.long_text(key, long.0);
            }
        }
    }
}

/// Formats into memory on the stack as long as that is enough: most errors are short.
struct Formatted {
    short: CutText,
    spilled: Option<Spilled>,
}

impl Write for Formatted {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.spilled.is_none() {
            if text.len() <= self.short.room() {
                return self.short.write_str(text);
            }
            let mut spilled = Spilled::default();
            spilled.write_str(self.short.as_str())?;
            self.spilled = Some(spilled);
        }
        self.spilled.as_mut().map_or(Err(fmt::Error), |spilled| spilled.write_str(text))
    }
}

/// A text that ends where the file would cut it, or where memory does.
#[derive(Debug, Default)]
struct Spilled(String);

impl Spilled {
    /// Whoever wrote this has panicked.
    fn note_panic(&mut self) {
        let most = MAX_LONG_TEXT_BYTES - PANICKED.len();
        let end = cut(&self.0, most).len();
        self.0.truncate(end);
        let _ = self.write_str(PANICKED);
    }
}

impl Write for Spilled {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = cut(text, LONGEST - self.0.len());
        self.0.try_reserve(fits.len()).map_err(|_| fmt::Error)?;
        self.0.push_str(fits);
        if fits.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
