//! profile.proto, as `pprof` reads it: a sample for each stack, with the number of
//! spans that ended in it and the time that they spent themselves. Not compressed,
//! which readers take as well.
//!
//! Stacks are those of [`super::folded`], and so are the limits.

use std::{
    collections::{BTreeSet, HashMap},
    io::Write,
};

use super::{
    Exporter,
    events::Source,
    folded::{Stack, stacks},
    protobuf::Message,
};
use crate::Result;

/// `Profile`
mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

/// `ValueType`
mod value_type {
    pub(super) const TYPE: u32 = 1;
    pub(super) const UNIT: u32 = 2;
}

/// `Sample`
mod sample {
    pub(super) const LOCATION_ID: u32 = 1;
    pub(super) const VALUE: u32 = 2;
}

/// `Location` and its `Line`
mod location {
    pub(super) const ID: u32 = 1;
    pub(super) const LINE: u32 = 4;
    pub(super) const LINE_FUNCTION_ID: u32 = 1;
}

/// `Function`
mod function {
    pub(super) const ID: u32 = 1;
    pub(super) const NAME: u32 = 2;
}

pub(super) struct Pprof {
    pub(super) per_track: bool,
}

impl Exporter for Pprof {
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        let stacks = stacks(source, self.per_track);
        // The first text has to be empty.
        let mut texts = Texts { list: vec![""], index: HashMap::from([("", 0)]) };
        let mut put = |message: Message| out.write_all(message.bytes());
        for (name, unit) in [("spans", "count"), ("time", "nanoseconds")] {
            let value_type = Message::new()
                .uint(value_type::TYPE, texts.number(name))
                .uint(value_type::UNIT, texts.number(unit));
            put(Message::new().message(profile::SAMPLE_TYPE, &value_type))?;
        }
        let mut functions = BTreeSet::new();
        for Stack { frames, spans, self_ns } in &stacks {
            let frames: Vec<u64> = frames.iter().map(|frame| texts.number(frame)).collect();
            functions.extend(frames.iter().copied());
            let sample = Message::new()
                .packed(sample::LOCATION_ID, frames.into_iter().rev().map(id))
                .packed(sample::VALUE, [*spans, *self_ns]);
            put(Message::new().message(profile::SAMPLE, &sample))?;
        }
        for text in functions {
            let line = Message::new().uint(location::LINE_FUNCTION_ID, id(text));
            let location =
                Message::new().uint(location::ID, id(text)).message(location::LINE, &line);
            let function = Message::new().uint(function::ID, id(text)).uint(function::NAME, text);
            put(Message::new().message(profile::LOCATION, &location))?;
            put(Message::new().message(profile::FUNCTION, &function))?;
        }
        let time = texts.number("time");
        for text in &texts.list {
            put(Message::new().text(profile::STRING_TABLE, text))?;
        }
        let lengths = source.traces().list.iter().map(|loaded| loaded.length_ns());
        put(Message::new()
            .int(profile::TIME_NANOS, source.unix_ns(0, 0))
            .int(profile::DURATION_NANOS, lengths.fold(0.0, f64::max) as i64)
            .uint(profile::DEFAULT_SAMPLE_TYPE, time))?;
        Ok(())
    }
}

/// A frame has one function and one location; 0 is the id of none.
fn id(text: u64) -> u64 {
    text + 1
}

/// The string table.
struct Texts<'a> {
    list: Vec<&'a str>,
    index: HashMap<&'a str, u64>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a str) -> u64 {
        let next = self.list.len() as u64;
        let number = *self.index.entry(text).or_insert(next);
        if number == next {
            self.list.push(text);
        }
        number
    }
}
