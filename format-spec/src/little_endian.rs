//! Reads of little-endian integers at an offset that the caller has checked
//! against a constant layout.

#[inline]
fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[offset..offset + N]);
    out
}

#[inline]
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array(bytes, offset))
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array(bytes, offset))
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array(bytes, offset))
}

#[inline]
pub(crate) fn i64_at(bytes: &[u8], offset: usize) -> i64 {
    i64::from_le_bytes(array(bytes, offset))
}

#[inline]
pub(crate) fn id_at(bytes: &[u8], offset: usize) -> [u8; 16] {
    array(bytes, offset)
}

/// Rounds up to a multiple of `step`, a power of two.
#[inline]
pub(crate) const fn round_up(n: u64, step: u64) -> u64 {
    (n + (step - 1)) & !(step - 1)
}
