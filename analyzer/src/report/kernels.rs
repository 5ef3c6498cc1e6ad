//! `kernels`: work of devices by name, and what the devices did with their time.
//!
//! Rows are by full name unless told otherwise: a base name is shorter, but
//! `elementwise_kernel` is one name for every elementwise operation there is.
//!
//! Figures of the second table are of the work that the filters let through. With
//! a filter on names, tracks or durations, what else ran in a gap is not known, so idle
//! time has no causes then and communication is not compared with computation.

use super::{Context, about::in_words, spans, timing};
use crate::{
    Result,
    cli::{Common, parse_length},
    device::{
        self, DeviceWork, Queue,
        groups::{self, Apart, Group, GroupBy, Summed},
        names::gist,
        timeline::KERNEL_WAIT_NS,
        timing::{Untimed, untimed},
    },
    output::{Cell, Column, Document, Format, Part, Selection, Table, count},
};

/// Rows that people get unasked.
const USUAL_ROWS: usize = 20;
/// Below this many columns of a terminal, people get fewer figures, or nothing
/// would be left for names.
const WIDE: usize = 170;
/// Queues and devices are listed to people up to so many.
const LISTED: usize = 3;

/// Options of `kernels`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// What one row stands for
    #[arg(long, value_enum, default_value_t)]
    group_by: GroupBy,
    /// Rows of their own for each trace, device or queue
    #[arg(long, value_enum)]
    by: Option<Apart>,
    /// Gaps before queued work that are shorter than this are kernel-wait, not other
    #[arg(long, value_name = "TIME", value_parser = parse_length, default_value = "30ns")]
    kernel_wait: f64,
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let context = Context::open(args.common)?;
    let limit = context.common.limit(USUAL_ROWS);
    let found = device::load(&context.traces, &context.sieves, context.common.budget())?;
    let nothing = match &found {
        None => {
            "  no kernels, copies or fills in this trace: GPU profilers and importers record them"
        }
        Some(_) => "  no kernels, copies or fills that the filters let through",
    };
    let work = found.unwrap_or_default();
    warn(&work);
    let untimed = untimed(&context.traces, &context.sieves)?;
    let summed = groups::sum(&context.traces, &work, args.group_by, args.by);
    let mut table = kernel_table(&context, &work, &summed, args.by);
    table.title = timing::heading(&table.title, &work, &untimed);
    if work.work.is_empty() {
        table.note = nothing.to_owned();
    }
    if context.common.sort.is_none() {
        add_others(&mut table, &context, &work, &summed, limit);
    }
    let mut table = context.arrange(table, limit)?;
    add_unlaunched(&mut table, &summed);
    let mut parts = vec![Part::Table(table)];
    if !work.work.is_empty() || context.common.for_machines() {
        parts.push(Part::Table(device_table(&context, &work, args.kernel_wait)?));
    }
    parts.extend(timing::parts(&context, &work, &untimed)?);
    let document = context.document("ringscope.kernels/1", parts);
    Ok((context.common, document))
}

/// What `report` has to say about devices.
#[derive(Default)]
pub(super) struct Section {
    /// The top kernels by full name, the devices, and what is coarse or missing.
    pub(super) parts: Vec<Part>,
    /// The whole name of the first of them: a table may have its gist alone.
    pub(super) top: Option<String>,
    /// Work of which no time is known.
    pub(super) untimed: Vec<Untimed>,
}

/// For `report`. Empty if the traces hold no work of devices, which is cheap to
/// find out, or more of it than memory takes, which is said.
pub(super) fn section(context: &Context, limit: Option<usize>) -> Result<Section> {
    let untimed = untimed(&context.traces, &context.sieves)?;
    let work = match device::load(&context.traces, &context.sieves, context.common.budget()) {
        Ok(Some(work)) => work,
        found => {
            found.inspect_err(|error| eprintln!("analyze: {error}")).ok();
            let parts = timing::parts(context, &DeviceWork::default(), &untimed)?;
            return Ok(Section { parts, untimed, top: None });
        }
    };
    warn(&work);
    let summed = groups::sum(&context.traces, &work, GroupBy::Name, None);
    let mut table = kernel_table(context, &work, &summed, None);
    add_others(&mut table, context, &work, &summed, limit);
    if let Some(limit) = limit {
        table.rows.truncate(limit);
    }
    add_unlaunched(&mut table, &summed);
    Selection::default().choose_columns(&mut table, context.common.for_machines())?;
    let devices = device_table(context, &work, KERNEL_WAIT_NS)?;
    table.title = timing::heading(&table.title, &work, &untimed);
    let mut parts = vec![Part::Table(table), Part::Table(devices)];
    parts.extend(timing::parts(context, &work, &untimed)?);
    let top = summed.groups.first().map(|group| group.label.clone());
    Ok(Section { parts, top, untimed })
}

