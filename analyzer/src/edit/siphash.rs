//! SipHash-2-4: a short hash that nobody can work out or undo without its key.
//!
//! The standard library's hashers promise neither an algorithm nor a key, and what is
//! made with this one is kept in files and compared between versions.

/// The hash of some bytes under a key.
pub(super) fn siphash(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut take = |word: u64| {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    };
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        take(word.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
    }
    let rest = words.remainder().iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    take(rest | (bytes.len() as u64) << 56);
    v[2] ^= 0xFF;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference_implementation() {
        // `vectors_sip64` of the reference implementation: the key is 00 to 0f, and the
        // n-th hash is of the bytes 00 to n - 1.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(key, &bytes[..1]), 0x74f8_39c5_93dc_67fd);
        assert_eq!(siphash(key, &bytes), 0xa129_ca61_49be_45e5);
    }
}
