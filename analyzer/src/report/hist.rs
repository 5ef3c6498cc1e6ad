//! `hist`: how the durations of a name are distributed, drawn in the terminal.
//!
//! Two readings: the first finds the least, the longest and the percentiles, the
//! next counts. Counts are exact. A bucket holds what is at least its lower bound
//! and below its upper one; the last holds the longest too.

use ringscope_format::{Batch, ChunkInfo, Columns, Kind};
use serde_json::json;

use super::{
    Context, about,
    modes::{self, Modes},
    spans::{percent, percentile_key},
};
use crate::{
    Error, Result,
    cli::Common,
    filter::Patterns,
    output::{Cell, Column, Document, Part, Table, count, json_number, shown},
    scan::{Visitor, scan},
    summary::{Group, Key, NO_GROUP, Question, Scale},
};

/// Buckets that people get unasked, at most.
const USUAL_BUCKETS: usize = 24;
/// Fewer round ones than this are too coarse.
const FEW_BUCKETS: usize = 8;
/// More than anyone looks at.
const MOST_BUCKETS: usize = 10_000;
/// Characters of the longest bar.
const BAR: usize = 40;

/// Options of `hist`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Which names: `attn*`
    #[arg(value_name = "NAME")]
    pattern: String,
    #[command(flatten)]
    common: Common,
    /// Buckets of equal width, instead of equal ratio
    #[arg(long)]
    linear: bool,
    /// How many buckets [default: as many as there are round bounds for]
    #[arg(long, value_name = "N")]
    buckets: Option<usize>,
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    if args.buckets.is_some_and(|buckets| !(1..=MOST_BUCKETS).contains(&buckets)) {
        return Err(Error::new(format!("--buckets: give 1 to {MOST_BUCKETS}")));
    }
    let context = Context::open(args.common.clone())?;
    let names = Patterns::parse([args.pattern.as_str()])?;
    let matches: Vec<bool> = context.traces.names.iter().map(|name| names.matches(name)).collect();
    let question = question(&context, &matches);
    let answer = question.answer()?;
    let group = answer.groups.first().cloned().unwrap_or_default();
    let scale = Scale::of(&context.traces);
    let bounds = if group.count == 0 { Vec::new() } else { bounds(&args, &group, scale.unit_ns) };
    let counted =
        if group.count == 0 { Counted::default() } else { counted(&question, &scale, &bounds)? };
    let table = table(&args, &context, &group, &bounds, &counted.counts)?;
    let mut parts = Vec::new();
    if group.count > 0 {
        let names = context.traces.names.iter().zip(&counted.names);
        let names: Vec<&str> =
            names.filter(|(_, occurs)| **occurs).map(|(name, _)| name.as_str()).collect();
        let mut modes = modes::find(&counted.fine, scale.unit_ns);
        // The middle of a bucket may lie outside of what there is.
        for peak in &mut modes.peaks_ns {
            *peak = peak.clamp(group.min_ns, group.max_ns);
        }
        parts.push(head(&context, &names, &group, &modes));
    }
    parts.push(Part::Table(table));
    let document = context.document("ringscope.hist/1", parts);
    Ok((context.common, document))
}

/// What has slices is in by those.
fn counts(kind: Kind) -> bool {
    kind.is_timed() && !kind.is_overlay()
}

/// All names that match are one group.
fn question<'a>(context: &'a Context, matches: &[bool]) -> Question<'a> {
    let group = |matches: bool| if matches { 0 } else { NO_GROUP };
    let group_of = context.traces.list.iter().map(|loaded| {
        let ids = 0..=loaded.name_of.len() as u32;
        ids.map(|id| group(matches[loaded.name_index(id) as usize])).collect()
    });
    Question {
        traces: &context.traces,
        sieves: context.sieves.clone(),
        kinds: counts,
        key: Key::Name,
        group_of: group_of.collect(),
        groups: 1,
        percentiles: context.common.percentiles.clone(),
        self_time: false,
        top: None,
        bounds_ns: Vec::new(),
    }
}

/// Lower bounds of the buckets in nanoseconds, and the upper one of the last. Those in between
/// are whole picoseconds: a duration that equals a bound as printed is in the bucket above it.
fn bounds(args: &Args, group: &Group, unit_ns: f64) -> Vec<f64> {
    let mut bounds = unrounded_bounds(args, group, unit_ns);
    if let [_, inner @ .., _] = &mut bounds[..] {
        inner.iter_mut().for_each(|bound| *bound = (*bound * 1e3).round() / 1e3);
    }
    bounds
}