/// Says what makes the figures less than the whole truth.
fn warn(work: &DeviceWork) {
    if work.backwards > 0 {
        let n = count(work.backwards);
        eprintln!(
            "analyze: {n} kernels end before they start: their clock ran backwards; they count as 0"
        );
    }
    let early = work.work.iter().filter(|it| it.queue_delay().is_some_and(|delay| delay < 0));
    let early = early.count() as u64;
    if early > 0 {
        let n = count(early);
        eprintln!(
            "analyze: {n} kernels start before their launch: the clocks of host and device disagree; queue delays are off by as much"
        );
    }
}

fn kernel_table(
    context: &Context,
    work: &DeviceWork,
    summed: &Summed,
    apart: Option<Apart>,
) -> Table {
    let mut columns = vec![
        Column::new("time_percent", "time %"),
        Column::new("cumulative_percent", "cum %"),
        Column::new("total_ns", "total"),
        Column::new("count", "count"),
        Column::new("mean_ns", "mean"),
    ];
    for percentile in &context.common.percentiles {
        columns.push(Column::new(spans::percentile_key(*percentile), format!("p{percentile}")));
    }
    columns.extend([
        Column::hidden("min_ns", "min"),
        Column::new("max_ns", "max"),
        Column::hidden("std_ns", "std"),
        Column::hidden("rsd_percent", "rsd %"),
        Column::new("queue_delay_mean_ns", "delay"),
        Column::new("queue_delay_p95_ns", "delay p95"),
        Column::hidden("launched", "launched"),
        Column::hidden("bytes", "bytes"),
        Column::hidden("trace", "trace"),
        Column::hidden("device", "device"),
        Column::hidden("queue", "queue"),
        Column::hidden("grid", "grid"),
        Column::hidden("block", "block"),
        Column::hidden("category", "category"),
        Column::new("kind", "kind"),
        Column::new("name", "name"),
    ]);
    let narrow = context.common.style().width.is_some_and(|width| width < WIDE);
    let groups = &summed.groups;
    let is_apart = |column: &str| match apart {
        None => false,
        Some(Apart::Trace) => column == "trace",
        Some(Apart::Device) => matches!(column, "trace" | "device"),
        Some(Apart::Queue) => true,
    };
    let several_traces = context.traces.list.len() > 1;
    let several_devices = work.queues.iter().any(|it| it.device != work.queues[0].device);
    let by_shape = groups.iter().any(|group| group.shape.is_some());
    let middle = match &context.common.percentiles[..] {
        [_, middle @ .., _] if narrow => middle,
        _ => &[],
    };
    for column in &mut columns {
        column.shown = match column.key.as_str() {
            "cumulative_percent" | "queue_delay_p95_ns" | "max_ns" => !narrow,
            "trace" => several_traces && is_apart("trace"),
            "device" => is_apart("device") || (several_devices && !several_traces),
            "queue" => is_apart("queue"),
            "grid" | "block" => by_shape,
            "kind" => groups.iter().any(|group| group.kind.is_some_and(|it| it != group.label)),
            key => column.shown && middle.iter().all(|&it| key != spans::percentile_key(it)),
        };
    }
    let mut table = Table::new("kernels", "Kernels, copies and fills", columns);
    let rows = Rows::new(context, work, summed);
    let mut so_far = 0;
    for group in groups {
        so_far += group.durations.total;
        table.rows.push(rows.row(group, so_far));
    }
    table
}

