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
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < FEW && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has what the function needs.
        return unsafe { append_few(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn append_few(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let mut sum = u64::from(!crc);
    let (blocks, rest) = bytes.as_chunks::<64>();
    for block in blocks {
        // As an array: the compiler writes eight instructions where a loop would count to eight.
        let words: [u64; 8] = bytemuck::pod_read_unaligned(block);
        for word in words {
            sum = _mm_crc32_u64(sum, word);
        }
    }
    let (words, rest) = rest.as_chunks();
    for word in words {
        sum = _mm_crc32_u64(sum, u64::from_le_bytes(*word));
    }
    let (mut sum, mut rest) = (sum as u32, rest);
    if let Some((word, after)) = rest.split_first_chunk() {
        (sum, rest) = (_mm_crc32_u32(sum, u32::from_le_bytes(*word)), after);
    }
    !rest.iter().fold(sum, |sum, byte| _mm_crc32_u8(sum, *byte))
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
}
