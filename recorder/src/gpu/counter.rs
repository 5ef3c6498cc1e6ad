//! A device's counter: how many bits count, and what lies between two readings.

/// The counter that a device's timestamps are readings of.
///
/// Where fewer than 64 bits count, it begins again at 0 when they run out, after a
/// minute or so with 36 bits of nanoseconds. Two readings are taken to be less than half a
/// round apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCounter {
    bits: u32,
}

impl DeviceCounter {
    /// One that never begins again.
    pub const FULL: Self = Self { bits: 64 };

    /// One of so many bits that count: `timestampValidBits` in Vulkan. 0 and more
    /// than 64 stand for all 64.
    pub const fn of_bits(bits: u32) -> Self {
        Self { bits: if bits == 0 || bits > 64 { 64 } else { bits } }
    }

    /// How many bits count.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// From one reading to another; negative if the other is earlier.
    pub fn between(self, from: u64, to: u64) -> i64 {
        let unused = 64 - self.bits;
        ((to.wrapping_sub(from) << unused) as i64) >> unused
    }

    /// The bits that count.
    pub fn masked(self, reading: u64) -> u64 {
        reading & (u64::MAX >> (64 - self.bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_began_again_went_on() {
        let counter = DeviceCounter::of_bits(36);
        assert_eq!(counter.between((1 << 36) - 10, 5), 15);
        assert_eq!(counter.between(5, (1 << 36) - 10), -15);
        assert_eq!(counter.between(1_000, 3_000), 2_000);
    }

    #[test]
    fn bits_that_do_not_count_are_not_looked_at() {
        let counter = DeviceCounter::of_bits(36);
        assert_eq!(counter.between(1_000, 0xFF00_0000_0000_0000 | 3_000), 2_000);
        assert_eq!(counter.masked(0xFF00_0000_0000_0000 | 3_000), 3_000);
    }

    #[test]
    fn a_full_counter_wraps_too() {
        assert_eq!(DeviceCounter::FULL.between(u64::MAX, 1), 2);
        assert_eq!(DeviceCounter::of_bits(0), DeviceCounter::FULL);
        assert_eq!(DeviceCounter::of_bits(99), DeviceCounter::FULL);
    }
}
