//! Models and training: `analyze training`.

use crate::{metric_kind, vocabulary::Label};

metric_kind! {
    /// An operation on tensors.
    pub struct TensorOp<'a> = "tensor.op" {
        /// What is done: `matmul`.
        op: Label<'a> = "op",
        /// Shapes of what goes in: `[1, 128, 896] [896, 896]`.
        shapes: Label<'a> = "shapes",
        /// Type of the elements.
        dtype: Label<'a> = "dtype",
        /// Where.
        device: Label<'a> = "device",
        /// How many elements come out.
        elements: u64 = "elements",
    }
}

metric_kind! {
    /// A model was asked. As a span it tells tokens a second by itself.
    pub struct Inference<'a> = "inference" {
        /// Which model.
        model: Label<'a> = "model",
        /// How many requests at once.
        batch: u64 = "batch",
        /// How many tokens it gave.
        tokens: u64 = "tokens",
        /// How fast, of an event that has no duration.
        tokens_per_second: f64 = "tokens_per_second",
    }
}

metric_kind! {
    /// A step of training.
    pub struct TrainingStep<'a> = "training.step" {
        /// Which, from 1.
        step: u64 = "step",
        /// How many in all.
        steps: u64 = "steps",
        /// In which epoch.
        epoch: u64 = "epoch",
        /// The loss after it.
        loss: f64 = "loss",
        /// The learning rate.
        learning_rate: f64 = "learning_rate",
        /// The norm of the gradient.
        gradient_norm: f64 = "gradient_norm",
        /// Tokens that it learned from.
        tokens: u64 = "tokens",
        /// Samples that it learned from.
        samples: u64 = "samples",
    }
}

metric_kind! {
    /// An epoch of training.
    pub struct TrainingEpoch<'a> = "training.epoch" {
        /// Which.
        epoch: u64 = "epoch",
        /// The loss after it.
        loss: f64 = "loss",
    }
}

metric_kind! {
    /// A checkpoint was written.
    pub struct Checkpoint<'a> = "checkpoint" {
        /// Where to.
        path: Label<'a> = "path",
        /// Its size.
        bytes: u64 = "bytes",
        /// After which step.
        step: u64 = "step",
    }
}

metric_kind! {
    /// A model was evaluated.
    pub struct Evaluation<'a> = "evaluation" {
        /// On what.
        dataset: Label<'a> = "dataset",
        /// The loss there.
        loss: f64 = "loss",
        /// After which step.
        step: u64 = "step",
    }
}

metric_kind! {
    /// A data set was loaded.
    pub struct DatasetLoad<'a> = "dataset.load" {
        /// Which.
        dataset: Label<'a> = "dataset",
        /// How many samples it has.
        samples: u64 = "samples",
        /// Its size.
        bytes: u64 = "bytes",
    }
}

metric_kind! {
    /// A batch of a data set was made ready.
    pub struct DatasetBatch<'a> = "dataset.batch" {
        /// Of which data set.
        dataset: Label<'a> = "dataset",
        /// How many samples it has.
        samples: u64 = "samples",
        /// Its size.
        bytes: u64 = "bytes",
    }
}

metric_kind! {
    /// Something was serialised or read back.
    pub struct Serialize<'a> = "serialize" {
        /// `write` or `read`.
        direction: Label<'a> = "direction",
        /// `safetensors`, `gguf`, `json`.
        format: Label<'a> = "format",
        /// Its size.
        bytes: u64 = "bytes",
    }
}
