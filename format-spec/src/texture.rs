//! Whether a byte plane is worth an entropy coder, and a search for what repeats.

/// Bytes that are looked at, in blocks: a plane may differ from end to end.
const LOOKED_AT: usize = BLOCK * BLOCKS;
const BLOCK: usize = 64;
const BLOCKS: usize = 8;
/// Smaller planes are coded in no time.
const SMALL: usize = 8 * LOOKED_AT;

/// Where a plane is asked whether it repeats: behind so many sixths.
const ANCHORS: [usize; 2] = [3, 5];
/// Bytes that are looked for, and in how many before them: what a loop of 2,000 spans repeats.
const ANCHOR: usize = 32;
const BEFORE: usize = 2_048;

/// What of a plane is worth the work, as far as some of its bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Texture {
    /// No code for single bytes would save a third of it. Those of long durations are like
    /// that, and coding them takes as long as coding others, which become half as large.
    /// Says nothing about repetitions.
    Noise,
    /// A code saves enough, and takes less than it takes to name the places that are alike by
    /// chance. Says nothing about repetitions either.
    Scattered,
    /// Nearly all bytes are the same; or there are too few to ask.
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
        // and that is what a code needs at least: five bits and a third where it is 1 / 40.
        let ordered_pairs = |count: u16| u32::from(count) * u32::from(count.saturating_sub(1));
        let same: u32 = counts.into_iter().map(ordered_pairs).sum();
        let all = (LOOKED_AT * (LOOKED_AT - 1)) as u32;
        match 2 * all / same.max(1) {
            80.. => Texture::Noise,
            3.. => Texture::Scattered,
            _ => Texture::Smooth,
        }
    }
}

/// Whether what is at some places of a plane was there before. Times do not repeat to the byte
/// unless they are coarse.
pub(crate) fn repeats(plane: &[u8]) -> bool {
    ANCHORS.into_iter().any(|sixth| {
        let at = plane.len() * sixth / 6;
        let (before, from) = plane.split_at(at);
        let (Some(anchor), Some(head)) = (from.first_chunk::<ANCHOR>(), from.first_chunk::<8>())
        else {
            return false;
        };
        // One comparison of a word tells of nearly all places.
        let is_it = |some: &[u8]| some[..8] == *head && some == anchor;
        before[at.saturating_sub(BEFORE)..].windows(ANCHOR).any(is_it)
    })
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
    fn bytes_that_are_equally_likely_are_noise_unless_they_have_three_bits_to_spare() {
        for length in [SMALL, 16_384] {
            let textures = [256, 64, 32, 16, 4].map(|below| Texture::of(&random(length, below)));
            use Texture::{Noise, Scattered};
            assert_eq!(textures, [Noise, Noise, Scattered, Scattered, Scattered]);
        }
        assert_eq!(Texture::of(&[7; SMALL]), Texture::Smooth);
        let sparse: Vec<u8> =
            random(SMALL, 10).into_iter().map(|byte| u8::from(byte == 0)).collect();
        assert_eq!(Texture::of(&sparse), Texture::Smooth);
    }

    #[test]
    fn what_comes_again_within_two_thousand_bytes_repeats_and_what_is_alike_by_chance_does_not() {
        for below in [256, 16, 4] {
            assert!(!repeats(&random(16_384, below)));
            for period in [1, 114, 2_000] {
                let some = random(period, below);
                let plane: Vec<u8> = some.iter().copied().cycle().take(7_500).collect();
                assert!(repeats(&plane));
            }
        }
        assert!(!repeats(&[]) && !repeats(&[7; 40]));
    }

    #[test]
    fn small_planes_are_never_called_noise() {
        assert_eq!(Texture::of(&random(SMALL - 1, 256)), Texture::Smooth);
        assert_eq!(Texture::of(&[]), Texture::Smooth);
    }
}