fn unrounded_bounds(args: &Args, group: &Group, unit_ns: f64) -> Vec<f64> {
    let (least, most) = (group.min_ns, group.max_ns);
    if least == most {
        return vec![least, most];
    }
    if args.linear {
        let buckets = args.buckets.unwrap_or(USUAL_BUCKETS);
        let width = (most - least) / buckets as f64;
        let mut bounds: Vec<f64> = (0..buckets).map(|at| least + width * at as f64).collect();
        bounds.push(most);
        return bounds;
    }
    // There is no logarithm of nothing: what has no duration gets a bucket of its own.
    let first = least.max(unit_ns);
    let mut bounds = match args.buckets {
        Some(buckets) => equal_ratios(first, most, buckets),
        None => round(first, most).unwrap_or_else(|| equal_ratios(first, most, USUAL_BUCKETS / 2)),
    };
    if least < first {
        bounds.insert(0, 0.0);
    }
    bounds
}

fn equal_ratios(first: f64, last: f64, buckets: usize) -> Vec<f64> {
    let ratio = (last / first).powf(1.0 / buckets as f64);
    let mut bounds: Vec<f64> = (0..buckets).map(|at| first * ratio.powi(at as i32)).collect();
    bounds.push(last);
    bounds
}

/// Round bounds around both ends: as many as fit, unless those are too few.
fn round(first: f64, last: f64) -> Option<Vec<f64>> {
    const SERIES: [&[f64]; 5] = [
        &[
            1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.5, 2.8, 3.2, 3.6, 4.0, 4.5, 5.0, 5.6, 6.3,
            7.1, 8.0, 9.0,
        ],
        &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
        &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
        &[1.0, 2.0, 5.0],
        &[1.0],
    ];
    let from = first.log10().floor() as i32 - 1;
    let to = last.log10().ceil() as i32 + 1;
    for series in SERIES {
        let all: Vec<f64> = (from..=to)
            .flat_map(|power| series.iter().map(move |step| decimal(*step, power)))
            .collect();
        let begin = all.partition_point(|&bound| bound <= first).saturating_sub(1);
        let end = all.partition_point(|&bound| bound <= last);
        let bounds = all.get(begin..=end)?;
        if bounds.len() - 1 <= USUAL_BUCKETS {
            return (bounds.len() > FEW_BUCKETS).then(|| bounds.to_vec());
        }
    }
    None
}

/// A number with one decimal times a power of ten, as near as can be: 110, not 110.00000000000001.
fn decimal(step: f64, power: i32) -> f64 {
    let tenths = (step * 10.0).round();
    match power - 1 {
        down @ ..0 => tenths / 10_f64.powi(-down),
        up => tenths * 10_f64.powi(up),
    }
}

/// Counts by bucket, and by the finer ones that modes are looked for in.
struct Counting<'a> {
    question: &'a Question<'a>,
    scale: &'a Scale,
    /// The least value of each bucket but the first.
    bounds: Vec<u64>,
    counts: Vec<u64>,
    fine: Vec<u64>,
    /// Which names occur.
    names: Vec<bool>,
}

impl Visitor for Counting<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        self.question.sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let groups = &self.question.group_of[trace];
        let sieve = &self.question.sieves[trace];
        for at in 0..batch.events {
            let group = groups.get(batch.name[at] as usize).or(groups.last());
            if counts(Kind(batch.kind[at])) && group == Some(&0) && sieve.takes_record(batch, at) {
                let value = self.scale.scale(trace, (batch.value[at] as i64).max(0) as u64);
                self.counts[self.bounds.partition_point(|&bound| bound <= value)] += 1;
                self.fine[modes::bucket_of(value)] += 1;
                let name = self.question.traces.list[trace].name_index(batch.name[at]);
                self.names[name as usize] = true;
            }
        }
    }
}

/// What the second reading has found.
#[derive(Default)]
struct Counted {
    counts: Vec<u64>,
    fine: Vec<u64>,
    names: Vec<bool>,
}

fn counted(question: &Question<'_>, scale: &Scale, bounds_ns: &[f64]) -> Result<Counted> {
    let inner = bounds_ns.get(1..bounds_ns.len() - 1).unwrap_or_default();
    let bounds = scale.units(inner);
    let columns = Columns::VALUE | Columns::NAME | Columns::KIND;
    let columns = question.sieves.iter().fold(columns, |columns, sieve| columns | sieve.columns());
    let scanned = scan(question.traces, columns, "counting", || Counting {
        question,
        scale,
        counts: vec![0; bounds.len() + 1],
        bounds: bounds.clone(),
        fine: vec![0; modes::BUCKETS],
        names: vec![false; question.traces.names.len()],
    })?;
    let mut workers = scanned.into_iter();
    let Some(first) = workers.next() else { return Ok(Counted::default()) };
    let mut sum = Counted { counts: first.counts, fine: first.fine, names: first.names };
    for worker in workers {
        sum.counts.iter_mut().zip(&worker.counts).for_each(|(sum, count)| *sum += count);
        sum.fine.iter_mut().zip(&worker.fine).for_each(|(sum, count)| *sum += count);
        sum.names.iter_mut().zip(&worker.names).for_each(|(sum, occurs)| *sum |= occurs);
    }
    Ok(sum)
}

