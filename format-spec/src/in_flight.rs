//! What every thread was inside of, as of the last drain tick (SPEC 6).

use crate::little_endian::{round_up, u32_at, u64_at};
use crate::twin::{self, TWIN_HEAD, TwinCopy};
use bytemuck::{Pod, Zeroable};

/// A span that has started and not ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct OpenSpan {
    /// When it started, in ticks.
    pub start: u64,
    /// The id of an asynchronous span, or the number of a task that waits; 0 in a stack.
    pub id: u64,
    /// Id of its name.
    pub name: u32,
    /// The track it started on.
    pub track: u32,
}

/// Spans that an entry of [`IN_FLIGHT_STRIDE`] bytes can list.
pub const LISTED_FRAMES: usize = 64;
/// Bytes of an entry.
pub const IN_FLIGHT_STRIDE: usize =
    round_up((2 * (TWIN_HEAD + HEAD + LISTED_FRAMES * OPEN_SPAN)) as u64, 64) as usize;

const HEAD: usize = 24;
const OPEN_SPAN: usize = size_of::<OpenSpan>();

/// Writes one thread's stack, outermost span first, or with track 0 a set of
/// asynchronous spans. Spans that do not fit are not listed; `depth` says how
/// many there are. Allocates nothing.
#[inline]
pub fn write_in_flight(
    entry: &mut [u8],
    edition: u64,
    tick: u64,
    track: u32,
    depth: u32,
    spans: &[OpenSpan],
) {
    write_in_flight_from(entry, edition, tick, track, depth, spans.iter().copied());
}

/// [`write_in_flight`] for spans that do not lie together as such.
#[inline]
pub fn write_in_flight_from(
    entry: &mut [u8],
    edition: u64,
    tick: u64,
    track: u32,
    depth: u32,
    spans: impl ExactSizeIterator<Item = OpenSpan>,
) {
    let fits = (entry.len() / 2).saturating_sub(TWIN_HEAD + HEAD) / OPEN_SPAN;
    let listed = spans.len().min(fits).min(LISTED_FRAMES);
    let length = HEAD + listed * OPEN_SPAN;
    let Some(copy) = TwinCopy::begin(entry, edition, length) else { return };
    let Some((head, rest)) = copy.payload.split_first_chunk_mut::<HEAD>() else { return };
    head[0..8].copy_from_slice(&tick.to_le_bytes());
    head[8..12].copy_from_slice(&track.to_le_bytes());
    head[12..16].copy_from_slice(&depth.to_le_bytes());
    head[16..24].copy_from_slice(&(listed as u64).to_le_bytes());
    let (places, _) = rest.as_chunks_mut::<OPEN_SPAN>();
    for (place, span) in places.iter_mut().zip(spans) {
        *place = bytemuck::cast(span);
    }
    copy.end();
}

/// The open spans of one track, or of no track in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// When this was true.
    pub tick: u64,
    /// Whose stack it is; 0: a set of asynchronous spans and of tasks that wait.
    pub track: u32,
    /// How many spans are open, also those that are not listed.
    pub depth: u32,
    /// The open spans, outermost first.
    pub spans: Vec<OpenSpan>,
}

/// Reads the newest intact copy of an entry.
pub fn read_in_flight(entry: &[u8]) -> Option<InFlight> {
    let (_, payload) = twin::read_twin(entry)?;
    let head = payload.get(..HEAD)?;
    let listed = (u32_at(head, 16) as usize).checked_mul(OPEN_SPAN)?;
    let spans = payload[HEAD..].get(..listed)?;
    Some(InFlight {
        tick: u64_at(head, 0),
        track: u32_at(head, 8),
        depth: u32_at(head, 12),
        spans: spans.chunks_exact(OPEN_SPAN).map(bytemuck::pod_read_unaligned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(n: u32) -> OpenSpan {
        OpenSpan { start: 100 + u64::from(n), id: 0, name: n, track: 9 }
    }

    #[test]
    fn entry_has_every_field_where_the_format_says() {
        let mut entry = [0_u8; IN_FLIGHT_STRIDE];
        let open = OpenSpan { start: 1, id: 2, name: 3, track: 4 };
        write_in_flight(&mut entry, 2, 5, 6, 7, &[open]);
        assert_eq!(u32_at(&entry, 8), 24 + 24);
        let payload = &entry[16..];
        assert_eq!((u64_at(payload, 0), u32_at(payload, 8), u32_at(payload, 12)), (5, 6, 7));
        assert_eq!((u32_at(payload, 16), u32_at(payload, 20)), (1, 0));
        assert_eq!((u64_at(payload, 24), u64_at(payload, 32)), (1, 2));
        assert_eq!((u32_at(payload, 40), u32_at(payload, 44)), (3, 4));
    }

    #[test]
    fn stack_deeper_than_the_entry_keeps_its_outermost_spans_and_its_depth() {
        let mut entry = [0_u8; IN_FLIGHT_STRIDE];
        let spans: Vec<_> = (0..70).map(span).collect();
        write_in_flight(&mut entry, 1, 5, 9, 70, &spans);
        let read = read_in_flight(&entry).unwrap();
        assert_eq!((read.depth, read.spans.as_slice()), (70, &spans[..LISTED_FRAMES]));
    }

    #[test]
    fn count_that_reaches_past_the_payload_is_refused() {
        let mut payload = [0_u8; 24];
        payload[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut entry = [0_u8; 256];
        assert!(twin::write_twin(&mut entry, 1, &payload));
        assert_eq!(read_in_flight(&entry), None);
        assert!(twin::write_twin(&mut entry, 2, &payload[..20]));
        assert_eq!(read_in_flight(&entry), None);
    }
}
