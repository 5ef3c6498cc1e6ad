//! What of an event's arguments is kept, and under which key.
//!
//! Arguments get the keys of the vocabulary. Left out of PyTorch's: indices into its own
//! tables, strides, and what follows from other arguments (bandwidth, blocks per processor).

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::{
    super::{
        collector::{Collector, FieldValue},
        json::Scalar,
        strings::beginning,
    },
    Chrome, LONGEST_TEXT,
    event::RawEvent,
};

/// Arguments that say nothing outside of PyTorch.
const LEFT_OUT: [&str; 16] = [
    "Ev Idx",
    "cbid",
    "cid",
    "context",
    "queued",
    "correlation",
    "memory bandwidth (GB/s)",
    "blocks per SM",
    "warps per SM",
    "Record function id",
    "Python id",
    "Python parent id",
    "Python module id",
    "finished",
    "Input Strides",
    "Concrete Inputs",
];

/// Arguments that have a better name.
const KEYS: [(&str, &str); 7] = [
    ("registers per thread", "registers"),
    ("est. achieved occupancy %", "occupancy_percent"),
    ("Input Dims", "shapes"),
    ("Input dims", "shapes"),
    ("Input type", "dtypes"),
    ("Sequence number", "sequence"),
    ("Fwd thread id", "forward_thread"),
];

/// What an argument is kept as.
#[derive(Clone, Debug)]
struct Key {
    argument: String,
    /// Number of the key's text.
    number: u32,
    is_left_out: bool,
    /// Three sides of something.
    is_sides: bool,
}

/// Keys that were looked up. There are a few dozen of them in a file of millions of arguments:
/// each has a place that follows from its text, where the last one with that place is remembered;
/// what is not there is found by its hash.
#[derive(Default)]
pub(super) struct Keys {
    all: Vec<Key>,
    /// 1 + the number of a key, by place.
    last: Vec<usize>,
    numbers: HashMap<String, usize, RandomState>,
}

/// A power of two.
const PLACES: usize = 256;
const LONG_TEXTS: &str = "arguments longer than 1,000 bytes (cut)";

impl Keys {
    fn of(&mut self, argument: &str, found: &mut Collector) -> &Key {
        let bytes = argument.as_bytes();
        let byte = |at: Option<&u8>| usize::from(*at.unwrap_or(&0));
        let (first, last, middle) =
            (byte(bytes.first()), byte(bytes.last()), byte(bytes.get(bytes.len() / 2)));
        let place = (first + last * 7 + middle * 31 + bytes.len() * 5) % PLACES;
        self.last.resize(PLACES, 0);
        let remembered = self.last[place].checked_sub(1);
        let number = match remembered.filter(|&number| self.all[number].argument == argument) {
            Some(number) => number,
            None => self.find(argument, found),
        };
        self.last[place] = number + 1;
        &self.all[number]
    }

    fn find(&mut self, argument: &str, found: &mut Collector) -> usize {
        if let Some(&number) = self.numbers.get(argument) {
            return number;
        }
        self.all.push(look_up(argument, found));
        self.numbers.insert(argument.to_owned(), self.all.len() - 1);
        self.all.len() - 1
    }
}

/// In lower case with `_`, or as the vocabulary has it.
fn look_up(argument: &str, found: &mut Collector) -> Key {
    let better = KEYS.iter().find(|(name, _)| *name == argument);
    let key = match better {
        Some((_, key)) => (*key).to_owned(),
        None => {
            let words = argument.split(|c: char| !c.is_alphanumeric() && c != '.');
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            words.join("_").to_lowercase()
        }
    };
    Key {
        argument: argument.to_owned(),
        number: found.strings.number(if key.is_empty() { argument } else { &key }),
        is_left_out: LEFT_OUT.contains(&argument),
        is_sides: matches!(argument, "grid" | "block"),
    }
}

impl Chrome<'_> {
    /// Puts an event's arguments into `scratch`, and its category if asked to.
    pub(super) fn arguments(&mut self, event: &RawEvent<'_>, with_category: bool) {
        let Self { found, scratch, keys, is_kineto, .. } = self;
        scratch.clear();
        if with_category && !event.cat.is_empty() {
            scratch.push(found.text_field("category", &event.cat));
        }
        if let Some(step) = event.name.strip_prefix("ProfilerStep#")
            && let Ok(step) = step.parse()
        {
            scratch.push(found.number_field("step", FieldValue::U64(step)));
        }
        for (argument, value) in event.args() {
            let key = keys.of(argument, found);
            if key.is_left_out && *is_kineto {
                continue;
            }
            let field = match value {
                Scalar::Nested(text) if key.is_sides => {
                    found.field(key.number, &Scalar::String(sides(text).into()))
                }
                Scalar::Nested(text) if text.len() > LONGEST_TEXT => {
                    found.note(LONG_TEXTS);
                    found.field(key.number, &Scalar::Nested(&text[..LONGEST_TEXT]))
                }
                Scalar::String(text) if text.len() > LONGEST_TEXT => {
                    found.note(LONG_TEXTS);
                    let text = beginning(text, LONGEST_TEXT);
                    found.field(key.number, &Scalar::String(text.into()))
                }
                other => found.field(key.number, other),
            };
            scratch.extend(field);
        }
        found.note_many("arguments beyond 24 of one event", event.surplus_arguments);
        if event.has_strange_arguments {
            found.note("arguments that are no object");
        }
    }
}

/// `[512, 1, 1]` is `512x1x1`.
fn sides(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut sides = String::with_capacity(text.len());
    sides.extend(text.chars().filter(|c| !matches!(c, '[' | ']' | ' ' | '\n' | '\t')));
    sides.replace(',', "x")
}
