//! Memory of a device: what the program says it allocates and releases there, and what
//! the device says is in use.
//!
//! Both end in `analyze memory`: allocations and releases make its history and what is still
//! held at the end, snapshots what the device had in use at the time.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::vocabulary::{Allocate, DeviceMemory, Release};

/// The memory of one device. The hooks record an event each and keep the sum; they
/// neither allocate nor lock.
#[derive(Debug)]
pub struct GpuMemory {
    device: String,
    total: Option<u64>,
    in_use: AtomicU64,
    peak: AtomicU64,
}

impl GpuMemory {
    /// That of the device of this name, with so many bytes in all if that is known.
    pub fn of(device: &str, total: Option<u64>) -> Self {
        let (in_use, peak) = Default::default();
        Self { device: device.to_owned(), total, in_use, peak }
    }

    /// Something was allocated: `kind` says what for, and the number that this returns
    /// is for [`released`](Self::released).
    pub fn allocated(&self, bytes: u64, kind: &str) -> Allocation {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let now = self.in_use.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        self.peak.fetch_max(now, Ordering::Relaxed);
        let allocate = Allocate::new().bytes(bytes).id(id).device(&self.device);
        if kind.is_empty() {
            allocate.record()
        } else {
            allocate.kind(kind).record()
        }
        Allocation { id, bytes }
    }

    /// What was allocated was released.
    pub fn released(&self, allocation: Allocation) {
        self.in_use.fetch_sub(allocation.bytes, Ordering::Relaxed);
        Release::new().bytes(allocation.bytes).id(allocation.id).device(&self.device).record();
    }

    /// Bytes that were allocated and not released.
    pub fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// The most that were in use at once.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Records what the device says of its memory now: bytes in use, and bytes that its
    /// allocator holds.
    pub fn snapshot(&self, allocated: u64, reserved: Option<u64>) {
        let memory = DeviceMemory::new().device(&self.device).allocated(allocated);
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
}
