//! Chunk headers and section directories (SPEC 8.1 and 8.2).

use crate::little_endian::{id_at, u16_at, u32_at, u64_at};

/// Bytes of a chunk header. A chunk's header is written after the rest of it.
pub const CHUNK_HEADER_LENGTH: usize = 80;
/// Chunks start at multiples of this.
pub const CHUNK_ALIGN: usize = 64;
/// Bytes of one entry of the section directory.
pub(crate) const SECTION_ENTRY_LENGTH: usize = 32;

pub(crate) const CHUNK_MAGIC: [u8; 8] = *b"\x89RSCK\r\n\x1a";

/// What a chunk holds.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkKind(pub u8);

impl ChunkKind {
    /// Events, and tables about them.
    pub const DATA: ChunkKind = ChunkKind(1);
    /// Names.
    pub const NAMES: ChunkKind = ChunkKind(2);
    /// Metadata.
    pub const METADATA: ChunkKind = ChunkKind(3);
    /// Spans that were open when the recording ended or was dumped.
    pub const OPEN_SPANS: ChunkKind = ChunkKind(4);

    /// Whether this version says what is in such a chunk.
    pub const fn is_known(self) -> bool {
        matches!(self, Self::DATA | Self::NAMES | Self::METADATA | Self::OPEN_SPANS)
    }
}

/// Kinds of sections (SPEC 8.3 to 8.5).
pub(crate) mod section {
    pub(crate) const START: u16 = 1;
    pub(crate) const VALUE: u16 = 2;
    pub(crate) const NAME: u16 = 3;
    pub(crate) const TRACK: u16 = 4;
    pub(crate) const LINK: u16 = 5;
    pub(crate) const KIND: u16 = 6;
    pub(crate) const STATUS: u16 = 7;
    pub(crate) const DEPTH: u16 = 8;
    pub(crate) const SHAPE: u16 = 9;
    pub(crate) const SLOT_WORD: u16 = 16;
    pub(crate) const TRACKS: u16 = 32;
    pub(crate) const CLOCK_PAIRS: u16 = 33;
    pub(crate) const LOSSES: u16 = 34;
    pub(crate) const OPEN_SPANS: u16 = 35;
    pub(crate) const LONG_TEXTS: u16 = 36;
    pub(crate) const NAMES: u16 = 48;
    pub(crate) const METADATA: u16 = 49;
}

/// What a section is called in messages.
pub(crate) fn section_name(kind: u16) -> &'static str {
    match kind {
        section::START => "start column",
        section::VALUE => "value column",
        section::NAME => "name column",
        section::TRACK => "track column",
        section::LINK => "link column",
        section::KIND => "kind column",
        section::STATUS => "status column",
        section::DEPTH => "depth column",
        section::SHAPE => "shape column",
        16..=19 => "slots",
        section::TRACKS => "tracks",
        section::CLOCK_PAIRS => "clock pairs",
        section::LOSSES => "losses",
        section::OPEN_SPANS => "open spans",
        section::LONG_TEXTS => "long texts",
        section::NAMES => "names",
        section::METADATA => "metadata",
        _ => "a section",
    }
}

/// Encodings of a section.
pub(crate) mod encoding {
    pub(crate) const PLAIN: u8 = 0;
    pub(crate) const ZSTD: u8 = 1;
    pub(crate) const PLANES: u8 = 2;
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) recording: [u8; 16],
    pub(crate) sequence: u64,
    pub(crate) kind: ChunkKind,
    pub(crate) flags: u8,
    pub(crate) sections: u16,
    pub(crate) length: u32,
    pub(crate) events: u32,
    pub(crate) slots: u32,
    pub(crate) first_tick: u64,
    pub(crate) last_tick: u64,
    pub(crate) directory_crc: u32,
    pub(crate) origin: u64,
}

impl ChunkHeader {
    pub(crate) fn to_bytes(self) -> [u8; CHUNK_HEADER_LENGTH] {
        let mut bytes = [0; CHUNK_HEADER_LENGTH];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &CHUNK_MAGIC);
        put(8, &self.recording);
        put(24, &self.sequence.to_le_bytes());
        put(32, &[self.kind.0, self.flags]);
        put(34, &self.sections.to_le_bytes());
        put(36, &self.length.to_le_bytes());
        put(40, &self.events.to_le_bytes());
        put(44, &self.slots.to_le_bytes());
        put(48, &self.first_tick.to_le_bytes());
        put(56, &self.last_tick.to_le_bytes());
        put(64, &self.directory_crc.to_le_bytes());
        put(68, &self.origin.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..76]);
        bytes[76..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header whose magic and checksum are right. What its fields say
    /// is the caller's to check.
    pub(crate) fn parse(bytes: &[u8]) -> Option<ChunkHeader> {
        let bytes = bytes.get(..CHUNK_HEADER_LENGTH)?;
        if bytes[..8] != CHUNK_MAGIC || crc32c::crc32c(&bytes[..76]) != u32_at(bytes, 76) {
            return None;
        }
        Some(ChunkHeader {
            recording: id_at(bytes, 8),
            sequence: u64_at(bytes, 24),
            kind: ChunkKind(bytes[32]),
            flags: bytes[33],
            sections: u16_at(bytes, 34),
            length: u32_at(bytes, 36),
            events: u32_at(bytes, 40),
            slots: u32_at(bytes, 44),
            first_tick: u64_at(bytes, 48),
            last_tick: u64_at(bytes, 56),
            directory_crc: u32_at(bytes, 64),
            origin: u64_at(bytes, 68),
        })
    }
}

