//! In which order the batches of a raw slot are sealed: those of one ring after the other.
//!
//! The drain takes a little of every ring in turn. Put together again, what one thread did is
//! one run of like records: it packs better, and is packed sooner. Nothing relies on how the
//! records of several tracks lie between each other (SPEC 8.3.1).

use crate::little_endian::u32_at;
use crate::record::UNIT;

/// Where the batches of one slot begin, in the order in which they are to be read. It keeps
/// its memory from slot to slot.
#[derive(Default)]
pub(crate) struct BatchOrder {
    /// Offsets, in that order.
    order: Vec<u32>,
    /// Offsets as they are found, each with the number of the next one of its ring.
    found: Vec<(u32, u32)>,
    rings: Vec<Ring>,
}

/// The batches of a ring: numbers of the first and the last.
struct Ring {
    id: u32,
    first: u32,
    last: u32,
}

/// The number of no batch.
const NONE: u32 = u32::MAX;

impl BatchOrder {
    /// Walks over the headers of a slot's batches. The last one may be no batch: whoever reads
    /// it finds out, as with any whose checksum is wrong.
    pub(crate) fn of(&mut self, units: &[u8]) {
        let Self { order, found, rings } = self;
        order.clear();
        found.clear();
        rings.clear();
        let (mut at, mut last_ring) = (0, 0);
        while let Some(head) = units.get(at..at + UNIT) {
            let (id, number) = (u32_at(head, 4), found.len() as u32);
            found.push((at as u32, NONE));
            at = at.saturating_add((1 + u32_at(head, 8) as usize).saturating_mul(UNIT));
            let Some(known) = find(rings, last_ring, id) else {
                last_ring = rings.len();
                rings.push(Ring { id, first: number, last: number });
                continue;
            };
            last_ring = known;
            let before = std::mem::replace(&mut rings[known].last, number);
            found[before as usize].1 = number;
        }
        for ring in rings {
            let mut number = ring.first;
            while let Some(&(at, next)) = found.get(number as usize) {
                order.push(at);
                number = next;
            }
        }
    }

    /// Where the batch with this number begins.
    pub(crate) fn get(&self, number: usize) -> Option<usize> {
        self.order.get(number).map(|&at| at as usize)
    }
}

/// Where the ring with this id is. The drain goes round: most likely it is that of the last batch
/// again, or one of the next.
#[inline]
fn find(rings: &[Ring], last: usize, id: u32) -> Option<usize> {
    let is_it = |ring: &Ring| ring.id == id;
    if rings.get(last).is_some_and(is_it) {
        return Some(last);
    }
    let behind = rings.iter().skip(last).position(is_it).map(|it| last + it);
    behind.or_else(|| rings.iter().take(last).position(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw_slot::{BatchKind, SLOT_HEAD, SlotWriter};
    use crate::record::Record;

    fn order(units: &[u8]) -> Vec<usize> {
        let mut order = BatchOrder::default();
        order.of(units);
        (0..).map_while(|number| order.get(number)).map(|at| at / UNIT).collect()
    }

    #[test]
    fn batches_of_a_ring_follow_one_another_as_they_were_written() {
        let mut slot = vec![0; SLOT_HEAD + 64 * UNIT];
        let mut writer = SlotWriter::begin(&mut slot, 1);
        for ring in [2, 1, 2, 1] {
            writer.push_events(ring, 1, 2, &[Record::default(); 2], &[]);
            writer.push_bytes(BatchKind::Names, 1, 1, &[7; 40]);
        }
        writer.publish();
        let units = &slot[SLOT_HEAD..SLOT_HEAD + 24 * UNIT];
        assert_eq!(order(units), [0, 12, 3, 9, 15, 21, 6, 18]);
        assert_eq!(order(&[]), [0; 0]);
    }

    #[test]
    fn a_length_that_reaches_past_the_slot_ends_the_walk() {
        let mut units = vec![0xFF; 4 * UNIT];
        assert_eq!(order(&units), [0]);
        units[..UNIT].fill(0);
        assert_eq!(order(&units), [0, 1]);
    }
}
