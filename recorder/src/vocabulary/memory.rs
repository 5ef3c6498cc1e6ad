//! Memory: `analyze memory`. The process's own is read by the recorder itself.

use crate::{metric_kind, vocabulary::Label};

metric_kind! {
    /// Memory was allocated.
    pub struct Allocate<'a> = "memory.allocate" {
        /// How much.
        bytes: u64 = "bytes",
        /// What for: `weights`, `kv_cache`, `scratch`.
        kind: Label<'a> = "kind",
        /// Where; the host if nothing is said.
        device: Label<'a> = "device",
        /// What owns it: a request, a model, a layer.
        scope: Label<'a> = "scope",
        /// What its release will say.
        id: u64 = "id",
    }
}

metric_kind! {
    /// Memory was released. With the `id` of its allocation it needs nothing
    /// else; without one, say what the allocation said.
    pub struct Release<'a> = "memory.release" {
        /// How much.
        bytes: u64 = "bytes",
        /// What it was for.
        kind: Label<'a> = "kind",
        /// Where; the host if nothing is said.
        device: Label<'a> = "device",
        /// What owned it.
        scope: Label<'a> = "scope",
        /// What its allocation said.
        id: u64 = "id",
    }
}

metric_kind! {
    /// What a device's memory looks like now; `host` for the host's.
    pub struct DeviceMemory<'a> = "memory.device" {
        /// Which device.
        device: Label<'a> = "device",
        /// Bytes in use.
        allocated: u64 = "allocated",
        /// Bytes that the allocator holds.
        reserved: u64 = "reserved",
        /// Bytes that are free.
        free: u64 = "free",
        /// Bytes that there are.
        total: u64 = "total",
    }
}

metric_kind! {
    /// How full a pool of memory is now.
    pub struct MemoryPool<'a> = "memory.pool" {
        /// Which pool.
        pool: Label<'a> = "pool",
        /// Bytes that it has.
        capacity: u64 = "capacity",
        /// Bytes in use.
        used: u64 = "used",
    }
}

metric_kind! {
    /// A cache of keys and values grew.
    pub struct KvCacheGrow<'a> = "kv_cache.grow" {
        /// By how much.
        bytes: u64 = "bytes",
        /// Which cache.
        cache: Label<'a> = "cache",
    }
}

metric_kind! {
    /// By how much a phase changed what is in use.
    pub struct MemoryPhase<'a> = "memory.phase" {
        /// Which phase: `load`, `prefill`, `decode`.
        phase: Label<'a> = "phase",
        /// Bytes, negative if it gave some back.
        delta: i64 = "delta",
    }
}

metric_kind! {
    /// One tensor of a model's weights; the reports make a tree of their paths.
    pub struct WeightTensor<'a> = "memory.weights" {
        /// Where in the model: `model.blocks.0.attention.q`.
        path: Label<'a> = "path",
        /// Its size.
        bytes: u64 = "bytes",
        /// Type of its elements.
        dtype: Label<'a> = "dtype",
        /// Where it is; the host if nothing is said.
        device: Label<'a> = "device",
    }
}
