//! `slow`: the longest spans and kernels, each with what it ran in, what ran in it
//! and what ran beside it.
//!
//! Filters choose the records; what is around them is not filtered.

use std::collections::HashMap;

use ringscope_format::{Kind, OwnedValue, Status};
use serde_json::{Map, Value, json};

use super::{
    Context, about,
    surroundings::{Found, Frame, Surroundings, longest, surroundings},
};
use crate::{
    Result,
    cli::Common,
    load::Loaded,
    output::{
        Cell, Column, Document, Format, Part, Table, count, json_number, shorten_middle, shown,
    },
    requests::in_hex,
};

/// How many unasked.
const USUAL: usize = 10;
/// How many at most: each takes memory for what ran beside it.
const MOST: usize = 10_000;
/// Names in a list.
const LISTED: usize = 5;
/// Characters of a text that are shown to people: what an event holds by itself.
const LONGEST_TEXT: usize = 750;

/// Options of `slow`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let most = args.common.limit(USUAL).unwrap_or(MOST).min(MOST);
    let context = Context::open(args.common)?;
    let found = longest(&context.traces, &context.sieves, most)?;
    let all_asked = context.common.limit(USUAL).is_none_or(|limit| limit > MOST);
    if all_asked && found.len() == MOST {
        eprintln!("analyze: the longest {} are listed, and no more", count(MOST as u64));
    }
    let around = surroundings(&context.traces, &found);
    let all: Vec<One<'_>> = found
        .iter()
        .zip(&around)
        .map(|(found, around)| One::new(&context, found, around))
        .collect();
    let common = &context.common;
    let in_words =
        common.format() == Format::Table && common.columns.is_empty() && common.sort.is_none();
    let mut parts = Vec::new();
    if in_words && !all.is_empty() {
        parts.push(Part::Text {
            key: "slow".to_owned(),
            title: "Slowest".to_owned(),
            lines: all.iter().enumerate().flat_map(|(at, one)| one.lines(at + 1)).collect(),
            value: Value::Null,
        });
    } else {
        parts.push(Part::Table(context.arrange(table(&context, &all), None)?));
    }
    let document = context.document("ringscope.slow/1", parts);
    Ok((context.common, document))
}

fn table(context: &Context, all: &[One<'_>]) -> Table {
    let mut columns = vec![
        Column::new("name", "name"),
        Column::new("duration_ns", "duration"),
        Column::new("start_ns", "start"),
        Column::new("track", "track"),
        Column::hidden("trace", "trace"),
        Column::hidden("kind", "kind"),
        Column::hidden("status", "status"),
        Column::hidden("request", "request"),
        Column::new("self_ns", "self"),
        Column::hidden("ancestry", "ancestry"),
        Column::hidden("launched_from", "launched from"),
        Column::hidden("children", "children"),
        Column::hidden("fields", "fields"),
        Column::hidden("beside", "beside"),
        Column::hidden("devices", "devices"),
    ];
    columns[4].shown = context.traces.list.len() > 1;
    let mut table = Table::new("slow", "Slowest", columns);
    table.rows = all.iter().map(One::row).collect();
    if all.is_empty() {
        table.note = "  nothing with a duration, or nothing that passes the filters".to_owned();
    }
    table
}

/// One record, in the words of its trace.
struct One<'a> {
    context: &'a Context,
    loaded: &'a Loaded,
    found: &'a Found,
    around: &'a Surroundings,
}

/// A name with how often and how long.
struct Share {
    name: u32,
    count: u64,
    ticks: u64,
}

impl<'a> One<'a> {
    fn new(context: &'a Context, found: &'a Found, around: &'a Surroundings) -> Self {
        Self { context, loaded: &context.traces.list[found.trace.0], found, around }
    }

