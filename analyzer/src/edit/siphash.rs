//! SipHash-2-4: a short hash that nobody can work out or undo without its key.
//!
//! The standard library's hashers promise neither an algorithm nor a key, and what is
//! made with this one is kept in files and compared between versions.

use siphasher::sip::SipHasher24;

/// The hash of some bytes under a key.
pub(super) fn siphash(key: [u64; 2], bytes: &[u8]) -> u64 {
    SipHasher24::new_with_keys(key[0], key[1]).hash(bytes)
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
