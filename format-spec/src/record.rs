//! The 32-byte record: one finished span, one event, one reading (SPEC 10.1).

use bytemuck::{Pod, Zeroable};
use std::fmt;

pub(crate) use crate::limits::MAX_SLOTS;

// Records are stored as they lie in memory.
#[cfg(target_endian = "big")]
compile_error!(
    "ringscope-format stores records as they lie in memory, which must be little-endian"
);

/// What a unit is. Classes of kinds let a reader list and sum kinds that it has
/// never heard of.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct Kind(pub u8);

impl Kind {
    /// A synchronous span.
    pub const SPAN: Kind = Kind(0x01);
    /// A span that may end on another thread; its id is in a link slot.
    pub const ASYNC_SPAN: Kind = Kind(0x02);
    /// A slice of a longer span.
    pub const SLICE: Kind = Kind(0x03);
    /// A kernel on a device.
    pub const KERNEL: Kind = Kind(0x04);
    /// The host's call that launched a kernel.
    pub const LAUNCH: Kind = Kind(0x05);
    /// A copy of memory.
    pub const COPY: Kind = Kind(0x06);
    /// A fill of memory.
    pub const FILL: Kind = Kind(0x07);
    /// A span that was entered and left in slices, from its creation to its close.
    pub const TASK: Kind = Kind(0x08);
    /// The same, where each slice is a call of its own.
    pub const REUSED: Kind = Kind(0x09);
    /// A time that a thread worked for a request, whose id is in a link slot.
    pub const SCOPE: Kind = Kind(0x0A);
    /// Something that happened at an instant.
    pub const EVENT: Kind = Kind(0x40);
    /// A number to be added up.
    pub const COUNTER: Kind = Kind(0x41);
    /// A number as it is now.
    pub const GAUGE: Kind = Kind(0x42);
    /// An error that happened at an instant.
    pub const ERROR: Kind = Kind(0x43);
    /// A slot with two typed fields.
    pub const FIELDS: Kind = Kind(0x80);
    /// A slot with up to 24 bytes of text.
    pub const TEXT: Kind = Kind(0x81);
    /// A slot with a 128-bit id.
    pub const LINK: Kind = Kind(0x82);
    /// A slot that says which long text is the whole of the text before it.
    pub const LONG_TEXT: Kind = Kind(0x83);

    /// Whether the value is a duration.
    #[inline]
    pub const fn is_timed(self) -> bool {
        matches!(self.0, 0x01..=0x3F)
    }

    /// Whether the value is a number.
    #[inline]
    pub const fn is_point(self) -> bool {
        matches!(self.0, 0x40..=0x7F)
    }

    /// Whether it is the whole life of a span that has slices: that is told twice,
    /// and is no time of its track.
    #[inline]
    pub const fn is_life(self) -> bool {
        matches!(self, Kind::TASK | Kind::REUSED)
    }

    /// Whether it only says something about other records, and is no work of its track: a
    /// life, or a scope.
    #[inline]
    pub const fn is_overlay(self) -> bool {
        self.is_life() || matches!(self, Kind::SCOPE)
    }

    /// Whether this unit belongs to the record before it.
    #[inline]
    pub const fn is_slot(self) -> bool {
        matches!(self.0, 0x80..=0xEF)
    }

    /// Whether an event begins with this unit.
    #[inline]
    pub const fn is_base(self) -> bool {
        matches!(self.0, 0x01..=0x7F)
    }

    /// The name that the format gives this kind, if it has one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Kind::SPAN => "span",
            Kind::ASYNC_SPAN => "async span",
            Kind::SLICE => "slice",
            Kind::KERNEL => "kernel",
            Kind::LAUNCH => "launch",
            Kind::COPY => "copy",
            Kind::FILL => "fill",
            Kind::TASK => "task",
            Kind::REUSED => "reused span",
            Kind::SCOPE => "scope",
            Kind::EVENT => "event",
            Kind::COUNTER => "counter",
            Kind::GAUGE => "gauge",
            Kind::ERROR => "error",
            Kind::FIELDS => "fields",
            Kind::TEXT => "text",
            Kind::LINK => "link",
            Kind::LONG_TEXT => "long text",
            _ => return None,
        })
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "kind {:#04x}", self.0),
        }
    }
}

/// How a span ended. Only the low 4 bits count; a reader ignores the others.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct Status(pub u8);

impl Status {
    /// Nothing was said about it.
    pub const UNKNOWN: Status = Status(0);
    /// It went well.
    pub const OK: Status = Status(1);
    /// It failed.
    pub const ERROR: Status = Status(2);
    /// It was given up before its end.
    pub const CANCELLED: Status = Status(3);
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 & 0x0F {
            0 => f.write_str("unknown"),
            1 => f.write_str("ok"),
            2 => f.write_str("error"),
            3 => f.write_str("cancelled"),
            other => write!(f, "status {other}"),
        }
    }
}

/// The type of a value in 64 bits.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueType {
    /// No value.
    #[default]
    None = 0,
    /// An unsigned integer.
    U64 = 1,
    /// A signed integer.
    I64 = 2,
    /// A floating-point number.
    F64 = 3,
    /// 0 or 1.
    Bool = 4,
    /// The id of a name.
    Name = 5,
    /// A duration in ticks.
    Ticks = 6,
}

