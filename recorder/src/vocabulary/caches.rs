//! Caches of resources: `analyze caches`.

use crate::{metric_kind, vocabulary::Label};

metric_kind! {
    /// Something was looked for in a cache.
    pub struct CacheAccess<'a> = "cache.access" {
        /// Which cache.
        cache: Label<'a> = "cache",
        /// What was looked for.
        key: Label<'a> = "key",
        /// Whether it was there.
        hit: bool = "hit",
        /// Its size.
        bytes: u64 = "bytes",
    }
}

metric_kind! {
    /// Something was found in a cache.
    pub struct CacheHit<'a> = "cache.hit" {
        /// Which cache.
        cache: Label<'a> = "cache",
        /// What was looked for.
        key: Label<'a> = "key",
        /// Its size.
        bytes: u64 = "bytes",
    }
}

metric_kind! {
    /// Something was not found in a cache.
    pub struct CacheMiss<'a> = "cache.miss" {
        /// Which cache.
        cache: Label<'a> = "cache",
        /// What was looked for.
        key: Label<'a> = "key",
        /// Its size.
        bytes: u64 = "bytes",
    }
}
