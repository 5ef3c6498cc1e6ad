//! Folded stacks: `outer;inner 1234`, the time in nanoseconds that a span of `inner`
//! within `outer` spent itself, for flame graphs.
//!
//! Of what nests on threads; kernels and asynchronous spans are in no stack. A `;` in
//! a name becomes a `:`, and control characters are escaped: the format has no way to
//! quote.

use std::io::Write;

use super::{Exporter, events::Source};
use crate::{
    Result,
    output::shown,
    summary::{
        Scale,
        paths::{Found, NO_PATH, PathQuestion, Roots, Step},
    },
};

pub(super) struct Folded {
    pub(super) per_track: bool,
}

/// One stack.
pub(super) struct Stack {
    /// Outermost first.
    pub(super) frames: Vec<String>,
    pub(super) spans: u64,
    pub(super) self_ns: u64,
}

impl Exporter for Folded {
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        for stack in stacks(source, self.per_track).iter().filter(|stack| stack.self_ns > 0) {
            let frames: Vec<String> =
                stack.frames.iter().map(|frame| shown(frame).replace(';', ":")).collect();
            writeln!(out, "{} {}", frames.join(";"), stack.self_ns)?;
        }
        Ok(())
    }
}

/// All stacks that spans ended in, by their frames.
pub(super) fn stacks(source: &Source<'_>, per_track: bool) -> Vec<Stack> {
    let roots = if per_track { Roots::ByTrack } else { Roots::Together };
    let (traces, sieves) = (source.traces(), &source.context.sieves[..]);
    let has_devices = traces.list.iter().any(|it| it.tracks.values().any(|track| track.is_queue));
    if has_devices {
        eprintln!(
            "analyze: stacks are of threads: the work of devices is left out; chrome and perfetto \
             have it"
        );
    }
    let found = PathQuestion { traces, sieves, roots }.answer();
    let unit_ns = Scale::of(traces).unit_ns;
    let with_spans = found.sums.iter().enumerate().filter(|(_, sum)| sum.moments.count > 0);
    let mut stacks: Vec<Stack> = with_spans
        .map(|(path, sum)| Stack {
            frames: frames(source, &found, path as u32),
            spans: sum.moments.count,
            // Children take longer than their parent where the clock ran backwards.
            self_ns: (sum.moments.total.saturating_sub(sum.children) as f64 * unit_ns).round()
                as u64,
        })
        .collect();
    stacks.sort_unstable_by(|a, b| a.frames.cmp(&b.frames));
    stacks
}

fn frames(source: &Source<'_>, found: &Found, path: u32) -> Vec<String> {
    let mut frames = Vec::new();
    let mut at = path;
    while at != NO_PATH {
        let node = &found.paths.nodes[at as usize];
        let traces = source.traces();
        frames.push(match node.step {
            Step::Name(name) => traces.names[name as usize].clone(),
            Step::Track(trace, track) if traces.list.len() > 1 => {
                let label = &traces.list[trace as usize].label;
                format!("{label}: {}", source.track(trace as usize, track))
            }
            Step::Track(trace, track) => source.track(trace as usize, track),
            Step::Trace(trace) => traces.list[trace as usize].label.clone(),
            Step::Beyond => "(further stacks)".to_owned(),
        });
        at = node.parent;
    }
    frames.reverse();
    frames
}
