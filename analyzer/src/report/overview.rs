//! `report`: everything worth knowing, on one screen.
//!
//! Each section is a few lines here and a command of its own elsewhere. One
//! reading of the trace serves categories and spans, and another one everything that is
//! about a vocabulary: calls, pools, training, caches, memory, counters, events, errors.

use clap::ValueEnum;
use ringscope_format::RecordingState;

use super::{
    Context, about, fields,
    hints::{self, Evidence},
    in_flight, kernels,
    own_cost::OwnCost,
    part, spans,
    stragglers::stragglers,
    tasks,
    vocabulary::{self, Report},
};
use crate::{
    Result,
    cli::{CATEGORIES, Common},
    device::timing::{Untimed, in_words, untimed},
    load::Loaded,
    output::{Cell, Column, Document, Part, Table, count, shown},
    summary::Answer,
};

/// Rows of a section that people get unasked.
const USUAL_ROWS: usize = 10;

/// Options of `report`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Only this section; may be given several times
    #[arg(long, value_enum, value_name = "SECTION")]
    section: Vec<Section>,
    /// Every row of every section
    #[arg(long)]
    all: bool,
}

/// A section of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// What, where, when, how long; what was lost
    Header,
    /// How many are fast, normal, slow, very slow
    Categories,
    /// Spans by name
    Spans,
    /// Work of devices
    Kernels,
    /// Calls by function: waiting, encoding, running, decoding
    Calls,
    /// Worker pools: waits, busy time, depth of the queue
    Pool,
    /// Steps, loss, learning rate, tokens a second
    Training,
    /// Hits and misses by cache
    Caches,
    /// What was allocated and not released
    Memory,
    /// Counters and gauges
    Counters,
    /// What happened at an instant, by name
    Events,
    /// What events and spans carry, by name and key
    Fields,
    /// What went wrong
    Errors,
    /// What was open when the recording ended
    InFlight,
    /// What stands out, and where to look next
    Hints,
}

impl Section {
    /// Of those that are about a vocabulary, what they are made by.
    fn report(self) -> Option<&'static Report> {
        Some(match self {
            Section::Calls => vocabulary::CALLS,
            Section::Pool => vocabulary::POOL,
            Section::Training => vocabulary::TRAINING,
            Section::Caches => vocabulary::CACHES,
            Section::Memory => vocabulary::MEMORY,
            Section::Counters => vocabulary::COUNTERS,
            Section::Events => vocabulary::EVENTS,
            Section::Errors => vocabulary::ERRORS,
            _ => return None,
        })
    }
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let context = Context::open(args.common.clone())?;
    let limit = limit_of(&args, &context, USUAL_ROWS);
    let wants = |section| args.section.is_empty() || args.section.contains(&section);
    // Only what is asked for is worked out; hints want all of it.
    let needs = |section| wants(section) || wants(Section::Hints);
    let mut parts = Vec::new();
    let mut spans = None;
    if needs(Section::Categories) || needs(Section::Spans) {
        let percentiles = Some(hints::percentiles(&context));
        let (table, answer, labels) = spans::spans(&context, false, limit, percentiles)?;
        if wants(Section::Categories) {
            parts.extend(categories(&context, &answer));
        }
        let only_this = args.section == [Section::Spans];
        if wants(Section::Spans) && (!table.rows.is_empty() || only_this) {
            parts.push(Part::Table(table));
        }
        spans = Some((answer, labels));
    }
    if wants(Section::Spans) {
        parts.extend(tasks::section(&context, limit)?.map(Part::Table));
    }
    if args.section.is_empty() {
        parts.extend(stragglers(&context)?.map(Part::Table));
    }
    let mut devices = kernels::Section::default();
    if needs(Section::Kernels) {
        devices = kernels::section(&context, limit)?;
        if wants(Section::Kernels) {
            parts.extend(devices.parts.iter().cloned());
        }
    }
    let of_hints = [Section::Memory, Section::Errors];
    let is_needed =
        |section: &Section| wants(*section) || wants(Section::Hints) && of_hints.contains(section);
    let vocabularies = of_vocabularies(&context, &args, is_needed)?;
    for section in Section::value_variants() {
        if *section == Section::Fields && wants(Section::Fields) {
            parts.extend(fields::section(&context, limit_of(&args, &context, fields::USUAL_ROWS))?);
        }
        let found = vocabularies.iter().filter(|(it, _)| it == section && wants(*it));
        parts.extend(found.flat_map(|(_, parts)| parts.iter().cloned()));
    }
    if wants(Section::InFlight) {
        parts.extend(in_flight::section(&context)?);
    }
    if let Some((answer, labels)) = spans.filter(|_| wants(Section::Hints)) {
        let found = vocabularies.into_iter().flat_map(|(_, parts)| parts);
        let evidence = Evidence {
            labels: &labels,
            answer: &answer,
            top_kernel: devices.top,
            parts: devices.parts.into_iter().chain(found).collect(),
        };
        parts.extend(hints::section(&context, &evidence));
    }
    if wants(Section::Header) {
        // Said first and known last: what could not be read has been tried by now.
        let untimed = match needs(Section::Kernels) {
            true => devices.untimed,
            false => untimed(&context.traces, &context.sieves)?,
        };
        parts.splice(..0, headers(&context, &untimed));
    }
    let document = context.document("ringscope.report/1", parts);
    Ok((context.common, document))
}

