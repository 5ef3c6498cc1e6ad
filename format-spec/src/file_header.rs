//! The first 256 bytes of a file: what it is and where its areas are (SPEC 5.1).

use crate::error::Error;
use crate::in_flight::IN_FLIGHT_STRIDE;
use crate::limits::{
    MAX_CHUNK_BYTES, MAX_IN_FLIGHT_ENTRIES, MAX_IN_FLIGHT_STRIDE, MAX_RAW_BYTES, MAX_RAW_SLOTS,
};
use crate::little_endian::{i64_at, id_at, round_up, u16_at, u32_at, u64_at};
use crate::raw_slot::SLOT_HEAD;
use crate::record::UNIT;

/// Bytes before the first area.
pub const HEADER_LENGTH: u64 = 4096;
/// Bytes of the fixed part.
pub(crate) const FIXED_LENGTH: usize = 256;
/// Where the vitals are.
pub const VITALS_OFFSET: usize = 256;
/// Bytes of the vitals' twin block.
pub const VITALS_LENGTH: usize = 1024;
/// Areas start at multiples of this.
pub(crate) const AREA_ALIGN: u64 = 4096;

const MAGIC: [u8; 8] = *b"\x89RSCP\r\n\x1a";
const MAJOR: u16 = 1;
pub(crate) const MINOR: u16 = 2;

/// First minor version whose vitals tell what is in no table, and whose dumps count as
/// overwritten what they leave out (SPEC 5.2).
pub(crate) const TELLS_OF_PARTS: u16 = 2;

/// Whether a file that begins with these bytes (8 are enough) is a trace.
pub fn looks_like_a_trace(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(&MAGIC)
}

/// How a recording keeps its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All of them.
    Full,
    /// The last ones, in a ring.
    KeepLast,
    /// Copied from a recording that goes on.
    Dump,
    /// Converted from a file of another format.
    Converted,
}

/// What ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// The time-stamp counter of x86-64.
    X86Tsc,
    /// `cntvct_el0` of aarch64.
    Aarch64Cntvct,
    /// The system's monotonic clock, in nanoseconds.
    MonotonicNs,
}

/// Where the areas of a file are. An area of no entries is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Offset of the in-flight area.
    pub in_flight_offset: u64,
    /// Number of in-flight entries.
    pub in_flight_entries: u32,
    /// Bytes from one in-flight entry to the next.
    pub in_flight_stride: u32,
    /// Offset of the raw area.
    pub raw_offset: u64,
    /// Number of raw slots.
    pub raw_slots: u32,
    /// Bytes from one raw slot to the next.
    pub raw_stride: u32,
    /// Offset of the ring area.
    pub ring_offset: u64,
    /// Bytes of the ring area.
    pub ring_length: u64,
    /// Offset of the log area, which goes on to the end of the file.
    pub log_offset: u64,
}

impl Layout {
    /// The layout of a file that is being recorded. Raw slots take
    /// `units_per_slot` units each, batch headers included. Counts past the
    /// format's limits count as the limits.
    pub fn live(
        in_flight_entries: u32,
        raw_slots: u32,
        units_per_slot: u32,
        ring_length: u64,
    ) -> Layout {
        let in_flight_entries = in_flight_entries.min(MAX_IN_FLIGHT_ENTRIES);
        let stride = round_up(SLOT_HEAD as u64 + u64::from(units_per_slot) * UNIT as u64, 64);
        let raw_stride = stride.min(MAX_CHUNK_BYTES);
        let raw_slots = raw_slots.min(MAX_RAW_SLOTS).min((MAX_RAW_BYTES / raw_stride) as u32);
        let in_flight_bytes = u64::from(in_flight_entries) * IN_FLIGHT_STRIDE as u64;
        let raw_offset = round_up(HEADER_LENGTH + in_flight_bytes, AREA_ALIGN);
        let raw_bytes = u64::from(raw_slots) * raw_stride;
        let ring_offset = round_up(raw_offset + raw_bytes, AREA_ALIGN);
        let ring_length = round_up(ring_length.min(1 << 62), AREA_ALIGN);
        Layout {
            in_flight_offset: HEADER_LENGTH,
            in_flight_entries,
            in_flight_stride: IN_FLIGHT_STRIDE as u32,
            raw_offset,
            raw_slots,
            raw_stride: raw_stride as u32,
            ring_offset,
            ring_length,
            log_offset: ring_offset + ring_length,
        }
    }

