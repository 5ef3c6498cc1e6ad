//! The enters and exits of candle's llama, in their order and nesting, without
//! the arithmetic between them: what they cost in a program whose wall time is too noisy to tell.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use ringscope::tracing::Subscriber;
use serde::{Deserialize, Serialize};
use tracing::{Span, trace_span};

use super::subjects::Recording;
use crate::record::subject::Session;

const LAYERS: usize = 8;
/// Tokens that are timed together; everything is drained between two such bursts.
const TOKENS: u32 = 100;

/// The spans that candle keeps for one block.
struct Block {
    block: Span,
    norms: [Span; 2],
    attention: Span,
    projections: [Span; 4],
    rotation: Span,
    mlp: Span,
    linears: [Span; 3],
}

impl Block {
    fn new() -> Self {
        Self {
            block: trace_span!("block"),
            norms: std::array::from_fn(|_| trace_span!("rms-norm")),
            attention: trace_span!("attn"),
            projections: std::array::from_fn(|_| trace_span!("linear")),
            rotation: trace_span!("attn-rot"),
            mlp: trace_span!("mlp"),
            linears: std::array::from_fn(|_| trace_span!("linear")),
        }
    }

    /// As a forward pass enters them; returns how many it entered.
    fn forward(&self) -> u32 {
        let _block = self.block.enter();
        drop(self.norms[0].enter());
        {
            let _attention = self.attention.enter();
            self.projections[..3].iter().for_each(|span| drop(span.enter()));
            drop(self.rotation.enter());
            drop(self.rotation.enter());
            drop(self.projections[3].enter());
        }
        drop(self.norms[1].enter());
        let _mlp = self.mlp.enter();
        self.linears.iter().for_each(|span| drop(span.enter()));
        14
    }
}

/// What came of it.
#[derive(Deserialize, Serialize)]
pub(crate) struct Shape {
    /// Nanoseconds an enter and exit, one sample a burst.
    pub(crate) samples: Vec<f64>,
    /// Losing is cheaper than recording: with any, the samples are worthless.
    pub(crate) lost: u64,
}

pub(crate) fn measure(budget: Duration, dir: &Path) -> Result<Shape> {
    let recording = Recording::start(dir)?;
    Subscriber::new().install()?;
    let blocks: Vec<Block> = (0..LAYERS).map(|_| Block::new()).collect();
    let begun = Instant::now();
    let mut samples = Vec::new();
    while begun.elapsed() < budget {
        let start = Instant::now();
        let mut entered = 0;
        for _ in 0..TOKENS {
            entered += blocks.iter().map(Block::forward).sum::<u32>();
        }
        samples.push(start.elapsed().as_nanos() as f64 / f64::from(entered));
        recording.settle();
    }
    drop(blocks);
    let outcome = Box::new(recording).finish()?;
    Ok(Shape { samples, lost: outcome.lost.unwrap_or(0) })
}
