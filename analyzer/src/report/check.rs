//! `check`: whether a file is whole. Decodes everything once.

use ringscope_format::{Batch, Columns, RecordingState};
use serde_json::json;

use super::{Context, about};
use crate::{
    Exit, Result,
    cli::Common,
    output::{Document, Part, count, shown},
    scan::{Visitor, scan},
};

/// Options of `check`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
}

/// Decoding is the check; nothing is kept but a count.
struct Counting {
    events: Vec<u64>,
    backwards: Vec<u64>,
}

impl Visitor for Counting {
    fn chunk(&mut self, trace: usize, batch: &Batch) {
        self.events[trace] += batch.events as u64;
        let timed = |&(kind, _): &(&u8, &u64)| ringscope_format::Kind(*kind).is_timed();
        let values = batch.kind.iter().zip(&batch.value).filter(timed);
        self.backwards[trace] += values.filter(|&(_, &value)| (value as i64) < 0).count() as u64;
    }
}

pub(crate) fn run(args: Args) -> Result<(Common, Document, Exit)> {
    // Of several files, those that cannot be used are told of and the others checked all the same.
    let (context, unusable) = Context::open_usable(args.common)?;
    for error in &unusable {
        eprintln!("analyze: {error}");
    }
    let traces = context.traces.list.len();
    let found = scan(&context.traces, Columns::ALL | Columns::LONG_TEXTS, "checking", || {
        Counting { events: vec![0; traces], backwards: vec![0; traces] }
    })?;
    let mut parts = Vec::new();
    let mut damaged = false;
    for (at, loaded) in context.traces.list.iter().enumerate() {
        let sum = |of: fn(&Counting) -> &Vec<u64>| -> u64 {
            found.iter().map(|visitor| of(visitor)[at]).sum()
        };
        let readable = sum(|visitor| &visitor.events);
        let backwards = sum(|visitor| &visitor.backwards);
        let mut lines = Vec::new();
        let mut problems: Vec<String> =
            loaded.trace.damage().iter().map(ToString::to_string).collect();
        let unreadable = context.traces.unreadable().into_iter().filter(|it| it.trace == at);
        problems.extend(unreadable.map(|it| it.message));
        if loaded.trace.metadata().contains_key("converted_from") {
            let source = loaded.source_state();
            problems.extend(source.map(|state| format!("its source: {}", shown(state))));
        }
        let vitals = loaded.trace.vitals();
        lines.push(format!("  {:<10} {}", "state", about::state(loaded)));
        lines.push(format!("  {:<10} {} readable", "events", count(readable)));
        if let Some((vitals, account)) = vitals.zip(loaded.account()) {
            let exact =
                if vitals.state == RecordingState::Recording { ", so far as is known" } else { "" };
            let of = about::of_the_recording(account.scope);
            lines.push(match account.own.total_lost() {
                0 => format!("  {:<10} none{exact}", "lost"),
                lost => {
                    let causes = account.own.causes();
                    format!("  {:<10} {}{of}{exact}: {causes}", "lost", count(lost))
                }
            });
            if about::has_long_texts(vitals) {
                let of = about::texts_of(account.scope);
                lines.push(format!("  {:<10} {}{of}", "long texts", about::long_texts(vitals)));
            }
        }
        let clock = loaded.trace.clock();
        lines.push(format!(
            "  {:<10} {}, {} jumps, {} suspends, {} durations below zero",
            "clock",
            about::clock_error(loaded),
            clock.jumps().len(),
            clock.suspends().len(),
            count(backwards),
        ));
        lines.extend(problems.iter().map(|problem| format!("  {:<10} {problem}", "damaged")));
        let verdict = if problems.is_empty() { "whole" } else { "damaged" };
        lines.push(format!("  {:<10} {verdict}", "verdict"));
        damaged |= !problems.is_empty();
        parts.push(Part::Text {
            key: loaded.label.clone(),
            title: shown(&loaded.path.display().to_string()).into_owned(),
            lines,
            value: json!({
                "verdict": verdict,
                "events_readable": readable,
                "durations_below_zero": backwards,
                "damage": problems,
            }),
        });
    }
    let exit = match (!unusable.is_empty(), damaged) {
        (true, _) => Exit::Unusable,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Ok,
    };
    let document = context.document("ringscope.check/1", parts);
    Ok((context.common, document, exit))
}