    fn name(&self, index: u32) -> &'a str {
        &self.context.traces.names[index as usize]
    }

    fn own_name(&self) -> &'a str {
        self.name(self.loaded.name_index(self.found.name))
    }

    fn ns(&self, ticks: u64) -> f64 {
        self.loaded.trace.clock().ns(ticks)
    }

    fn words(&self, ticks: u64) -> String {
        about::in_words(self.ns(ticks))
    }

    fn status(&self) -> Option<&'static str> {
        match Status(self.found.status) {
            Status::OK => Some("ok"),
            Status::ERROR => Some("error"),
            Status::CANCELLED => Some("cancelled"),
            _ => None,
        }
    }

    fn children(&self) -> Vec<Share> {
        let parts = self.around.children.iter();
        self.sorted(parts.map(|(&name, &(count, ticks))| Share { name, count, ticks }).collect())
    }

    /// Names on other tracks by their own time; the count is that of the tracks.
    fn beside(&self) -> Vec<Share> {
        let mut by_name: HashMap<u32, (u64, i128)> = HashMap::new();
        for (&(name, _), &ticks) in self.around.beside.iter().filter(|(_, ticks)| **ticks > 0) {
            let (tracks, sum) = by_name.entry(name).or_default();
            (*tracks, *sum) = (*tracks + 1, *sum + ticks);
        }
        let part = |(name, (count, ticks)): (u32, (u64, i128))| Share {
            name,
            count,
            ticks: u64::try_from(ticks).unwrap_or(u64::MAX),
        };
        self.sorted(by_name.into_iter().map(part).collect())
    }

    fn devices(&self) -> Vec<Share> {
        let parts = self.around.devices.iter();
        self.sorted(parts.map(|(&name, &ticks)| Share { name, count: 1, ticks }).collect())
    }

    fn sorted(&self, mut parts: Vec<Share>) -> Vec<Share> {
        parts.sort_by(|a, b| {
            b.ticks.cmp(&a.ticks).then_with(|| self.name(a.name).cmp(self.name(b.name)))
        });
        parts
    }

    fn children_ticks(&self) -> u64 {
        self.around.children.values().fold(0, |sum: u64, (_, ticks)| sum.saturating_add(*ticks))
    }

    fn self_ticks(&self) -> u64 {
        self.found.ticks.saturating_sub(self.children_ticks())
    }

    fn lines(&self, number: usize) -> Vec<String> {
        let found = self.found;
        let mut head = format!(
            "  {number}. {}  {}  on {}, at {}",
            self.words(found.ticks),
            shown(self.own_name()),
            shown(&self.loaded.track_name(found.track.0)),
            about::in_words(self.loaded.since_start_ns(found.start.0)),
        );
        if self.context.traces.list.len() > 1 {
            head.push_str(&format!(", in {}", shown(&self.loaded.label)));
        }
        if !matches!(found.kind, Kind::SPAN | Kind::SLICE) {
            let kind = found.kind.name().map_or_else(|| format!("{:?}", found.kind), str::to_owned);
            head.push_str(&format!(", {kind}"));
        }
        head.extend(self.status().filter(|&status| status != "ok").map(|it| format!(", {it}")));
        let mut lines = vec![head];
        let mut say = |what: &str, text: String| {
            if !text.is_empty() {
                lines.push(format!("       {what:<9} {text}"));
            }
        };
        say("inside", self.frames(&self.around.ancestry));
        if let Some((track, frames)) = &self.around.launch {
            let track = self.loaded.track_name(*track);
            say("launched", format!("{} on {}", self.frames(frames), shown(&track)));
        }
        let children = self.children();
        if !children.is_empty() {
            let own = self.words(self.self_ticks());
            let times = |part: &Share| match part.count {
                1 => String::new(),
                n => format!(" ({} times)", count(n)),
            };
            say("of it", format!("{}; itself {own}", self.list(&children, times)));
        }
        say("request", self.around.request.map_or_else(String::new, in_hex));
        say("fields", self.fields_in_words());
        let threads = |part: &Share| match part.count {
            1 => String::new(),
            n => format!(" (on {} threads)", count(n)),
        };
        say("beside", self.list(&self.beside(), threads));
        say("devices", self.list(&self.devices(), |_| String::new()));
        lines
    }

    fn frames(&self, frames: &[Frame]) -> String {
        let one = |frame: &Frame| {
            let name = shown(self.name(frame.name));
            let into = self.found.start.0.saturating_sub(frame.start);
            format!("{name} +{}", self.words(into))
        };
        let all: Vec<String> = frames.iter().map(one).collect();
        match all.len() {
            // The outermost and the innermost tell the most.
            more if more > 2 * LISTED => format!(
                "{} > … {} more … > {}",
                all[..LISTED].join(" > "),
                more - 2 * LISTED,
                all[more - LISTED..].join(" > ")
            ),
            _ => all.join(" > "),
        }
    }

    fn list(&self, parts: &[Share], about_it: impl Fn(&Share) -> String) -> String {
        let one = |part: &Share| {
            format!("{} {}{}", shown(self.name(part.name)), self.words(part.ticks), about_it(part))
        };
        let mut all: Vec<String> = parts.iter().take(LISTED).map(one).collect();
        if parts.len() > LISTED {
            let rest = parts[LISTED..].iter().fold(0, |sum: u64, it| sum.saturating_add(it.ticks));
            all.push(format!("{} others {}", parts.len() - LISTED, self.words(rest)));
        }
        all.join(", ")
    }

    fn key(&self, id: u32) -> &'a str {
        self.name(self.loaded.name_index(id))
    }

    fn fields_in_words(&self) -> String {
        let one = |(key, value): &(u32, OwnedValue)| {
            let text = match value {
                OwnedValue::U64(n) => count(*n),
                OwnedValue::I64(n) => n.to_string(),
                OwnedValue::F64(n) => n.to_string(),
                OwnedValue::Bool(b) => b.to_string(),
                OwnedValue::Name(id) => shown(self.key(*id)).into_owned(),
                OwnedValue::Ticks(ticks) => self.words(*ticks),
                OwnedValue::Text { text, cut } => {
                    let text = shown(text);
                    let text = shorten_middle(&text, LONGEST_TEXT);
                    format!("\"{text}{}\"", if *cut { "…" } else { "" })
                }
            };
            format!("{} = {text}", shown(self.key(*key)))
        };
        self.around.details.fields.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn row(&self) -> Vec<Cell> {
        let found = self.found;
        let frames = |frames: &[Frame]| -> Value {
            let one = |frame: &Frame| {
                json!({
                    "name": self.name(frame.name),
                    "start_ns": json_number(self.loaded.since_start_ns(frame.start)),
                    "into_ns": json_number(self.ns(found.start.0.saturating_sub(frame.start))),
                    "duration_ns": json_number(self.ns(frame.end - frame.start)),
                })
            };
            frames.iter().map(one).collect()
        };
        let parts = |parts: Vec<Share>, count: Option<&str>, ns: &str| -> Value {
            let one = |part: &Share| {
                let mut object = Map::new();
                object.insert("name".into(), self.name(part.name).into());
                object.extend(count.map(|key| (key.to_owned(), part.count.into())));
                object.insert(ns.into(), json_number(self.ns(part.ticks)));
                Value::Object(object)
            };
            parts.iter().map(one).collect()
        };
        let launch = self.around.launch.as_ref().map(|(track, all)| {
            json!({ "track": self.loaded.track_name(*track), "ancestry": frames(all) })
        });
        vec![
            Cell::from(self.own_name()),
            Cell::Ns(self.ns(found.ticks)),
            Cell::Ns(self.loaded.since_start_ns(found.start.0)),
            Cell::from(self.loaded.track_name(found.track.0)),
            Cell::from(self.loaded.label.as_str()),
            Cell::from(found.kind.name().unwrap_or("unknown")),
            self.status().map_or(Cell::None, Cell::from),
            self.around.request.map_or(Cell::None, |id| Cell::from(in_hex(id))),
            Cell::Ns(self.ns(self.self_ticks())),
            Cell::Json(frames(&self.around.ancestry)),
            launch.map_or(Cell::None, Cell::Json),
            Cell::Json(parts(self.children(), Some("count"), "total_ns")),
            Cell::Json(self.fields_json()),
            Cell::Json(parts(self.beside(), Some("tracks"), "self_ns")),
            Cell::Json(parts(self.devices(), None, "overlap_ns")),
        ]
    }

    fn fields_json(&self) -> Value {
        let one = |(key, value): &(u32, OwnedValue)| {
            let value = match value {
                OwnedValue::U64(n) => json!(n),
                OwnedValue::I64(n) => json!(n),
                OwnedValue::F64(n) => json!(n),
                OwnedValue::Bool(b) => json!(b),
                OwnedValue::Name(id) => json!(self.key(*id)),
                OwnedValue::Ticks(ticks) => json!({ "duration_ns": json_number(self.ns(*ticks)) }),
                OwnedValue::Text { text, .. } => json!(text),
            };
            json!({ "key": self.key(*key), "value": value })
        };
        self.around.details.fields.iter().map(one).collect()
    }
}