/// How many rows a section has, of which people get so many unasked.
fn limit_of(args: &Args, context: &Context, usual: usize) -> Option<usize> {
    if args.all { None } else { context.common.limit(usual) }
}

/// The sections that are about a vocabulary. One that is asked for by its name says so if
/// there is nothing of the kind.
fn of_vocabularies(
    context: &Context,
    args: &Args,
    is_needed: impl Fn(&Section) -> bool,
) -> Result<Vec<(Section, Vec<Part>)>> {
    let needed = Section::value_variants().iter().filter(|section| is_needed(section));
    let (sections, reports): (Vec<Section>, Vec<&Report>) =
        needed.filter_map(|section| Some((*section, section.report()?))).unzip();
    let limit = limit_of(args, context, vocabulary::SECTION_ROWS);
    let mut found = vocabulary::sections(context, &reports, limit)?;
    for ((section, report), parts) in sections.iter().zip(&reports).zip(&mut found) {
        if parts.is_empty() && args.section.contains(section) {
            parts.push(report.nothing());
        }
    }
    Ok(sections.into_iter().zip(found).collect())
}

fn headers(context: &Context, untimed: &[Untimed]) -> Vec<Part> {
    let one = context.traces.list.len() == 1;
    let key = |loaded: &Loaded| match one {
        true => "header".to_owned(),
        false => format!("header of {}", loaded.label),
    };
    let of = |(at, loaded): (usize, &Loaded)| {
        let untimed: Vec<Untimed> = untimed.iter().filter(|it| it.trace == at).cloned().collect();
        let unreadable = context.traces.events_unreadable(at);
        header(&context.common, loaded, unreadable, &untimed, key(loaded))
    };
    context.traces.list.iter().enumerate().map(of).collect()
}

/// What, where, when, how long; and what is missing, before any figure.
fn header(
    common: &Common,
    loaded: &Loaded,
    unreadable: u64,
    untimed: &[Untimed],
    key: String,
) -> Part {
    let trace = &loaded.trace;
    let said = |key: &str| trace.metadata().get(key).map(|text| shown(text).into_owned());
    let mut lines = Vec::new();
    if let Some(command) = said("process.command") {
        lines.push(format!("  {command}"));
    }
    let begun = about::begun(loaded).unwrap_or_else(|| "begun at an unknown time".to_owned());
    let mut place = format!("  {begun}");
    if let Some(host) = said("host.name") {
        place.push_str(&format!(" on {host}"));
    }
    let machine =
        [said("host.os"), said("host.arch"), said("host.cpus").map(|n| format!("{n} cpus"))];
    let machine: Vec<String> = machine.into_iter().flatten().collect();
    if !machine.is_empty() {
        place.push_str(&format!(" ({})", machine.join(", ")));
    }
    place.push_str(&about::process(loaded));
    lines.push(place);
    lines.extend(about::flight(loaded).map(|flight| format!("  {flight}")));
    // The recorder's own readings are no events of the program.
    let own = loaded.readings();
    let readings = match own {
        0 => String::new(),
        own => format!(" and {} readings of the recorder", count(own)),
    };
    lines.push(format!(
        "  {} events{readings} over {} on {}; clock {}",
        count(loaded.events - own),
        about::in_words(loaded.length_ns()),
        about::tracks(loaded),
        about::clock_error(loaded),
    ));
    lines.push(format!("  {}", ending(loaded)));
    lines.push(format!("  {}", account(loaded, unreadable)));
    let elsewhere = loaded.account().and_then(|account| account.elsewhere(loaded));
    lines.extend(elsewhere.map(|said| format!("  {}", shown(&said))));
    if !untimed.is_empty() {
        lines.push(format!("  NO TIME of device work: {}", in_words(untimed)));
    }
    let own_cost = OwnCost::of(loaded);
    lines.extend(own_cost.map(|cost| format!("  {}", cost.in_words())));
    lines.extend(part::line(common).map(|line| format!("  {line}")));
    let mut value = about::one_trace_json(loaded);
    if let Some(object) = value.as_object_mut() {
        object.insert("tracks_in_use".to_owned(), loaded.tracks_in_use().into());
    }
    if let (Some(object), Some(part)) = (value.as_object_mut(), part::value(common)) {
        object.insert("tables_of".to_owned(), part);
    }
    if let (Some(object), Some(cost)) = (value.as_object_mut(), own_cost) {
        object.insert("own_cost".to_owned(), cost.json());
    }
    if let (Some(object), false) = (value.as_object_mut(), untimed.is_empty()) {
        let all = untimed.iter().fold(0_u64, |sum, it| sum.saturating_add(it.count));
        object.insert("device_work_without_a_time".to_owned(), all.into());
    }
    Part::Text { key, title: shown(&loaded.path.display().to_string()).into_owned(), lines, value }
}