    /// The layout of a file that only has chunks.
    pub fn finished() -> Layout {
        Layout { log_offset: HEADER_LENGTH, ..Layout::default() }
    }

    /// Bytes from the start of the file to the first chunk: header, in-flight and raw area.
    pub fn mapped_length(&self) -> u64 {
        if self.ring_length > 0 { self.ring_offset } else { self.log_offset }
    }

    /// What no file has, if this has it.
    fn fault(&self) -> Option<&'static str> {
        let in_flight = u64::from(self.in_flight_entries) * u64::from(self.in_flight_stride);
        let raw = u64::from(self.raw_slots) * u64::from(self.raw_stride);
        let areas = [
            (self.in_flight_offset, in_flight),
            (self.raw_offset, raw),
            (self.ring_offset, self.ring_length),
            (self.log_offset, 1),
        ];
        if self.in_flight_entries > MAX_IN_FLIGHT_ENTRIES
            || self.in_flight_stride > MAX_IN_FLIGHT_STRIDE
        {
            return Some("more in-flight entries, or larger ones, than the format takes");
        }
        if self.raw_slots > MAX_RAW_SLOTS
            || u64::from(self.raw_stride) > MAX_CHUNK_BYTES
            || raw > MAX_RAW_BYTES
        {
            return Some("more raw slots, or larger ones, than the format takes");
        }
        if self.raw_slots > 0 && (self.raw_stride as usize) < SLOT_HEAD {
            return Some("raw slots smaller than their own header");
        }
        let mut free = HEADER_LENGTH;
        for (offset, length) in areas.into_iter().filter(|(_, length)| *length > 0) {
            if offset % AREA_ALIGN != 0 {
                return Some("an area that does not start at a multiple of 4,096");
            }
            if offset < free {
                return Some("areas that overlap, or are out of order");
            }
            match offset.checked_add(length) {
                Some(end) => free = end,
                None => return Some("an area that ends past 2^64"),
            }
        }
        None
    }
}

/// What a file is and where its areas are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Id of the recording, shared by its rotated files and its dumps.
    pub recording: [u8; 16],
    /// Number of this file in the recording, from 0.
    pub file_number: u32,
    /// How the recording keeps its events.
    pub mode: Mode,
    /// Id of the process.
    pub pid: u32,
    /// Wall clock at creation, nanoseconds since the Unix epoch; 0 if it is not known.
    pub created_wall_ns: i64,
    /// Tick at creation.
    pub created_tick: u64,
    /// What ticks.
    pub counter: Counter,
    /// Nominal ticks per second, for want of clock pairs.
    pub nominal_hz: u64,
    /// Where the areas are.
    pub layout: Layout,
}

impl FileHeader {
    /// Wall clock at creation, nanoseconds since the Unix epoch, if it is known.
    pub fn begun_wall_ns(&self) -> Option<i64> {
        Some(self.created_wall_ns).filter(|&ns| ns != 0)
    }

    /// The header of a trace that no recorder wrote: its ticks are nanoseconds since
    /// `epoch_wall_ns`, which is 0 if that is not known.
    pub fn converted(recording: [u8; 16], epoch_wall_ns: i64) -> FileHeader {
        FileHeader {
            recording,
            file_number: 0,
            mode: Mode::Converted,
            pid: 0,
            created_wall_ns: epoch_wall_ns,
            created_tick: 0,
            counter: Counter::MonotonicNs,
            nominal_hz: 1_000_000_000,
            layout: Layout::finished(),
        }
    }

