//! What people ask about, as typed and cheap calls: kernels, calls and worker
//! pools, memory, models and training, structure, caches.
//!
//! Each kind of event is a small struct that is filled in and recorded; its name
//! and keys are those of `format-spec/VOCABULARY.md`, which the reports of
//! `analyze` read. All of them together are [`MetricEvent`], and
//! [`metric_kind!`](crate::metric_kind!) makes kinds of your own that record the same way.
//!
//! ```
//! use ringscope::{MetricEvent, record_metric, vocabulary::{Allocate, TrainingStep}};
//!
//! record_metric!(MetricEvent::Allocate { bytes: 4_096, kind: "scratch", device: 0 });
//! Allocate::new().bytes(4_096).kind("scratch").record(); // the same, shorter
//!
//! // What takes time is a span; figures that come late are set before it ends.
//! let mut step = TrainingStep::new().step(7).steps(100).span();
//! step.set(|step| step.loss(0.31));
//! ```
//!
//! # Limits
//!
//! Nothing is allocated or formatted: texts that are constants should be a
//! [`name!`](crate::name!), which is a number after its first use; other texts are copied, up to
//! what fits into one event (about 700 bytes). Only of errors, texts that do not fit are kept
//! beside them, up to 64 KiB each, and for these memory is allocated. A field that is not given
//! is not recorded.

mod caches;
mod calls;
mod correlation;
mod device;
mod device_state;
mod kind;
mod label;
mod memory;
mod ml;
mod span;
mod structure;

pub use caches::{CacheAccess, CacheHit, CacheMiss};
pub use calls::{
    Call, CallException, CircuitOpened, PoolCheckin, PoolCheckout, PoolDepth, PoolSize, WorkerCrash,
};
pub use correlation::{Correlated, CorrelationId};
pub use device::{
    CommandBufferQueued, DeviceCopy, DeviceFill, DeviceSync, KernelCompiled, KernelCompleted,
    KernelDispatched, KernelUntimed,
};
pub use device_state::{DeviceError, DeviceFound, DeviceState};
pub use kind::{Given, Metric, Recorded};
pub use label::Label;
pub use memory::{
    Allocate, DeviceMemory, KvCacheGrow, MemoryPhase, MemoryPool, Release, WeightTensor,
};
pub use ml::{
    Checkpoint, DatasetBatch, DatasetLoad, Evaluation, Inference, Serialize, TensorOp,
    TrainingEpoch, TrainingStep,
};
pub use span::MetricSpan;
pub use structure::{
    Structure, StructureException, StructureSpan, StructureStarted, StructureStopped,
};

/// Records a metric: one of [`MetricEvent`], or one of your own kinds.
///
/// ```
/// use ringscope::{MetricEvent, name, record_metric, vocabulary::CacheHit};
///
/// record_metric!(MetricEvent::CacheAccess { cache: name!("kernels"), key: "sdpa_f16", hit: true });
/// record_metric!(ringscope::MetricEvent::CacheMiss { cache: name!("kernels") });
/// record_metric!(CacheHit::new().cache(name!("kernels")));
/// record_metric!(MetricEvent::from(CacheHit::new().cache("prompts")));
/// ```
#[macro_export]
macro_rules! record_metric {
    // Names, and not a path: as that, what other expressions begin with would be an error.
    ($first:ident $(:: $rest:ident)+ { $($field:ident : $value:expr),* $(,)? }) => {
        $crate::vocabulary::Metric::record_now(
            &$crate::vocabulary::empty_of($first $(:: $rest)+)$(.$field($value))*
        )
    };
    (:: $first:ident $(:: $rest:ident)+ { $($field:ident : $value:expr),* $(,)? }) => {
        $crate::vocabulary::Metric::record_now(
            &$crate::vocabulary::empty_of(:: $first $(:: $rest)+)$(.$field($value))*
        )
    };
    ($metric:expr) => {
        $crate::vocabulary::Metric::record_now(&$metric)
    };
}

/// For [`record_metric!`](crate::record_metric!): what a variant holds, with nothing in it. The
/// variant itself, as large as the largest, need not be made.
#[doc(hidden)]
#[inline(always)]
pub fn empty_of<K: Default, S>(_variant: impl FnOnce(K) -> S) -> K {
    K::default()
}

macro_rules! metric_events {
    ($($kind:ident),+ $(,)?) => {
        /// Every kind of event of this module as one type: for
        /// [`record_metric!`](crate::record_metric!), and to pass around what is to be recorded later.
        ///
        /// Parts of a program that are spans are made by [`structure_span!`](crate::structure_span!),
        /// and what has a name of its own by [`counter!`](crate::counter!),
        /// [`gauge!`](crate::gauge!), [`event!`](crate::event!) and [`metric_kind!`](crate::metric_kind!).
        ///
        /// Kinds are added; match with a `_`.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum MetricEvent<'a> {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind($kind<'a>),)+
        }

        $(impl<'a> From<$kind<'a>> for MetricEvent<'a> {
            fn from(event: $kind<'a>) -> Self {
                MetricEvent::$kind(event)
            }
        })+

        impl Metric for MetricEvent<'_> {
            #[inline]
            fn record_now(&self) {
                match self {
                    $(MetricEvent::$kind(event) => event.record_now(),)+
                }
            }
        }
    };
}

metric_events! {
    Allocate, CacheAccess, CacheHit, CacheMiss, Call, CallException, Checkpoint, CircuitOpened,
    CommandBufferQueued, DatasetBatch, DatasetLoad, DeviceCopy, DeviceError, DeviceFill,
    DeviceFound, DeviceMemory, DeviceState, DeviceSync, Evaluation, Inference, KernelCompiled,
    KernelCompleted, KernelDispatched, KernelUntimed, KvCacheGrow, MemoryPhase, MemoryPool,
    PoolCheckin, PoolCheckout, PoolDepth, PoolSize, Release, Serialize, StructureException,
    StructureStarted, StructureStopped, TensorOp, TrainingEpoch, TrainingStep, WeightTensor,
    WorkerCrash,
}
