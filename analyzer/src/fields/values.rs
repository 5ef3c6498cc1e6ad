//! The most common of values that are no numbers, in bounded memory.

use std::{cmp::Reverse, collections::HashMap};

/// Distinct values of one key that are told apart.
const MOST_VALUES: usize = 1_000;
/// Bytes of texts that are held, of all keys together.
const MOST_BYTES: usize = 32 << 20;
/// Bytes of one text that are held: what differs only later counts as one.
const TEXT_BYTES: usize = 256;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Word {
    Bool(bool),
    /// Index into the names of all traces.
    Name(u32),
    Text(Box<str>),
    Id(u128),
}

impl Word {
    pub(super) fn text(mut text: String, cut: bool) -> Self {
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        if cut || end < text.len() {
            text.truncate(end);
            text.push('…');
        }
        Word::Text(text.into())
    }

    fn shown(&self, names: &[String]) -> String {
        match self {
            Word::Bool(is) => is.to_string(),
            Word::Name(name) => names[*name as usize].clone(),
            Word::Text(text) => text.to_string(),
            Word::Id(id) => format!("{id:032x}"),
        }
    }
}

/// How many bytes of texts may still be held.
pub(super) struct Room(usize);

impl Room {
    pub(super) fn new() -> Self {
        Self(MOST_BYTES)
    }

    fn takes(&mut self, word: &Word) -> bool {
        let bytes = if let Word::Text(text) = word { text.len() } else { 0 };
        let left = self.0.checked_sub(bytes + size_of::<Word>());
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// How often each value came.
#[derive(Debug, Default)]
pub struct Values {
    counts: HashMap<Word, u64>,
    /// Values that came when there was no more room for new ones.
    others: u64,
}

/// The values that came most often.
#[derive(Debug, PartialEq, Eq)]
pub struct Common {
    /// With how often they came, the most common first.
    pub top: Vec<(String, u64)>,
    /// How many different ones there are, as far as they were told apart.
    pub distinct: usize,
    /// Whether there were more than could be told apart: another one may be more common.
    pub is_partial: bool,
}

impl Values {
    pub(super) fn add(&mut self, word: Word, room: &mut Room) {
        if let Some(count) = self.counts.get_mut(&word) {
            *count += 1;
        } else if self.counts.len() < MOST_VALUES && room.takes(&word) {
            self.counts.insert(word, 1);
        } else {
            self.others += 1;
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.values().sum::<u64>() + self.others
    }

    /// The most common ones. A name and a text that read the same are one value.
    pub fn common(&self, most: usize, names: &[String]) -> Common {
        let mut by_text: HashMap<String, u64> = HashMap::new();
        for (word, count) in &self.counts {
            *by_text.entry(word.shown(names)).or_default() += count;
        }
        let mut top: Vec<(String, u64)> = by_text.into_iter().collect();
        let distinct = top.len();
        top.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
        top.truncate(most);
        Common { top, distinct, is_partial: self.others > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Word {
        Word::text(text.to_owned(), false)
    }

    #[test]
    fn the_most_common_come_first_and_names_are_texts() {
        let (mut values, mut room) = (Values::default(), Room::new());
        for word in [text("b"), Word::Name(0), text("a"), text("a"), text("c")] {
            values.add(word, &mut room);
        }
        let common = values.common(2, &["a".to_owned()]);
        let top = vec![("a".to_owned(), 3), ("b".to_owned(), 1)];
        assert_eq!(common, Common { top, distinct: 3, is_partial: false });
        assert_eq!(values.count(), 5);
    }

    #[test]
    fn what_does_not_fit_is_counted_and_told() {
        let (mut values, mut room) = (Values::default(), Room::new());
        for at in 0..MOST_VALUES + 7 {
            values.add(Word::Id(at as u128), &mut room);
        }
        let common = values.common(1, &[]);
        assert_eq!((common.distinct, common.is_partial), (MOST_VALUES, true));
        assert_eq!(values.count(), MOST_VALUES as u64 + 7);
        let (mut values, mut room) = (Values::default(), Room(100));
        values.add(text(&"x".repeat(50)), &mut room);
        values.add(text(&"y".repeat(50)), &mut room);
        assert_eq!((values.common(9, &[]).distinct, values.count()), (1, 2));
    }

    #[test]
    fn long_texts_are_held_to_their_beginnings() {
        let Word::Text(held) = text(&"é".repeat(300)) else { panic!("a text") };
        assert_eq!(&*held, "é".repeat(128) + "…");
    }
}
