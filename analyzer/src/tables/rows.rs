//! Rows of tables on their way into Polars: plain columns, and texts as numbers
//! of a dictionary that is held once.

use std::{borrow::Cow, collections::HashMap};

use polars::prelude::{
    ChunkTake, Column, DataFrame, IntoColumn, NamedFrom, NewChunkedArray, PlSmallStr, Series,
    StringChunked,
};
use ringscope_format::{EventDetails, Kind, OwnedValue, Status};

use super::Wanted;
use crate::{
    Result,
    events::{LINK_KEYS, link_key, told},
    load::{Loaded, Traces},
    requests::{Requests, in_hex},
};

/// Every text that a column can hold without being dynamic.
pub(super) struct Dictionaries {
    traces: StringChunked,
    names: StringChunked,
    tracks: StringChunked,
    kinds: StringChunked,
    statuses: StringChunked,
    types: StringChunked,
    /// Ids of requests by number, and behind them none.
    requests: StringChunked,
    /// Index among the tracks, by trace and id.
    track_of: Vec<HashMap<u32, u32>>,
    /// Where the names of link roles begin among the names.
    links_at: u32,
}

/// Stands in for a track that was lost with a damaged part of the file.
const UNKNOWN_TRACK: &str = "(unknown track)";
/// Types of fields.
const TYPES: [&str; 8] = ["u64", "i64", "f64", "bool", "ns", "name", "text", "id"];
fn dictionary(texts: impl IntoIterator<Item = String>) -> StringChunked {
    let texts: Vec<String> = texts.into_iter().collect();
    StringChunked::from_slice(PlSmallStr::EMPTY, &texts)
}

/// What a kind is called in a column.
pub(super) fn kind_text(kind: u8) -> String {
    format!("{:?}", Kind(kind))
}

impl Dictionaries {
    /// Those of the traces; `requests` are looked for only if they are asked for.
    pub(super) fn new(traces: &Traces, requests: Option<&Requests>) -> Self {
        let mut tracks = vec![UNKNOWN_TRACK.to_owned()];
        let mut track_of = Vec::new();
        for loaded in &traces.list {
            let mut of_trace = HashMap::new();
            for (id, label) in &loaded.tracks {
                of_trace.insert(*id, tracks.len() as u32);
                tracks.push(label.name.clone());
            }
            track_of.push(of_trace);
        }
        let link_keys = LINK_KEYS.map(str::to_owned);
        Self {
            traces: dictionary(traces.list.iter().map(|loaded| loaded.label.clone())),
            names: dictionary(traces.names.iter().cloned().chain(link_keys)),
            tracks: dictionary(tracks),
            kinds: dictionary((0..=u8::MAX).map(kind_text)),
            statuses: dictionary((0..16).map(|status| format!("{:?}", Status(status)))),
            types: dictionary(TYPES.map(str::to_owned)),
            requests: {
                let ids = requests.map_or(&[][..], Requests::ids).iter();
                let mut texts: Vec<Option<String>> = ids.map(|&id| Some(in_hex(id))).collect();
                texts.push(None);
                StringChunked::from_slice_options(PlSmallStr::EMPTY, &texts)
            },
            track_of,
            links_at: traces.names.len() as u32,
        }
    }

    pub(super) fn track(&self, trace: usize, id: u32) -> u32 {
        self.track_of[trace].get(&id).copied().unwrap_or(0)
    }

    /// Index of a request, or of none.
    pub(super) fn request(&self, number: Option<u32>) -> u32 {
        number.unwrap_or(self.requests.len() as u32 - 1)
    }
}

/// A column of texts from their numbers.
fn texts(key: &str, dictionary: &StringChunked, at: &[u32]) -> Result<Column> {
    let mut column = dictionary.take(at)?;
    column.rename(key.into());
    Ok(column.into_column())
}

/// Rows of `records`, `spans`, `kernels` or `counters`. Columns that are not
/// asked for stay empty.
#[derive(Default)]
pub(super) struct EventRows {
    pub(super) rows: usize,
    pub(super) trace: Vec<u32>,
    pub(super) record: Vec<u64>,
    pub(super) kind: Vec<u32>,
    pub(super) name: Vec<u32>,
    pub(super) track: Vec<u32>,
    pub(super) start: Vec<i64>,
    pub(super) dur: Vec<Option<f64>>,
    pub(super) value: Vec<Option<f64>>,
    pub(super) status: Vec<u32>,
    pub(super) depth: Vec<u8>,
    pub(super) link: Vec<u32>,
    pub(super) request: Vec<u32>,
    /// Start of the launch, found last.
    pub(super) launch: Vec<Option<i64>>,
}

