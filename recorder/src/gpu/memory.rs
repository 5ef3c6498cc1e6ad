//! Memory of a device: what the program says it allocates and releases there, and what
//! the device says is in use.
//!
//! Both end in `analyze memory`: allocations and releases make its history and what is still
//! held at the end, snapshots what the device had in use at the time.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::vocabulary::{Allocate, DeviceMemory, Release};

/// The memory of one device. The hooks record an event each and keep the sum; they
/// neither allocate nor lock.
#[derive(Debug)]
pub struct GpuMemory {
    total: Option<u64>,
    sums: Arc<Sums>,
}

/// What is held of a device, known to each allocation of it too.
#[derive(Debug)]
struct Sums {
    device: String,
    in_use: AtomicU64,
    peak: AtomicU64,
}

impl GpuMemory {
    /// That of the device of this name, with so many bytes in all if that is known.
    pub fn of(device: &str, total: Option<u64>) -> Self {
        let (in_use, peak) = Default::default();
        Self { total, sums: Arc::new(Sums { device: device.to_owned(), in_use, peak }) }
    }

    /// Something was allocated: `kind` says what for, and the number that this returns
    /// is for [`released`](Self::released).
    pub fn allocated(&self, bytes: u64, kind: &str) -> Allocation {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let sums = &self.sums;
        let now = sums.in_use.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        sums.peak.fetch_max(now, Ordering::Relaxed);
        let allocate = Allocate::new().bytes(bytes).id(id).device(&sums.device);
        if kind.is_empty() {
            allocate.record()
        } else {
            allocate.kind(kind).record()
        }
        Allocation { id, bytes, sums: Arc::clone(sums) }
    }

    /// What was allocated was released: where it was allocated, whichever device is told.
    pub fn released(&self, allocation: Allocation) {
        let Allocation { id, bytes, sums } = allocation;
        sums.in_use.fetch_sub(bytes, Ordering::Relaxed);
        Release::new().bytes(bytes).id(id).device(&sums.device).record();
    }

    /// Bytes that were allocated and not released.
    pub fn in_use(&self) -> u64 {
        self.sums.in_use.load(Ordering::Relaxed)
    }

    /// The most that were in use at once.
    pub fn peak(&self) -> u64 {
        self.sums.peak.load(Ordering::Relaxed)
    }

    /// Records what the device says of its memory now: bytes in use, and bytes that its
    /// allocator holds.
    pub fn snapshot(&self, allocated: u64, reserved: Option<u64>) {
        let memory = DeviceMemory::new().device(&self.sums.device).allocated(allocated);
        let memory = match reserved {
            Some(reserved) => memory.reserved(reserved),
            None => memory,
        };
        match self.total {
            Some(total) => memory.total(total).free(total.saturating_sub(allocated)).record(),
            None => memory.record(),
        }
    }
}

/// Something that was allocated, to be told when it is released.
#[must_use = "tell its release, or it counts as held to the end"]
#[derive(Debug)]
pub struct Allocation {
    id: u64,
    bytes: u64,
    sums: Arc<Sums>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_what_was_not_released() {
        let memory = GpuMemory::of("GPU 0", Some(1 << 30));
        let (weights, scratch) = (memory.allocated(1_000, "weights"), memory.allocated(500, ""));
        assert_eq!((memory.in_use(), memory.peak()), (1_500, 1_500));
        memory.released(scratch);
        let third = memory.allocated(100, "");
        assert_eq!((memory.in_use(), memory.peak()), (1_100, 1_500));
        memory.released(weights);
        memory.released(third);
        assert_eq!((memory.in_use(), memory.peak()), (0, 1_500));
    }

    #[test]
    fn what_another_device_is_told_to_release_is_released_where_it_was_allocated() {
        let (first, second) = (GpuMemory::of("GPU 0", None), GpuMemory::of("GPU 1", None));
        let (weights, cache) = (first.allocated(1_000, "weights"), second.allocated(30, "cache"));
        second.released(weights);
        assert_eq!((first.in_use(), second.in_use()), (0, 30));
        first.released(cache);
        assert_eq!((first.in_use(), second.in_use()), (0, 0));
    }
}
