//! 64-bit words split into byte planes (SPEC 8.2): all bytes 0, then all bytes 1, and so on.
//!
//! Several columns share a word of a record. It is split once, all planes together, eight words at a time:
//! byte by byte, splitting takes as long as compressing what comes out.
#![allow(unsafe_code)] // instructions that every x86-64 processor has

use std::mem;

/// Which words are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// What is left of the starts.
    Residuals,
    /// This word of all records.
    Records(usize),
    /// This word of all slots.
    Slots(usize),
}

/// Items of a chunk that is made from a raw slot of the usual size, at most.
const USUAL_MOST: usize = 16_384;
/// Items that are split in one step, which takes 5 us.
const ITEMS_A_STEP: usize = 4_096;

/// The planes of the words that were split last. It keeps its memory.
#[derive(Default)]
pub(crate) struct Planes {
    of: Option<Words>,
    items: usize,
    /// So many of the items are split.
    split: usize,
    bytes: Vec<u8>,
}

impl Planes {
    /// What comes next is of other records.
    pub(crate) fn forget(&mut self) {
        self.of = None;
    }

    /// Splits word `at` of some more of the items, unless all of them are split. Returns whether
    /// they were.
    pub(crate) fn hold<const WIDTH: usize>(
        &mut self,
        of: Words,
        items: &[[u64; WIDTH]],
        at: usize,
    ) -> bool {
        if self.of != Some(of) {
            (self.of, self.items, self.split) = (Some(of), items.len(), 0);
            if self.bytes.len() < 8 * items.len() {
                // New memory is zero already, where what a vector grows by has to be written. At once
                // as much as a raw slot may need: what is never used of it takes no pages.
                self.bytes = vec![0; 8 * items.len().max(USUAL_MOST)];
            }
        }
        if self.split == self.items {
            return true;
        }
        let end = items.len().min(self.split + ITEMS_A_STEP);
        let planes = &mut self.bytes[..8 * items.len()];
        split(&items[self.split..end], at, planes, items.len(), self.split);
        self.split = end;
        false
    }

    /// How many steps splitting so many items takes.
    pub(crate) fn steps(items: usize) -> usize {
        items.div_ceil(ITEMS_A_STEP)
    }

    /// All bytes at this place of the words.
    pub(crate) fn plane(&self, byte: usize) -> &[u8] {
        &self.bytes[byte * self.items..][..self.items]
    }
}

/// Splits word `at` of these items into eight planes of `length` bytes each, which lie one after
/// the other in `planes`, from place `begin` of each on.
fn split<const WIDTH: usize>(
    items: &[[u64; WIDTH]],
    at: usize,
    planes: &mut [u8],
    length: usize,
    begin: usize,
) {
    let (eights, rest) = items.as_chunks::<8>();
    let mut left = planes;
    let mut places: [&mut [[u8; 8]]; 8] = Default::default();
    for (byte, place) in places.iter_mut().enumerate() {
        let (plane, behind) = mem::take(&mut left).split_at_mut(length);
        left = behind;
        let (wide, narrow) = plane[begin..begin + items.len()].as_chunks_mut::<8>();
        for (out, item) in narrow.iter_mut().zip(rest) {
            *out = (item[at] >> (8 * byte)) as u8;
        }
        *place = wide;
    }
    split_eights(eights, at, places);
}

/// The planes come as one argument each, and are cut to one length: so the compiler sees that
/// all of them have a place for every eight words, and looks no more.
fn split_eights<const WIDTH: usize>(
    eights: &[[[u64; WIDTH]; 8]],
    at: usize,
    [a, b, c, d, e, f, g, h]: [&mut [[u8; 8]]; 8],
) {
    let n = eights.len();
    let (a, b, c, d) = (&mut a[..n], &mut b[..n], &mut c[..n], &mut d[..n]);
    let (e, f, g, h) = (&mut e[..n], &mut f[..n], &mut g[..n], &mut h[..n]);
    assert!(at < WIDTH);
    for i in 0..n {
        let pairs = transpose(&eights[i], at);
        [a[i], b[i]] = pairs[0];
        [c[i], d[i]] = pairs[1];
        [e[i], f[i]] = pairs[2];
        [g[i], h[i]] = pairs[3];
    }
}

/// Bytes *k* of these words, for each *k*, in pairs.
#[cfg(not(target_arch = "x86_64"))]
fn transpose<const WIDTH: usize>(items: &[[u64; WIDTH]; 8], at: usize) -> [[[u8; 8]; 2]; 4] {
    let plane = |byte: usize| items.map(|item| (item[at] >> (8 * byte)) as u8);
    std::array::from_fn(|pair| [plane(2 * pair), plane(2 * pair + 1)])
}

/// The same with what every such processor has: pairs of words, of pairs, and of those.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transpose<const WIDTH: usize>(items: &[[u64; WIDTH]; 8], at: usize) -> [[[u8; 8]; 2]; 4] {
    use std::arch::x86_64::{
        __m128i, _mm_cvtsi64_si128, _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpacklo_epi8,
        _mm_unpacklo_epi16, _mm_unpacklo_epi32,
    };
    // SAFETY: there is no x86-64 without SSE2.
    let pairs: [__m128i; 4] = unsafe {
        let word = |item: usize| _mm_cvtsi64_si128(items[item][at].cast_signed());
        let (ab, cd) = (_mm_unpacklo_epi8(word(0), word(1)), _mm_unpacklo_epi8(word(2), word(3)));
        let (ef, gh) = (_mm_unpacklo_epi8(word(4), word(5)), _mm_unpacklo_epi8(word(6), word(7)));
        let (first_low, first_high) = (_mm_unpacklo_epi16(ab, cd), _mm_unpackhi_epi16(ab, cd));
        let (last_low, last_high) = (_mm_unpacklo_epi16(ef, gh), _mm_unpackhi_epi16(ef, gh));
        [
            _mm_unpacklo_epi32(first_low, last_low),
            _mm_unpackhi_epi32(first_low, last_low),
            _mm_unpacklo_epi32(first_high, last_high),
            _mm_unpackhi_epi32(first_high, last_high),
        ]
    };
    pairs.map(bytemuck::cast)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plane_k_is_byte_k_of_every_word_whatever_their_number() {
        for count in [0, 1, 7, 8, 9, 16, 31, 100, 4_096, 4_097, 9_001] {
            let item = |i: u64| [i, i.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (i << 56)];
            let items: Vec<[u64; 2]> = (0..count).map(item).collect();
            let mut planes = Planes::default();
            let steps = (0..).take_while(|_| !planes.hold(Words::Records(1), &items, 1)).count();
            assert_eq!(steps, Planes::steps(items.len()));
            for byte in 0..8 {
                let expected: Vec<u8> = items.iter().map(|it| it[1].to_le_bytes()[byte]).collect();
                assert_eq!(planes.plane(byte), expected, "{count} words, byte {byte}");
            }
        }
    }

    #[test]
    fn words_are_split_once_until_others_are() {
        let mut planes = Planes::default();
        while !planes.hold(Words::Residuals, &[[1_u64]; 20], 0) {}
        while !planes.hold(Words::Residuals, &[[2_u64]; 20], 0) {}
        assert_eq!(planes.plane(0), [1; 20]);
        while !planes.hold(Words::Slots(0), &[[3_u64]; 4], 0) {}
        assert_eq!(planes.plane(0), [3; 4]);
        planes.forget();
        while !planes.hold(Words::Slots(0), &[[4_u64]; 4], 0) {}
        assert_eq!((planes.plane(0), planes.plane(7)), (&[4; 4][..], &[0; 4][..]));
    }
}