impl ValueType {
    /// The type with this number.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<ValueType> {
        Some(match bits {
            0 => ValueType::None,
            1 => ValueType::U64,
            2 => ValueType::I64,
            3 => ValueType::F64,
            4 => ValueType::Bool,
            5 => ValueType::Name,
            6 => ValueType::Ticks,
            _ => return None,
        })
    }
}

/// One unit of a trace: a record, or a slot that follows one. The fields have
/// the meaning of a record; a slot uses the same bytes in its own way.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Record {
    /// When it started, in ticks.
    pub start: u64,
    /// Duration in ticks for timed kinds, a number of type `value_type()` for point kinds.
    pub value: u64,
    /// Id of its name; 0 if it has none.
    pub name: u32,
    /// The line of time it belongs to.
    pub track: u32,
    /// Correlates launches with kernels; 0 if nothing.
    pub link: u32,
    /// What it is.
    pub kind: Kind,
    /// How it ended.
    pub status: Status,
    /// How many spans of its track enclosed it; 255 stands for that many or more.
    pub depth: u8,
    /// Number of slots and type of the value; see [`Record::shape_of`].
    pub shape: u8,
}

/// Bytes of a unit.
pub const UNIT: usize = size_of::<Record>();

impl Record {
    /// A timed record without slots.
    #[inline]
    pub const fn timed(kind: Kind, name: u32, track: u32, start: u64, duration: u64) -> Record {
        Record {
            start,
            value: duration,
            name,
            track,
            link: 0,
            kind,
            status: Status::UNKNOWN,
            depth: 0,
            shape: 0,
        }
    }

    /// A point record without slots.
    #[inline]
    pub const fn point(
        kind: Kind,
        name: u32,
        track: u32,
        tick: u64,
        value: (ValueType, u64),
    ) -> Record {
        let mut record = Record::timed(kind, name, track, tick, value.1);
        record.shape = Record::shape_of(0, value.0);
        record
    }

    /// How many slots follow this record.
    #[inline]
    pub const fn slots(&self) -> usize {
        (self.shape & 0x1F) as usize
    }

    /// The type of the value; `None` for the number that has no meaning yet.
    #[inline]
    pub const fn value_type(&self) -> ValueType {
        match ValueType::from_bits(self.shape >> 5) {
            Some(value_type) => value_type,
            None => ValueType::None,
        }
    }

    /// The shape byte. More than [`MAX_SLOTS`] slots count as that many.
    #[inline]
    pub const fn shape_of(slots: usize, value_type: ValueType) -> u8 {
        let slots = if slots > MAX_SLOTS { MAX_SLOTS } else { slots };
        slots as u8 | (value_type as u8) << 5
    }

    /// The duration of a timed record. The counter of a record with a negative
    /// duration ran backwards; it counts as 0.
    #[inline]
    pub const fn duration(&self) -> Option<u64> {
        if !self.kind.is_timed() {
            None
        } else if (self.value as i64) < 0 {
            Some(0)
        } else {
            Some(self.value)
        }
    }

    /// When it ended: the start of a point record, and never less than the start.
    #[inline]
    pub const fn end(&self) -> u64 {
        match self.duration() {
            Some(duration) => self.start.saturating_add(duration),
            None => self.start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_lies_in_memory_as_the_format_says() {
        let record = Record {
            start: 0x0102_0304_0506_0708,
            value: 0x1112_1314_1516_1718,
            name: 0x2122_2324,
            track: 0x3132_3334,
            link: 0x4142_4344,
            kind: Kind::SPAN,
            status: Status::ERROR,
            depth: 7,
            shape: Record::shape_of(3, ValueType::F64),
        };
        let bytes: &[u8; 32] = bytemuck::cast_ref(&record);
        assert_eq!(bytes[0..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[8..16], [0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]);
        assert_eq!(bytes[16..20], [0x24, 0x23, 0x22, 0x21]);
        assert_eq!(bytes[20..24], [0x34, 0x33, 0x32, 0x31]);
        assert_eq!(bytes[24..28], [0x44, 0x43, 0x42, 0x41]);
        assert_eq!(bytes[28..32], [1, 2, 7, 0x63]);
    }

    #[test]
    fn every_kind_belongs_to_exactly_one_class() {
        for byte in 0..=255 {
            let kind = Kind(byte);
            let classes = kind.is_timed() as u8 + kind.is_point() as u8 + kind.is_slot() as u8;
            let outside = byte == 0 || byte >= 0xF0;
            assert_eq!(classes, !outside as u8, "{byte:#x}");
            assert_eq!(kind.is_base(), kind.is_timed() || kind.is_point());
        }
    }

    #[test]
    fn shape_holds_slots_and_type_apart() {
        let record = Record { shape: Record::shape_of(31, ValueType::Ticks), ..Record::default() };
        assert_eq!((record.slots(), record.value_type()), (31, ValueType::Ticks));
        assert_eq!(Record::shape_of(99, ValueType::None), 31);
        assert_eq!(Record { shape: 0xE1, ..record }.value_type(), ValueType::None);
    }

    #[test]
    fn negative_duration_counts_as_zero_and_end_never_wraps() {
        let span = Record::timed(Kind::SPAN, 1, 1, 100, (-5_i64) as u64);
        assert_eq!((span.duration(), span.end()), (Some(0), 100));
        let long = Record::timed(Kind::SPAN, 1, 1, u64::MAX - 1, 5);
        assert_eq!(long.end(), u64::MAX);
        let gauge = Record::point(Kind::GAUGE, 1, 1, 9, (ValueType::U64, 77));
        assert_eq!((gauge.duration(), gauge.end()), (None, 9));
    }
}
