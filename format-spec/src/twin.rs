//! Twin blocks: two copies written in turn, so that a write that was cut short
//! leaves the other (SPEC 5.2).

use crate::checksum;
use crate::little_endian::{u32_at, u64_at};

/// Bytes before the payload of a copy.
pub const TWIN_HEAD: usize = 16;

/// Writes `payload` as `edition` into `block`, whose halves are the two copies.
/// Returns false, with nothing written, if it does not fit or the edition is 0.
///
/// Editions must rise by one from write to write: an edition that skips one
/// lands on the copy that is the only good one.
pub fn write_twin(block: &mut [u8], edition: u64, payload: &[u8]) -> bool {
    let Some(copy) = TwinCopy::begin(block, edition, payload.len()) else { return false };
    copy.payload.copy_from_slice(payload);
    copy.end();
    true
}

/// The copy of a twin block that is written next: for a payload that is made where it will lie.
pub(crate) struct TwinCopy<'a> {
    edition: u64,
    head: &'a mut [u8; TWIN_HEAD],
    pub(crate) payload: &'a mut [u8],
}

// Always inlined: of vitals the compiler knows how long block and payload are, and checks nothing.
impl<'a> TwinCopy<'a> {
    /// Where a payload of so many bytes goes, on the terms of [`write_twin`].
    #[inline(always)]
    pub(crate) fn begin(block: &'a mut [u8], edition: u64, length: usize) -> Option<Self> {
        let half = block.len() / 2;
        let (even, odd) = block.split_at_mut(half);
        let copy = if edition.is_multiple_of(2) { even } else { &mut odd[..half] };
        let (head, rest) = copy.split_first_chunk_mut()?;
        let payload = rest.get_mut(..length).filter(|_| edition != 0)?;
        Some(Self { edition, head, payload })
    }

    /// Makes the payload count.
    #[inline(always)]
    pub(crate) fn end(self) {
        let mut summed = [0_u8; TWIN_HEAD - 4];
        summed[0..8].copy_from_slice(&self.edition.to_le_bytes());
        summed[8..12].copy_from_slice(&(self.payload.len() as u32).to_le_bytes());
        let crc = checksum::append_headed(0, &summed, self.payload);
        // Until now the checksum is the one of what was here before, and wrong.
        self.head[..12].copy_from_slice(&summed);
        self.head[12..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The newest intact copy: its edition and payload.
pub fn read_twin(block: &[u8]) -> Option<(u64, &[u8])> {
    let (even, odd) = block.split_at(block.len() / 2);
    let good = [read_copy(even, 0), read_copy(odd, 1)];
    good.into_iter().flatten().max_by_key(|(edition, _)| *edition)
}

/// Whether neither copy was ever written.
pub(crate) fn is_blank(block: &[u8]) -> bool {
    let half = block.len() / 2;
    half < TWIN_HEAD || (block[..TWIN_HEAD] == [0; 16] && block[half..half + TWIN_HEAD] == [0; 16])
}

fn read_copy(copy: &[u8], parity: u64) -> Option<(u64, &[u8])> {
    if copy.len() < TWIN_HEAD {
        return None;
    }
    let (head, rest) = copy.split_at(TWIN_HEAD);
    let edition = u64_at(head, 0);
    let payload = rest.get(..u32_at(head, 8) as usize)?;
    if edition == 0 || edition % 2 != parity {
        return None;
    }
    let crc = crc32c::crc32c_append(crc32c::crc32c(&head[..12]), payload);
    (crc == u32_at(head, 12)).then_some((edition, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_written_in_turn_and_the_newer_one_counts() {
        let mut block = [0_u8; 64];
        assert!(is_blank(&block));
        assert_eq!(read_twin(&block), None);
        assert!(write_twin(&mut block, 1, b"one"));
        assert_eq!(block[..32], [0; 32]);
        assert!(write_twin(&mut block, 2, b"second"));
        assert_eq!(read_twin(&block), Some((2, &b"second"[..])));
        block[17] ^= 1;
        assert_eq!(read_twin(&block), Some((1, &b"one"[..])));
        block[48] ^= 1;
        assert_eq!(read_twin(&block), None);
        assert!(!is_blank(&block));
    }

    #[test]
    fn head_is_edition_length_and_checksum_of_all_but_itself() {
        let mut block = [0_u8; 64];
        assert!(write_twin(&mut block, 0x0102_0304, b"ab"));
        assert_eq!(block[0..8], [4, 3, 2, 1, 0, 0, 0, 0]);
        assert_eq!(block[8..12], [2, 0, 0, 0]);
        let crc = crc32c::crc32c(&[4, 3, 2, 1, 0, 0, 0, 0, 2, 0, 0, 0, b'a', b'b']);
        assert_eq!(block[12..16], crc.to_le_bytes());
        assert_eq!(block[16..19], *b"ab\0");
    }

    #[test]
    fn payload_that_does_not_fit_leaves_the_block_alone() {
        let mut block = [0_u8; 64];
        assert!(!write_twin(&mut block, 1, &[7; 17]));
        assert!(!write_twin(&mut block, 0, &[7; 1]));
        assert!(!write_twin(&mut [0; 8], 1, &[]));
        assert!(!write_twin(&mut [], 1, &[]));
        assert_eq!(block, [0; 64]);
    }

    #[test]
    fn length_that_reaches_past_the_copy_is_refused() {
        let mut block = [0_u8; 64];
        assert!(write_twin(&mut block, 2, b"fine"));
        block[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(read_twin(&block), None);
    }
}