impl EventRows {
    pub(super) fn append(&mut self, mut other: Self) {
        self.rows += other.rows;
        self.trace.append(&mut other.trace);
        self.record.append(&mut other.record);
        self.kind.append(&mut other.kind);
        self.name.append(&mut other.name);
        self.track.append(&mut other.track);
        self.start.append(&mut other.start);
        self.dur.append(&mut other.dur);
        self.value.append(&mut other.value);
        self.status.append(&mut other.status);
        self.depth.append(&mut other.depth);
        self.link.append(&mut other.link);
        self.request.append(&mut other.request);
        self.launch.append(&mut other.launch);
    }

    pub(super) fn frame(self, wanted: &Wanted, texts_of: &Dictionaries) -> Result<DataFrame> {
        let mut columns = Vec::with_capacity(wanted.columns.len());
        for &key in &wanted.columns {
            let numbers = |series: Series| series.into_column();
            let name = || PlSmallStr::from(key);
            columns.push(match key {
                "trace" => texts(key, &texts_of.traces, &self.trace)?,
                "record" => numbers(Series::new(name(), &self.record)),
                "kind" => texts(key, &texts_of.kinds, &self.kind)?,
                "name" => texts(key, &texts_of.names, &self.name)?,
                "track" | "queue" => texts(key, &texts_of.tracks, &self.track)?,
                "start_ns" => numbers(Series::new(name(), &self.start)),
                "dur_ns" => numbers(Series::new(name(), &self.dur)),
                "value" => numbers(Series::new(name(), &self.value)),
                "status" => texts(key, &texts_of.statuses, &self.status)?,
                "depth" => numbers(Series::new(name(), &self.depth)),
                "link" => numbers(Series::new(name(), &self.link)),
                "request" => texts(key, &texts_of.requests, &self.request)?,
                "launch_ns" => numbers(Series::new(name(), &self.launch)),
                _ => {
                    let delay = self.launch.iter().zip(&self.start);
                    let delay: Vec<Option<i64>> =
                        delay.map(|(launch, start)| launch.map(|launch| start - launch)).collect();
                    numbers(Series::new(name(), &delay))
                }
            });
        }
        Ok(DataFrame::new(self.rows, columns)?)
    }
}

/// Rows of `fields`.
#[derive(Default)]
pub(super) struct FieldRows {
    rows: usize,
    trace: Vec<u32>,
    record: Vec<u64>,
    key: Vec<u32>,
    kind: Vec<u32>,
    number: Vec<Option<f64>>,
    /// A text, or the number of one.
    text: Vec<Option<String>>,
}

impl FieldRows {
    pub(super) fn push(
        &mut self,
        trace: usize,
        loaded: &Loaded,
        traces: &Traces,
        record: u64,
        details: EventDetails,
        texts_of: &Dictionaries,
    ) {
        for (key, value) in details.fields {
            let kind = match value {
                OwnedValue::U64(_) => 0,
                OwnedValue::I64(_) => 1,
                OwnedValue::F64(_) => 2,
                OwnedValue::Bool(_) => 3,
                OwnedValue::Ticks(_) => 4,
                OwnedValue::Name(_) => 5,
                OwnedValue::Text { .. } => 6,
            };
            let told = told(&value, loaded, traces);
            let text = told.text.map(Cow::into_owned);
            self.row(trace, record, loaded.name_index(key), kind, told.number, text);
        }
        for link in details.links {
            let role = link_key(link.role) as u32;
            let id = format!("{:032x}", link.id);
            self.row(trace, record, texts_of.links_at + role, 7, None, Some(id));
        }
    }

    fn row(
        &mut self,
        trace: usize,
        record: u64,
        key: u32,
        kind: u32,
        number: Option<f64>,
        text: Option<String>,
    ) {
        self.rows += 1;
        self.trace.push(trace as u32);
        self.record.push(record);
        self.key.push(key);
        self.kind.push(kind);
        self.number.push(number);
        self.text.push(text);
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.rows += other.rows;
        self.trace.append(&mut other.trace);
        self.record.append(&mut other.record);
        self.key.append(&mut other.key);
        self.kind.append(&mut other.kind);
        self.number.append(&mut other.number);
        self.text.append(&mut other.text);
    }

    pub(super) fn frame(self, wanted: &Wanted, texts_of: &Dictionaries) -> Result<DataFrame> {
        let mut columns = Vec::with_capacity(wanted.columns.len());
        for &key in &wanted.columns {
            let name = PlSmallStr::from(key);
            columns.push(match key {
                "trace" => texts(key, &texts_of.traces, &self.trace)?,
                "record" => Series::new(name, &self.record).into_column(),
                "key" => texts(key, &texts_of.names, &self.key)?,
                "type" => texts(key, &texts_of.types, &self.kind)?,
                "number" => Series::new(name, &self.number).into_column(),
                _ => StringChunked::from_slice_options(name, &self.text).into_column(),
            });
        }
        Ok(DataFrame::new(self.rows, columns)?)
    }
}
