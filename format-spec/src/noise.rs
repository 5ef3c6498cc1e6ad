//! Whether a byte plane is worth an entropy coder.

/// Bytes that are looked at, in blocks: a plane may differ from end to end.
const LOOKED_AT: usize = BLOCK * BLOCKS;
const BLOCK: usize = 64;
const BLOCKS: usize = 8;
/// Smaller planes are coded in no time.
const SMALL: usize = 8 * LOOKED_AT;

/// Whether no code for single bytes would make the plane smaller by much more than an eighth, as
/// far as some of its bytes tell. Those of long durations are like that, and coding them in vain takes
/// as long as coding the others. Says nothing about repetitions.
pub(crate) fn is_noise(plane: &[u8]) -> bool {
    if plane.len() < SMALL {
        return false;
    }
    let mut counts = [0_u16; 256];
    for block in plane.chunks(plane.len() / BLOCKS).take(BLOCKS) {
        block.iter().take(BLOCK).for_each(|byte| counts[usize::from(*byte)] += 1);
    }
    // How likely two bytes are the same is never below 2 to the power of minus their entropy, and
    // that is what a code needs at least: seven bits where it is 1 / 128. Of counters that count by
    // twos it is, so the line is drawn a little beside it.
    let ordered_pairs = |count: u16| u32::from(count) * u32::from(count.saturating_sub(1));
    let same: u32 = counts.into_iter().map(ordered_pairs).sum();
    same * 120 < (LOOKED_AT * (LOOKED_AT - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes below a power of two, in no order.
    fn random(length: usize, below: u64) -> Vec<u8> {
        let mut state = 7_u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % below) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn bytes_that_are_equally_likely_are_noise_unless_they_have_two_bits_to_spare() {
        assert!(is_noise(&random(SMALL, 256)) && is_noise(&random(16_384, 128)));
        assert!(!is_noise(&random(SMALL, 64)) && !is_noise(&random(16_384, 64)));
        assert!(!is_noise(&[7; SMALL]));
    }

    #[test]
    fn small_planes_are_never_called_noise() {
        assert!(!is_noise(&random(SMALL - 1, 256)) && !is_noise(&[]));
    }
}
