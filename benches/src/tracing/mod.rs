//! `tracing`: what a span of `tracing` costs, re-entered and new, with ringscope's
//! subscriber, its layer, and what others record with; and a candle model, unmodified,
//! with the subscriber installed.
//!
//! Every subscriber has a child process of its own, as in `record`, and rounds go
//! through all of them.

mod exporters;
mod figures;
mod model;
mod model_shape;
#[cfg(feature = "peers")]
mod peers;
pub(crate) mod subjects;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::child;
use crate::machine::Machine;
use crate::quantile::median;
use crate::record::hot_path::{self, Samples};

use exporters::Pairs;
use model_shape::Shape;

pub(crate) use figures::{Figures, table};

/// One measurement of one subscriber.
#[derive(Deserialize, Serialize)]
pub(crate) enum Task {
    /// A new span, and one that is entered again.
    Spans { subject: String, budget_ms: u64 },
    /// The enters and exits of the model, without the model.
    Shape { budget_ms: u64 },
    /// A span of `span!`, with an exporter attached and with none.
    Exporters { budget_ms: u64 },
}

/// Carries a task out, in the child.
pub(crate) fn answer(task: &Task, dir: &Path) -> Result<Value> {
    Ok(match task {
        Task::Spans { subject, budget_ms } => {
            let found = subjects::find(subject)
                .with_context(|| format!("{subject}: no such subject in this build"))?;
            let budget = Duration::from_millis(*budget_ms);
            serde_json::to_value(hot_path::measure(found, 1, budget, dir)?)?
        }
        Task::Exporters { budget_ms } => {
            serde_json::to_value(exporters::measure(Duration::from_millis(*budget_ms), dir)?)?
        }
        Task::Shape { budget_ms } => {
            serde_json::to_value(model_shape::measure(Duration::from_millis(*budget_ms), dir)?)?
        }
    })
}

/// Measures everything.
pub(crate) fn run(quick: bool, scratch: &Path) -> Result<Figures> {
    let mut figures = Figures::new(Machine::describe(scratch), quick);
    let (rounds, budget_ms) = if quick { (2, 500) } else { (5, 1_500) };
    let mut pools: BTreeMap<&'static str, Samples> = BTreeMap::new();
    for round in 1..=rounds {
        for subject in subjects::all() {
            let name = subject.name;
            eprintln!("tracing: {name}, round {round} of {rounds}");
            let task = Task::Spans { subject: name.to_owned(), budget_ms };
            match ask::<Samples>(task, scratch) {
                Ok(samples) => match pools.get_mut(name) {
                    Some(pool) => pool.append(samples),
                    None => {
                        pools.insert(name, samples);
                    }
                },
                Err(error) => figures.omit(&format!("peers_ns.{name}"), format!("{error:#}")),
            }
        }
    }
    for (name, pool) in &pools {
        let (Some(floor), Some(create), Some(reenter)) =
            (median(&pool.floor), median(&pool.span), median(&pool.handle))
        else {
            continue;
        };
        figures.subscriber(name, floor, create, reenter, pool.lost());
    }
    eprintln!("tracing: the shape of a model");
    match ask::<Shape>(Task::Shape { budget_ms }, scratch) {
        Ok(shape) => figures.shape(&shape),
        Err(error) => figures.omit("candle_ns_per_span", format!("{error:#}")),
    }
    eprintln!("tracing: exporters");
    let task = Task::Exporters { budget_ms: 10 * budget_ms };
    match ask::<Pairs>(task, scratch) {
        Ok(pairs) => figures.exporters(&pairs),
        Err(error) => figures.omit("exporters_over_none", format!("{error:#}")),
    }
    match model::measure(quick, scratch) {
        Ok(model) => figures.model(model),
        Err(error) => {
            for key in ["candle_instructions_percent", "bytes_per_token"] {
                figures.omit(key, format!("{error:#}"));
            }
        }
    }
    Ok(figures)
}

fn ask<R: serde::de::DeserializeOwned>(task: Task, scratch: &Path) -> Result<R> {
    Ok(child::run(&crate::Task::Tracing(task), &[], |_| Vec::new(), scratch)?.result)
}