/// One entry of the section directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SectionEntry {
    pub(crate) kind: u16,
    pub(crate) encoding: u8,
    pub(crate) planes: u8,
    pub(crate) items: u32,
    pub(crate) stored: u32,
    pub(crate) raw: u32,
    pub(crate) base: u64,
    pub(crate) crc: u32,
}

impl SectionEntry {
    pub(crate) fn to_bytes(self) -> [u8; SECTION_ENTRY_LENGTH] {
        let mut bytes = [0; SECTION_ENTRY_LENGTH];
        bytes[0..2].copy_from_slice(&self.kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&[self.encoding, self.planes]);
        bytes[4..8].copy_from_slice(&self.items.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.base.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> SectionEntry {
        SectionEntry {
            kind: u16_at(bytes, 0),
            encoding: bytes[2],
            planes: bytes[3],
            items: u32_at(bytes, 4),
            stored: u32_at(bytes, 8),
            raw: u32_at(bytes, 12),
            base: u64_at(bytes, 16),
            crc: u32_at(bytes, 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_header_has_every_field_where_the_format_says() {
        let header = ChunkHeader {
            recording: *b"0123456789abcdef",
            sequence: 0x0102_0304_0506_0708,
            kind: ChunkKind::NAMES,
            flags: 0,
            sections: 0x1112,
            length: 0x2122_2324,
            events: 0x3132_3334,
            slots: 0x4142_4344,
            first_tick: 0x5152_5354_5556_5758,
            last_tick: 0x6162_6364_6566_6768,
            directory_crc: 0x7172_7374,
            origin: 0x8182_8384_8586_8788,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes[0..8], [0x89, 0x52, 0x53, 0x43, 0x4B, 0x0D, 0x0A, 0x1A]);
        assert_eq!(&bytes[8..24], b"0123456789abcdef");
        assert_eq!(bytes[24..32], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[32..36], [2, 0, 0x12, 0x11]);
        assert_eq!(bytes[36..40], [0x24, 0x23, 0x22, 0x21]);
        assert_eq!(bytes[40..44], [0x34, 0x33, 0x32, 0x31]);
        assert_eq!(bytes[44..48], [0x44, 0x43, 0x42, 0x41]);
        assert_eq!(bytes[48..56], [0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51]);
        assert_eq!(bytes[56..64], [0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61]);
        assert_eq!(bytes[64..68], [0x74, 0x73, 0x72, 0x71]);
        assert_eq!(bytes[68..76], [0x88, 0x87, 0x86, 0x85, 0x84, 0x83, 0x82, 0x81]);
        assert_eq!(bytes[76..80], crc32c::crc32c(&bytes[..76]).to_le_bytes());
        assert_eq!(ChunkHeader::parse(&bytes), Some(header));
    }

    #[test]
    fn chunk_header_with_any_bit_flipped_is_refused() {
        let mut bytes = ChunkHeader::parse(&[0; 80]).map_or([0; 80], ChunkHeader::to_bytes);
        bytes[..8].copy_from_slice(&CHUNK_MAGIC);
        let crc = crc32c::crc32c(&bytes[..76]);
        bytes[76..].copy_from_slice(&crc.to_le_bytes());
        assert!(ChunkHeader::parse(&bytes).is_some());
        for bit in 0..80 * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ChunkHeader::parse(&flipped), None, "bit {bit}");
        }
    }

    #[test]
    fn section_entry_has_every_field_where_the_format_says() {
        let entry = SectionEntry {
            kind: 0x0102,
            encoding: 2,
            planes: 0x81,
            items: 0x1112_1314,
            stored: 0x2122_2324,
            raw: 0x3132_3334,
            base: 0x4142_4344_4546_4748,
            crc: 0x5152_5354,
        };
        let bytes = entry.to_bytes();
        assert_eq!(bytes[0..4], [2, 1, 2, 0x81]);
        assert_eq!(bytes[4..8], [0x14, 0x13, 0x12, 0x11]);
        assert_eq!(bytes[8..12], [0x24, 0x23, 0x22, 0x21]);
        assert_eq!(bytes[12..16], [0x34, 0x33, 0x32, 0x31]);
        assert_eq!(bytes[16..24], [0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41]);
        assert_eq!(bytes[24..32], [0x54, 0x53, 0x52, 0x51, 0, 0, 0, 0]);
        assert_eq!(SectionEntry::parse(&bytes), entry);
    }
}