fn table(
    args: &Args,
    context: &Context,
    group: &Group,
    bounds: &[f64],
    counts: &[u64],
) -> Result<Table> {
    let mut columns = vec![
        Column::new("from_ns", "from"),
        Column::new("to_ns", "to"),
        Column::new("count", "count"),
        Column::hidden("percent", "%"),
        Column::new("cumulative_percent", "cumulative %"),
    ];
    let for_machines = context.common.for_machines();
    if !for_machines {
        columns.extend([Column::new("bar", ""), Column::new("marks", "")]);
    } else {
        columns.push(Column::new("marks", ""));
    }
    let mut table = Table::new("buckets", "", columns);
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let all: u64 = counts.iter().sum();
    let plain = !speaks_utf8();
    let mut so_far = 0;
    for (at, &count) in counts.iter().enumerate() {
        so_far += count;
        let (from, to) = (bounds[at], bounds[at + 1]);
        let is_last = at + 1 == counts.len();
        let marks = group.percentiles_ns.known(&context.common.percentiles);
        let marks: Vec<String> = marks
            .filter(|&(_, ns)| (at == 0 || ns >= from) && (is_last || ns < to))
            .map(|(percentile, _)| format!("p{percentile}"))
            .collect();
        let mut row = vec![
            Cell::Ns(from),
            Cell::Ns(to),
            Cell::Count(count),
            percent(count as f64, all as f64),
            percent(so_far as f64, all as f64),
        ];
        if !for_machines {
            row.push(Cell::Text(bar(count, most, plain)));
        }
        row.push(if for_machines { Cell::Json(marks.into()) } else { Cell::Text(marks.join(" ")) });
        table.rows.push(row);
    }
    if table.rows.is_empty() {
        table.note = format!(
            "  nothing with a duration matches {:?}; names are listed by: analyze spans",
            shown(&args.pattern)
        );
    }
    // Sorted or cut, buckets would be another distribution.
    context.common.selection().choose_columns(&mut table, for_machines)?;
    Ok(table)
}

/// A bar as long as `count` of `most`, in eighths of a character. What is there
/// is seen.
fn bar(count: u64, most: u64, plain: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let length = count as f64 / most as f64 * BAR as f64;
    if plain {
        let whole = (length.round() as usize).max(usize::from(count > 0));
        return "#".repeat(whole);
    }
    let eighths = ((length * 8.0).round() as usize).max(usize::from(count > 0));
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Whether the terminal takes more than ASCII, as far as the environment tells.
fn speaks_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// What is known beside the buckets.
fn head(context: &Context, names: &[&str], group: &Group, modes: &Modes) -> Part {
    let common = &context.common;
    let mut figures = vec![
        format!("{} of them", count(group.count)),
        format!("min {}", about::in_words(group.min_ns)),
    ];
    let percentiles = || group.percentiles_ns.known(&common.percentiles);
    figures.extend(percentiles().map(|(it, ns)| format!("p{it} {}", about::in_words(ns))));
    figures.push(format!("max {}", about::in_words(group.max_ns)));
    figures.push(format!("mean {}", about::in_words(group.mean_ns)));
    figures.push(format!("std {}", about::in_words(group.std_ns)));
    let mut lines = vec![format!("  {}", figures.join(", "))];
    if let Some(text) = modes.in_words() {
        lines.push(format!("  {text}"));
    }
    let title = match names {
        [one] => shown(one).into_owned(),
        [first, second] => format!("{} and {}", shown(first), shown(second)),
        [first, rest @ ..] => format!("{} and {} more names", shown(first), rest.len()),
        [] => String::new(),
    };
    let mut value = json!({
        "names": names,
        "count": group.count,
        "total_ns": json_number(group.total_ns),
        "mean_ns": json_number(group.mean_ns),
        "std_ns": json_number(group.std_ns),
        "min_ns": json_number(group.min_ns),
        "max_ns": json_number(group.max_ns),
        "modes_ns": modes.peaks_ns,
    });
    for (percentile, ns) in percentiles() {
        value[percentile_key(percentile)] = json_number(ns);
    }
    Part::Text { key: "all".to_owned(), title, lines, value }
}
