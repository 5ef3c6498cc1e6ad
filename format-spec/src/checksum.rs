//! CRC-32C of a few bytes.
//!
//! The crate `crc32c` is made for long input, where it keeps three sums going at once; it takes
//! longer to begin than most batches and twin blocks take to sum up, and a drain tick has
//! three of those.
#![allow(unsafe_code)] // an instruction that the processor must have

/// Where the crate begins to keep three sums going.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 768;

/// The checksum of what had this one and is followed by these bytes.
#[inline]
pub(crate) fn append(crc: u32, bytes: &[u8]) -> u32 {
    append_headed(crc, &[], bytes)
}

/// The checksum of what had this one and is followed by a head and then by these bytes. Apart,
/// since the bytes were just written, and in words that begin where theirs do they are read
/// as they were written: else the processor waits until they have reached its cache.
#[inline(always)]
pub(crate) fn append_headed<const N: usize>(crc: u32, head: &[u8; N], bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < FEW && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has what the function needs.
        return unsafe { append_few(crc, head, bytes) };
    }
    append_many(crc, head, bytes)
}

#[inline(never)]
fn append_many(crc: u32, head: &[u8], bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc, head), bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn append_few<const N: usize>(crc: u32, head: &[u8; N], bytes: &[u8]) -> u32 {
    let mut sum = u64::from(!crc);
    // The compiler knows how long the head is, and does not count its words.
    let (words, rest) = head.as_chunks();
    for word in words {
        sum = append_words(sum, [u64::from_le_bytes(*word)]);
    }
    sum = append_rest(sum, rest);
    let (blocks, mut rest) = bytes.as_chunks::<64>();
    for block in blocks {
        sum = append_words::<8>(sum, bytemuck::pod_read_unaligned(block));
    }
    // A loop over what is left would take four instructions for each word.
    if let Some((words, after)) = rest.split_first_chunk::<32>() {
        (sum, rest) = (append_words::<4>(sum, bytemuck::pod_read_unaligned(words)), after);
    }
    if let Some((words, after)) = rest.split_first_chunk::<16>() {
        (sum, rest) = (append_words::<2>(sum, bytemuck::pod_read_unaligned(words)), after);
    }
    if let Some((word, after)) = rest.split_first_chunk() {
        (sum, rest) = (append_words(sum, [u64::from_le_bytes(*word)]), after);
    }
    !(append_rest(sum, rest) as u32)
}

/// As an array: the compiler writes eight instructions where a loop would count to eight.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.2")]
fn append_words<const N: usize>(sum: u64, words: [u64; N]) -> u64 {
    words.into_iter().fold(sum, |sum, word| std::arch::x86_64::_mm_crc32_u64(sum, word))
}

/// Of fewer bytes than a word has.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.2")]
fn append_rest(sum: u64, mut rest: &[u8]) -> u64 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32};
    let mut sum = sum as u32;
    if let Some((word, after)) = rest.split_first_chunk() {
        (sum, rest) = (_mm_crc32_u32(sum, u32::from_le_bytes(*word)), after);
    }
    u64::from(rest.iter().fold(sum, |sum, byte| _mm_crc32_u8(sum, *byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_have_the_checksum_that_many_have() {
        let bytes: Vec<u8> = (0..2_000_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for length in (0..100).chain([700, 767, 768, 769, 1_900]) {
            for start in 0..9 {
                let some = &bytes[start..start + length];
                assert_eq!(append(length as u32, some), crc32c::crc32c_append(length as u32, some));
            }
        }
    }

    #[test]
    fn a_head_and_what_follows_it_have_the_checksum_that_they_have_together() {
        let bytes: Vec<u8> = (0..2_000_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for length in (0..100).chain([767, 768, 1_900]) {
            let together = |head: usize| crc32c::crc32c_append(7, &bytes[..head + length]);
            let twin = bytes.first_chunk::<12>().unwrap();
            assert_eq!(append_headed(7, twin, &bytes[12..12 + length]), together(12));
            let batch = bytes.first_chunk::<28>().unwrap();
            assert_eq!(append_headed(7, batch, &bytes[28..28 + length]), together(28));
        }
    }
}
