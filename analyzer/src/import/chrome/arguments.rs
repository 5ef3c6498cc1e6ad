//! What of an event's arguments is kept, and under which key.
//!
//! Arguments get the keys of the vocabulary. Left out of PyTorch's: indices into its own
//! tables, strides, and what follows from other arguments (bandwidth, blocks per processor).

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

/// Keys that were looked up, each at a place that follows from its text. There are a few dozen
/// of them in a file of millions of arguments; one that takes the place of another is looked
/// up again.
pub(super) struct Keys {
    known: Vec<Option<Key>>,
}

const LONG_TEXTS: &str = "arguments longer than 1,000 bytes (cut)";

/// A power of two.
const PLACES: usize = 256;

impl Default for Keys {
    fn default() -> Self {
        Self { known: vec![None; PLACES] }
    }
}

impl Keys {
    fn of(&mut self, argument: &str, found: &mut Collector) -> &Key {
        let bytes = argument.as_bytes();
        let byte = |at: Option<&u8>| usize::from(*at.unwrap_or(&0));
        let (first, last, middle) =
            (byte(bytes.first()), byte(bytes.last()), byte(bytes.get(bytes.len() / 2)));
        let place = (first + last * 7 + middle * 31 + bytes.len() * 5) % PLACES;
        let known = self.known[place].take().filter(|key| key.argument == argument);
        self.known[place].insert(known.unwrap_or_else(|| look_up(argument, found)))
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
    let sides = text.trim_matches(['[', ']']).split(',').map(str::trim);
    sides.collect::<Vec<_>>().join("x")
}