fn ending(loaded: &Loaded) -> String {
    let text = about::state(loaded);
    match loaded.trace.vitals().map(|vitals| vitals.state) {
        Some(RecordingState::Finished) if loaded.source_state().is_none() => {
            "finished in order".to_owned()
        }
        _ => text,
    }
}

/// What became of every event.
fn account(loaded: &Loaded, unreadable: u64) -> String {
    let (Some(vitals), Some(account)) = (loaded.trace.vitals(), loaded.account()) else {
        return "what was lost is unknown".to_owned();
    };
    let own = &account.own;
    let missing = about::events_missing(loaded, unreadable);
    let damaged = match missing {
        Some(0) => String::new(),
        Some(missing) => format!("DAMAGED: {} events unreadable; ", count(missing)),
        None if loaded.trace.damage().is_empty() => String::new(),
        None => "DAMAGED: an unknown number of events unreadable; ".to_owned(),
    };
    let of = about::of_the_recording(account.scope);
    let mut text = match own.total_lost() {
        0 if loaded.source_state().is_some() => {
            format!("{damaged}nothing else is known to be lost")
        }
        0 if damaged.is_empty() => "nothing lost".to_owned(),
        0 => format!("{damaged}nothing lost while recording"),
        lost => format!(
            "{damaged}LOST {} of {} events{of} ({:.2} %): {}",
            count(lost),
            count(own.produced()),
            own.percent_lost(),
            own.causes(),
        ),
    };
    if own.total_skipped() > 0 {
        text.push_str(&format!(
            "; {} skipped on request: {}",
            count(own.total_skipped()),
            own.skips()
        ));
    }
    if vitals.overwritten > 0 {
        let left_out = about::left_out(loaded);
        text.push_str(&format!("; {} older ones {left_out}", count(vitals.overwritten)));
    }
    if vitals.texts_cut > 0 {
        text.push_str(&format!("; {} long texts of errors cut", count(vitals.texts_cut)));
        text.push_str(about::texts_of(account.scope));
    }
    text
}

/// How many spans are how slow, and what part of the time they took.
fn categories(context: &Context, answer: &Answer) -> Option<Part> {
    let total: f64 = answer.categories.iter().map(|category| category.total_ns).sum();
    let all: u64 = answer.categories.iter().map(|category| category.count).sum();
    if all == 0 {
        return None;
    }
    let columns = vec![
        Column::new("category", "category"),
        Column::new("from_ns", "from"),
        Column::new("count", "count"),
        Column::new("count_percent", "count %"),
        Column::new("total_ns", "total"),
        Column::new("time_percent", "time %"),
    ];
    let title = "Performance categories, of all spans: nested ones count in their parents too";
    let mut table = Table::new("categories", title, columns);
    let from = std::iter::once(0.0).chain(context.common.bounds.iter().copied());
    for ((name, from), category) in CATEGORIES.iter().zip(from).zip(&answer.categories) {
        table.rows.push(vec![
            Cell::from(*name),
            Cell::Ns(from),
            Cell::Count(category.count),
            spans::percent(category.count as f64, all as f64),
            Cell::Ns(category.total_ns),
            spans::percent(category.total_ns, total),
        ]);
    }
    Some(Part::Table(table))
}