/// Says of how much work the delays are not.
fn add_unlaunched(table: &mut Table, summed: &Summed) {
    let without = |group: &Group| group.durations.count - group.launched();
    let unlaunched: u64 = summed.groups.iter().map(without).sum();
    let all = summed.groups.iter().map(|group| group.durations.count).sum();
    if unlaunched > 0 {
        let before = if table.note.is_empty() { "  " } else { "; " };
        let (n, all) = (count(unlaunched), count(all));
        let text = format!("{before}{n} of {all} without a launch on record, so without a delay");
        table.note.push_str(&text);
    }
}

/// What every row is made with.
struct Rows<'a> {
    context: &'a Context,
    work: &'a DeviceWork,
    unit_ns: f64,
    /// The durations of all groups together.
    whole: u128,
    /// The two ends of a C++ name that was cut to fit a terminal say nothing.
    gist_of_names: bool,
}

impl<'a> Rows<'a> {
    fn new(context: &'a Context, work: &'a DeviceWork, summed: &Summed) -> Self {
        let common = &context.common;
        Self {
            context,
            work,
            unit_ns: summed.unit_ns,
            whole: summed.groups.iter().map(|group| group.durations.total).sum(),
            gist_of_names: common.style().width.is_some() && !common.for_machines(),
        }
    }

    fn row(&self, group: &Group, so_far: u128) -> Vec<Cell> {
        let durations = &group.durations;
        let ns = |units: f64| Cell::Ns(units * self.unit_ns);
        let maybe_ns = |units: Option<f64>| units.map_or(Cell::None, ns);
        let text = |text: Option<&str>| text.map_or(Cell::None, Cell::from);
        let mut row = vec![
            spans::percent(durations.total as f64, self.whole as f64),
            spans::percent(so_far as f64, self.whole as f64),
            ns(durations.total as f64),
            Cell::Count(durations.count),
            ns(durations.mean()),
        ];
        let percentiles = &self.context.common.percentiles;
        row.extend(percentiles.iter().map(|&it| maybe_ns(group.percentile(it))));
        let queues = || group.queues.iter().map(|&at| &self.work.queues[at as usize]);
        let of_trace = |queue: &Queue| self.context.traces.list[queue.trace].label.clone();
        let format = self.context.common.format();
        let is_long = group.label.contains(['<', '(']);
        let gist_of_name = self.gist_of_names && is_long;
        let name = if gist_of_name { gist(&group.label) } else { group.label.clone() };
        row.extend([
            ns(durations.min as f64),
            ns(durations.max as f64),
            ns(durations.std()),
            spans::percent(durations.std(), durations.mean()),
            maybe_ns(group.mean_delay()),
            maybe_ns(group.delay_percentile(95.0)),
            Cell::Count(group.launched()),
            group.bytes.map_or(Cell::None, |bytes| Cell::Bytes(bytes as f64)),
            listed("traces", queues().map(of_trace), format),
            listed("devices", queues().map(|queue| queue.device.clone()), format),
            listed("queues", queues().map(|queue| queue.name.clone()), format),
            text(group.shape.as_ref().map(|shape| shape.grid.as_str())),
            text(group.shape.as_ref().map(|shape| shape.block.as_str())),
            text(group.category),
            text(group.kind),
            Cell::from(name),
        ]);
        row
    }
}

/// A few names, or how many there are; machines get all of them.
fn listed(what: &str, names: impl Iterator<Item = String>, format: Format) -> Cell {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    match (format, names.len()) {
        (Format::Json, _) => Cell::Json(names.into()),
        (Format::Csv, _) | (_, 0..=LISTED) => Cell::from(names.join(", ")),
        (_, n) => Cell::from(format!("{n} {what}")),
    }
}

/// What the limit leaves out, as one row that adds up.
fn add_others(
    table: &mut Table,
    context: &Context,
    work: &DeviceWork,
    summed: &Summed,
    limit: Option<usize>,
) {
    let Some(limit) = limit.filter(|&limit| limit < summed.groups.len()) else { return };
    let rest = &summed.groups[limit..];
    let others = Group::together(rest, format!("({} others)", count(rest.len() as u64)));
    let rows = Rows::new(context, work, summed);
    table.footer = Some(rows.row(&others, rows.whole));
    table.note = "  all of them: --limit 0".to_owned();
}

