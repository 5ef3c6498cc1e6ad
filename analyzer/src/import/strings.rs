//! Every distinct text of the files once.

use std::{collections::HashMap, rc::Rc};

use foldhash::fast::RandomState;

/// The beginning of a text, of at most so many bytes.
pub(super) fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Bytes of a text that are kept; a trace takes fewer, and a file can have one of a gigabyte.
const LONGEST: usize = 1 << 16;

/// Texts by their numbers.
#[derive(Default)]
pub(super) struct Strings {
    texts: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32, RandomState>,
}

impl Strings {
    /// The number of a text, or of its beginning if it is long beyond reason.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        let text = beginning(text, LONGEST);
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u32;
        let text: Rc<str> = text.into();
        self.texts.push(Rc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    pub(super) fn get(&self, number: u32) -> &str {
        &self.texts[number as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }
}