    /// The fixed part.
    pub fn to_bytes(&self) -> [u8; FIXED_LENGTH] {
        let mut bytes = [0; FIXED_LENGTH];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC);
        put(8, &MAJOR.to_le_bytes());
        put(10, &MINOR.to_le_bytes());
        put(12, &(HEADER_LENGTH as u32).to_le_bytes());
        put(16, &self.recording);
        put(32, &self.file_number.to_le_bytes());
        put(36, &(self.mode as u32).to_le_bytes());
        put(44, &self.pid.to_le_bytes());
        put(48, &self.created_wall_ns.to_le_bytes());
        put(56, &self.created_tick.to_le_bytes());
        put(64, &(self.counter as u32 + 1).to_le_bytes());
        put(72, &self.nominal_hz.to_le_bytes());
        let layout = &self.layout;
        put(80, &layout.in_flight_offset.to_le_bytes());
        put(88, &layout.in_flight_entries.to_le_bytes());
        put(92, &layout.in_flight_stride.to_le_bytes());
        put(96, &layout.raw_offset.to_le_bytes());
        put(104, &layout.raw_slots.to_le_bytes());
        put(108, &layout.raw_stride.to_le_bytes());
        put(112, &layout.ring_offset.to_le_bytes());
        put(120, &layout.ring_length.to_le_bytes());
        put(128, &layout.log_offset.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..FIXED_LENGTH - 4]);
        bytes[FIXED_LENGTH - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The minor version that a fixed part says it is of.
    pub(crate) fn minor_version(bytes: &[u8; FIXED_LENGTH]) -> u16 {
        u16_at(bytes, 10)
    }

    /// Reads the fixed part. The version is looked at before the checksum: only
    /// magic and version keep their place in a later major version.
    pub fn parse(bytes: &[u8]) -> Result<FileHeader, Error> {
        let bad = |why| Err(Error::Header { why });
        if !looks_like_a_trace(bytes) {
            return Err(Error::NotATrace);
        }
        if bytes.len() < 12 {
            return bad("cut off");
        }
        let (major, minor) = (u16_at(bytes, 8), u16_at(bytes, 10));
        if major != MAJOR {
            return Err(Error::NewerVersion { major, minor });
        }
        if bytes.len() < FIXED_LENGTH {
            return bad("cut off");
        }
        if crc32c::crc32c(&bytes[..FIXED_LENGTH - 4]) != u32_at(bytes, FIXED_LENGTH - 4) {
            return bad("checksum mismatch");
        }
        if u64::from(u32_at(bytes, 12)) != HEADER_LENGTH {
            return bad("its length is not 4,096");
        }
        if u32_at(bytes, 40) != 0 {
            return bad("a reserved flag is set, which only a newer version of ringscope can read");
        }
        let mode = match u32_at(bytes, 36) {
            0 => Mode::Full,
            1 => Mode::KeepLast,
            2 => Mode::Dump,
            3 => Mode::Converted,
            _ => return bad("unknown mode"),
        };
        let counter = match u32_at(bytes, 64) {
            1 => Counter::X86Tsc,
            2 => Counter::Aarch64Cntvct,
            3 => Counter::MonotonicNs,
            _ => return bad("unknown counter"),
        };
        let layout = Layout {
            in_flight_offset: u64_at(bytes, 80),
            in_flight_entries: u32_at(bytes, 88),
            in_flight_stride: u32_at(bytes, 92),
            raw_offset: u64_at(bytes, 96),
            raw_slots: u32_at(bytes, 104),
            raw_stride: u32_at(bytes, 108),
            ring_offset: u64_at(bytes, 112),
            ring_length: u64_at(bytes, 120),
            log_offset: u64_at(bytes, 128),
        };
        if let Some(why) = layout.fault() {
            return bad(why);
        }
        Ok(FileHeader {
            recording: id_at(bytes, 16),
            file_number: u32_at(bytes, 32),
            mode,
            pid: u32_at(bytes, 44),
            created_wall_ns: i64_at(bytes, 48),
            created_tick: u64_at(bytes, 56),
            counter,
            nominal_hz: u64_at(bytes, 72),
            layout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FileHeader {
        FileHeader {
            recording: *b"0123456789abcdef",
            file_number: 3,
            mode: Mode::Dump,
            pid: 0x0102_0304,
            created_wall_ns: -2,
            created_tick: 0x1112_1314_1516_1718,
            counter: Counter::MonotonicNs,
            nominal_hz: 1_000_000_000,
            layout: Layout::live(8, 3, 100, 5000),
        }
    }

    fn with_checksum(mut bytes: [u8; 256]) -> [u8; 256] {
        let crc = crc32c::crc32c(&bytes[..252]);
        bytes[252..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn header_has_every_field_where_the_format_says() {
        let bytes = header().to_bytes();
        assert_eq!(bytes[0..8], [0x89, 0x52, 0x53, 0x43, 0x50, 0x0D, 0x0A, 0x1A]);
        assert_eq!(bytes[8..16], [1, 0, 2, 0, 0, 0x10, 0, 0]);
        assert_eq!(&bytes[16..32], b"0123456789abcdef");
        assert_eq!(bytes[32..40], [3, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[40..48], [0, 0, 0, 0, 4, 3, 2, 1]);
        assert_eq!(bytes[48..56], (-2_i64).to_le_bytes());
        assert_eq!(bytes[56..64], [0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]);
        assert_eq!(bytes[64..72], [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(u64_at(&bytes, 72), 1_000_000_000);
        assert_eq!((u64_at(&bytes, 80), u32_at(&bytes, 88), u32_at(&bytes, 92)), (4096, 8, 3200));
        // 8 entries of 3,200 bytes end at 0x7400; slots take 64 + 100 x 32 bytes.
        assert_eq!(
            (u64_at(&bytes, 96), u32_at(&bytes, 104), u32_at(&bytes, 108)),
            (0x8000, 3, 3264)
        );
        assert_eq!((u64_at(&bytes, 112), u64_at(&bytes, 120)), (0xB000, 0x2000));
        assert_eq!(u64_at(&bytes, 128), 0xD000);
        assert_eq!(bytes[136..252], [0; 116]);
        assert_eq!(bytes[252..], crc32c::crc32c(&bytes[..252]).to_le_bytes());
        assert_eq!(FileHeader::parse(&bytes).unwrap(), header());
        assert!(looks_like_a_trace(&bytes) && !looks_like_a_trace(&bytes[..7]));
    }

    #[test]
    fn newer_major_version_is_named_and_newer_minor_accepted() {
        let mut bytes = header().to_bytes();
        bytes[10] = 9;
        assert!(FileHeader::parse(&with_checksum(bytes)).is_ok());
        bytes[8] = 2;
        let error = FileHeader::parse(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "format version 2.9, this reader knows 1.x; \
             read it with the version of ringscope that wrote it, or a newer one"
        );
    }

    #[test]
    fn reserved_flag_is_refused_and_unused_bytes_are_not() {
        let mut bytes = header().to_bytes();
        bytes[68] = 1;
        bytes[200] = 1;
        assert!(FileHeader::parse(&with_checksum(bytes)).is_ok());
        bytes[43] = 0x80;
        let error = FileHeader::parse(&with_checksum(bytes)).unwrap_err();
        assert!(error.to_string().contains("reserved flag"), "{error}");
    }

    #[test]
    fn header_that_is_cut_or_flipped_is_refused() {
        let bytes = header().to_bytes();
        for cut in 0..256 {
            assert!(FileHeader::parse(&bytes[..cut]).is_err());
        }
        for bit in 0..256 * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let parsed = FileHeader::parse(&flipped);
            assert!(parsed.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn layout_that_no_file_can_have_is_refused() {
        let refused = |change: &dyn Fn(&mut Layout)| {
            let mut header = header();
            change(&mut header.layout);
            FileHeader::parse(&header.to_bytes()).is_err()
        };
        assert!(!refused(&|_| {}));
        assert!(refused(&|layout| layout.log_offset += 64));
        assert!(refused(&|layout| layout.log_offset = 0));
        assert!(refused(&|layout| layout.ring_length = u64::MAX));
        assert!(refused(&|layout| layout.ring_length = 1 << 63));
        assert!(refused(&|layout| layout.ring_offset = u64::MAX - 4095));
        assert!(refused(&|layout| layout.raw_slots = 1025));
        assert!(refused(&|layout| layout.raw_stride = u32::MAX));
        assert!(refused(&|layout| layout.raw_stride = 63));
        assert!(refused(&|layout| layout.in_flight_entries = u32::MAX));
        assert!(refused(&|layout| layout.in_flight_stride = u32::MAX));
        assert!(refused(&|layout| layout.raw_offset = layout.in_flight_offset));
    }

    #[test]
    fn layouts_have_their_areas_in_order_and_within_the_limits() {
        for layout in [
            Layout::finished(),
            Layout::live(0, 0, 0, 0),
            Layout::live(256, 4, 16_400, 0),
            Layout::live(u32::MAX, u32::MAX, u32::MAX, u64::MAX),
        ] {
            assert_eq!(layout.fault(), None, "{layout:?}");
        }
        assert_eq!(Layout::finished().mapped_length(), 4096);
        let live = Layout::live(1, 1, 10, 0);
        assert_eq!((live.mapped_length(), live.ring_length), (live.log_offset, 0));
        let ring = Layout::live(1, 1, 10, 1);
        assert_eq!((ring.mapped_length(), ring.ring_length), (ring.ring_offset, 4096));
    }
}