/// A row for each device, and one for each of its queues if it has several.
fn device_table(context: &Context, work: &DeviceWork, kernel_wait_ns: f64) -> Result<Table> {
    let mut table = Table::new(
        "devices",
        "Devices",
        vec![
            Column::hidden("trace", "trace"),
            Column::new("device", "device"),
            Column::new("queue", "queue"),
            Column::new("count", "count"),
            Column::new("span_ns", "span"),
            Column::hidden("busy_ns", "busy"),
            Column::new("busy_percent", "busy %"),
            Column::hidden("idle_ns", "idle"),
            Column::new("idle_percent", "idle %"),
            Column::hidden("host_bound_ns", "host-bound"),
            Column::new("host_bound_percent", "host-bound %"),
            Column::hidden("kernel_wait_ns", "kernel-wait"),
            Column::new("kernel_wait_percent", "kernel-wait %"),
            Column::hidden("other_idle_ns", "other"),
            Column::new("other_idle_percent", "other %"),
            Column::hidden("overlap_ns", "overlap"),
            Column::new("overlap_percent", "overlap %"),
            Column::hidden("computation_ns", "computation"),
            Column::hidden("communication_ns", "comm"),
            Column::hidden("communication_percent", "comm %"),
            Column::hidden("communication_overlap_ns", "comm hidden"),
            Column::hidden("communication_overlap_percent", "comm hidden %"),
        ],
    );
    let filter = &context.filter;
    let is_partial =
        !filter.names.is_empty() || !filter.tracks.is_empty() || filter.duration_ns.is_some();
    let mut communicates = false;
    for usage in device::timeline::usage(&context.traces, work, kernel_wait_ns) {
        let sum = usage.timeline;
        let is_queue = usage.queue.is_some();
        communicates |= sum.communication > 0;
        let ns_per_tick = context.traces.list[usage.trace].trace.clock().ns_per_tick();
        let ns = |ticks: u64| Cell::Ns(ticks as f64 * ns_per_tick);
        let share = |ticks: u64, of: u64| spans::percent(ticks as f64, of as f64);
        let known = |cell: Cell| if is_partial { Cell::None } else { cell };
        // What hides communication runs on another queue.
        let compared = |cell: Cell| if is_queue { Cell::None } else { known(cell) };
        table.rows.push(vec![
            Cell::from(context.traces.list[usage.trace].label.as_str()),
            Cell::from(usage.device),
            Cell::from(usage.queue.unwrap_or_else(|| "all".to_owned())),
            Cell::Count(usage.count),
            ns(sum.span),
            ns(sum.busy),
            share(sum.busy, sum.span),
            ns(sum.idle.total()),
            share(sum.idle.total(), sum.span),
            known(ns(sum.idle.host_bound)),
            known(share(sum.idle.host_bound, sum.span)),
            known(ns(sum.idle.kernel_wait)),
            known(share(sum.idle.kernel_wait, sum.span)),
            known(ns(sum.idle.other)),
            known(share(sum.idle.other, sum.span)),
            ns(sum.overlap),
            share(sum.overlap, sum.span),
            ns(sum.computation),
            ns(sum.communication),
            share(sum.communication, sum.span),
            compared(ns(sum.hidden_communication)),
            compared(share(sum.hidden_communication, sum.communication)),
        ]);
    }
    let several_traces = context.traces.list.len() > 1;
    for column in &mut table.columns {
        match column.key.as_str() {
            "trace" => column.shown = several_traces,
            "communication_percent" | "communication_overlap_percent" => {
                column.shown = communicates;
            }
            _ => {}
        }
    }
    table.note = if is_partial {
        "  of the work that the filters let through; why a device was idle takes all of its work"
            .to_owned()
    } else {
        let short = in_words(kernel_wait_ns).replace(".00", "");
        format!(
            "  % of the span. Idle before work that was launched too late: host-bound; launched in \
             time, gap < {short}: kernel-wait"
        )
    };
    Selection::default().choose_columns(&mut table, context.common.for_machines())?;
    Ok(table)
}
