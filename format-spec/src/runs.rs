//! Planes of a few runs, as zstd frames written by hand (SPEC 8.2 asks for a frame, not for who
//! made it). Kinds, tracks and the highest bytes of numbers are like that, and a compressor's
//! tables take longer to set up than such a plane takes to look at.
//!
//! A run is an RLE block of the zstd format (RFC 8878, 3.1.1.2), one after the other.

/// More runs than this are left to the compressor: however long the plane is, and of a short one.
const MOST: usize = 96;
const FEW: usize = 8;
/// Between these two, a block for every so many bytes of the plane. The compressor would make half
/// as much of them, which is little beside the planes that vary, and takes tens of times as long.
const BYTES_A_RUN: usize = 96;
/// The most that a block may unpack to.
const LONGEST: usize = 128 << 10;
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// Descriptor of a frame whose size follows in four bytes, and which has no window besides.
const SIZE_IN_FOUR: u8 = 0b1010_0000;
const RLE: u32 = 1 << 1;
const LAST: u32 = 1;
const HEAD: usize = 9;
const BLOCK: usize = 4;

/// Writes a frame of the plane to the beginning of `out`, and returns its length; if the plane
/// has few runs, and the frame is shorter.
pub(crate) fn frame(plane: &[u8], out: &mut [u8]) -> Option<usize> {
    if begins_restless(plane) {
        return None;
    }
    let mut ends = [0; MOST];
    let ends = &mut ends[..(plane.len() / BYTES_A_RUN).clamp(FEW, MOST)];
    let (mut runs, mut at) = (0, 0);
    while at < plane.len() {
        at += first_run(&plane[at..]);
        *ends.get_mut(runs)? = at;
        runs += 1;
    }
    let length = HEAD + BLOCK * runs;
    if runs == 0 || plane.len() > LONGEST || length >= plane.len() {
        return None;
    }
    let (head, blocks) = out.get_mut(..length)?.split_at_mut(HEAD);
    head[..4].copy_from_slice(&MAGIC);
    head[4] = SIZE_IN_FOUR;
    head[5..].copy_from_slice(&(plane.len() as u32).to_le_bytes());
    let mut begin = 0;
    for (block, &end) in blocks.as_chunks_mut::<BLOCK>().0.iter_mut().zip(&*ends) {
        let last = if end == plane.len() { LAST } else { 0 };
        let [a, b, c, _] = (((end - begin) as u32) << 3 | RLE | last).to_le_bytes();
        *block = [a, b, c, plane[begin]];
        begin = end;
    }
    Some(length)
}

/// Whether most of the first bytes differ from those before them. Of nearly all planes that have
/// many runs that is known sooner than by counting these.
fn begins_restless(plane: &[u8]) -> bool {
    const LOOKED_AT: usize = 64;
    let (Some(some), Some(next)) = (plane.first_chunk::<LOOKED_AT>(), plane.get(1..=LOOKED_AT))
    else {
        return false;
    };
    let changes: u8 = some.iter().zip(next).map(|(byte, next)| u8::from(byte != next)).sum();
    usize::from(changes) > LOOKED_AT / 2
}

/// How many bytes at the beginning are the same.
fn first_run(bytes: &[u8]) -> usize {
    let Some(&first) = bytes.first() else { return 0 };
    let (words, rest) = bytes.as_chunks::<16>();
    let alike = words.iter().take_while(|word| **word == [first; 16]).count();
    let tail = words.get(alike).map_or(rest, |word| word);
    alike * 16 + tail.iter().take_while(|byte| **byte == first).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(plane: &[u8]) -> Option<Vec<u8>> {
        let mut out = [0; 512];
        frame(plane, &mut out).map(|length| out[..length].to_vec())
    }

    /// So many runs, of so many bytes each.
    fn alike(runs: u8, each: usize) -> Vec<u8> {
        (0..runs).flat_map(|at| vec![at; each]).collect()
    }

    #[track_caller]
    fn has_a_frame_of(runs: usize, plane: &[u8]) {
        let frame = packed(plane).unwrap();
        assert_eq!(frame.len(), 9 + 4 * runs);
        assert_eq!(zstd::decode_all(&frame[..]).unwrap(), plane);
    }

    #[test]
    fn runs_are_blocks_of_a_frame_that_any_zstd_reads() {
        for lengths in [&[100][..], &[1, 99], &[16, 17, 1, 4_000], &[1, 1, 1, 1, 1, 1, 1, 90_000]] {
            let run = |(at, length): (usize, &usize)| vec![7 * at as u8; *length];
            let plane: Vec<u8> = lengths.iter().enumerate().flat_map(run).collect();
            has_a_frame_of(lengths.len(), &plane);
        }
        for runs in 9..=96 {
            for each in [96, 97, 1_000, LONGEST / 96] {
                has_a_frame_of(runs.into(), &alike(runs, each));
            }
        }
    }

    #[test]
    fn planes_of_which_more_than_half_of_the_first_bytes_change_are_left_to_the_compressor() {
        let changing_at = |places: &[usize]| {
            let mut plane = vec![0_u8; 96 * 40];
            places.iter().for_each(|&at| plane[at..].iter_mut().for_each(|byte| *byte += 1));
            plane
        };
        let half: Vec<usize> = (1..=32).collect();
        let and = |one: usize| changing_at(&[&half[..], &[one]].concat());
        has_a_frame_of(33, &changing_at(&half));
        assert_eq!((packed(&and(33)), packed(&and(64))), (None, None));
        has_a_frame_of(34, &and(65));
    }

    #[test]
    fn a_frame_says_its_size_then_each_run_and_which_is_the_last() {
        let plane = [[5; 10], [6; 10], [6; 10]].concat();
        let head = [0x28, 0xB5, 0x2F, 0xFD, 0xA0, 30, 0, 0, 0];
        let blocks = [10 << 3 | 2, 0, 0, 5, 20 << 3 | 3, 0, 0, 6];
        assert_eq!(packed(&plane).unwrap(), [&head[..], &blocks[..]].concat());
    }

    #[test]
    fn what_has_many_runs_or_is_shorter_than_a_frame_is_not_for_this() {
        let many: Vec<u8> = (0..9).flat_map(|at| [at; 80]).collect();
        assert_eq!((packed(&many), packed(&[7; 13]), packed(&[])), (None, None, None));
        assert!(packed(&many[..640]).is_some() && packed(&[7; 14]).is_some());
        assert!(packed(&alike(40, 96)).is_some() && packed(&alike(40, 95)).is_none());
        assert!(packed(&alike(96, 1_000)).is_some() && packed(&alike(97, 1_000)).is_none());
        assert_eq!(packed(&vec![7; LONGEST + 1]), None);
        assert_eq!(frame(&[7; 100], &mut [0; 12]), None);
    }
}
