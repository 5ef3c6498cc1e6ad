//! Whether a byte plane is worth an entropy coder, and a search for what repeats.

/// Bytes that are looked at, in blocks: a plane may differ from end to end.
const LOOKED_AT: usize = BLOCK * BLOCKS;
const BLOCK: usize = 64;
const BLOCKS: usize = 8;
/// Smaller planes are coded in no time.
const SMALL: usize = 8 * LOOKED_AT;

/// What of a plane is worth the work, as far as some of its bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Texture {
    /// No code for single bytes would save a quarter of it. Those of long durations are like
    /// that, and coding them takes as long as coding others, which become half as large.
    /// Says nothing about repetitions.
    Noise,
    /// A code saves enough, but no two places are alike by more than chance if nothing in the
    /// column repeats.
    Scattered,
    /// Few different bytes, which come in runs; or too small to ask.
    Smooth,
}

impl Texture {
    pub(crate) fn of(plane: &[u8]) -> Texture {
        if plane.len() < SMALL {
            return Texture::Smooth;
        }
        let mut counts = [0_u16; 256];
        for block in plane.chunks(plane.len() / BLOCKS).take(BLOCKS) {
            block.iter().take(BLOCK).for_each(|byte| counts[usize::from(*byte)] += 1);
        }
        // How likely two bytes are the same is never below 2 to the power of minus their entropy,
        // and that is what a code needs at least: six bits where it is 1 / 64.
        let ordered_pairs = |count: u16| u32::from(count) * u32::from(count.saturating_sub(1));
        let same: u32 = counts.into_iter().map(ordered_pairs).sum();
        let all = (LOOKED_AT * (LOOKED_AT - 1)) as u32;
        match all / same.max(1) {
            64.. => Texture::Noise,
            8.. => Texture::Scattered,
            _ => Texture::Smooth,
        }
    }
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
        for length in [SMALL, 16_384] {
            let textures = [256, 128, 32, 16, 4].map(|below| Texture::of(&random(length, below)));
            use Texture::{Noise, Scattered, Smooth};
            assert_eq!(textures, [Noise, Noise, Scattered, Scattered, Smooth]);
        }
        assert_eq!(Texture::of(&[7; SMALL]), Texture::Smooth);
    }

    #[test]
    fn small_planes_are_never_called_noise() {
        assert_eq!(Texture::of(&random(SMALL - 1, 256)), Texture::Smooth);
        assert_eq!(Texture::of(&[]), Texture::Smooth);
    }
}
