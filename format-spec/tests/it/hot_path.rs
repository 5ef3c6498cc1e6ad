//! What runs beside the measured program allocates nothing.

use crate::allocation::allocations;
use ringscope_format::*;
use std::hint::black_box;

#[test]
fn writing_slots_and_batches_allocates_nothing() {
    let text = "a text that takes more than one slot to write down".repeat(30);
    let fields = [
        (1, Value::U64(1)),
        (2, Value::F64(2.0)),
        (3, Value::Text(&text)),
        (4, Value::Bool(true)),
        (5, Value::Text("")),
    ];
    let links = [Link { id: u128::MAX, track: 1, role: LinkRole::Own }];
    let mut units = [Record::default(); 1 + MAX_SLOTS];
    let mut slot = vec![0_u8; SLOT_HEAD + 200 * UNIT];
    let mut entry = vec![0_u8; IN_FLIGHT_STRIDE];
    let open = [OpenSpan::default(); LISTED_FRAMES];
    let ((), count) = allocations(|| {
        let needed = slots_needed(&fields, &links);
        units[0] = Record {
            shape: Record::shape_of(needed, ValueType::None),
            ..Record::timed(Kind::SPAN, 1, 1, 10, 20)
        };
        let mut at = 1;
        write_slots(&fields, &links, |slot| {
            units[at] = slot;
            at += 1;
        });
        assert_eq!(at, 1 + needed);
        let mut writer = SlotWriter::begin(&mut slot, 1);
        let cut = whole_events(&units[..at], &units[..at], writer.room().min(at + 3));
        assert_eq!(cut, at);
        assert!(writer.push_events(1, 2, count_events(&units[..at]), &units[..at], &[]));
        assert!(writer.push_bytes(BatchKind::Names, 2, 1, b"123"));
        writer.publish();
        writer.mark_full();
        mark_free(&mut slot);
        write_in_flight(&mut entry, 1, 2, 3, 4, &open);
        black_box(&slot);
    });
    assert_eq!(count, 0);
}

#[test]
fn encoder_keeps_its_memory_and_stays_under_four_mebibytes() {
    let content = crate::build::spans(1, 16_384, 1_000);
    // zstd's own memory is not seen by this allocator; it is measured by the
    // window and table sizes of level 1 at this size, some 200 KiB.
    let (mut encoder, held) = crate::allocation::most_held(|| {
        let mut encoder = ChunkEncoder::new([1; 16]).unwrap();
        encoder.data(&content, &[]).unwrap();
        encoder
    });
    assert!(held < 3 << 20, "{held} bytes");
    let (_, count) = allocations(|| encoder.data(&content, &[]).map(<[u8]>::len).unwrap());
    assert_eq!(count, 0);
}

#[test]
fn slot_that_is_too_small_takes_nothing_and_does_not_panic() {
    let unit = [Record::timed(Kind::SPAN, 1, 1, 1, 1)];
    for length in [0, 1, 63, 64, 65, 95, 96, 127] {
        let mut slot = vec![0_u8; length];
        let mut writer = SlotWriter::begin(&mut slot, 1);
        assert_eq!(writer.room(), 0);
        assert!(!writer.push_events(1, 1, 1, &unit, &[]));
        assert!(!writer.push_bytes(BatchKind::Names, 1, 1, b"x"));
        assert!(writer.is_empty());
        writer.publish();
        writer.mark_full();
        mark_free(&mut slot);
        assert!(!RawContent::default().read_into(&slot));
    }
}

#[test]
fn events_are_never_split_between_batches() {
    let base = |slots| Record {
        shape: Record::shape_of(slots, ValueType::None),
        ..Record::timed(Kind::SPAN, 1, 1, 1, 1)
    };
    let slot = Record { kind: Kind::TEXT, ..Record::default() };
    let units = [base(2), slot, slot, base(0), base(3), slot, slot, slot];
    for split in 0..=units.len() {
        let (first, second) = units.split_at(split);
        let cuts: Vec<usize> = (0..10).map(|room| whole_events(first, second, room)).collect();
        assert_eq!(cuts, [0, 0, 0, 3, 4, 4, 4, 4, 8, 8]);
    }
    assert_eq!(count_events(&units), 3);
}
