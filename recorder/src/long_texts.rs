//! Texts of errors that are longer than their event holds, on their way to the drain.
//!
//! An event has room for about 700 bytes of text; a stack trace or the arguments of a call
//! that failed are longer. Of errors, and of nothing else, such texts are copied and queued,
//! and the event says which they are. This is the one way of recording that allocates. It
//! never waits: where [`MOST`] texts or [`MOST_BYTES`] of them are on their way already,
//! these stay cut, which is counted.
//!
//! A text is queued before its event is pushed, and only if the ring has room for that: so
//! a drain that sees an event finds its texts, and no text is left without an event.

use std::sync::{
    Mutex, OnceLock, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
    mpsc::{self, Receiver, SyncSender},
};

use ringscope_format::{
    Kind, Link, LongRefs, Record, Value, long_refs, long_text_bytes, push_long_text,
};

/// Texts that may be on their way.
const MOST: usize = 256;
/// Bytes that they may have together.
const MOST_BYTES: usize = 4 << 20;
/// Bytes that the texts of one event may have together: half a raw slot, since all of
/// them go into the same one.
pub(crate) const MOST_OF_AN_EVENT: usize = 256 << 10;

/// What is on its way: queued, or taken by the drain and not yet in the file. Who has
/// raised them to no more than the limits owns a place in the queue, so nobody ever waits
/// for one.
static HELD: AtomicUsize = AtomicUsize::new(0);
static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Texts that stayed cut, of this process.
static STAYED_CUT: AtomicU64 = AtomicU64::new(0);
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
/// Made by the first drain: before that nothing is recorded.
static QUEUE: OnceLock<Queue> = OnceLock::new();

struct Queue {
    sender: SyncSender<Packed>,
    /// The drain's.
    arrived: Mutex<Arrived>,
}

/// What has come out of the queue. Kept from one recording to the next: a thread may queue
/// a text in one and push its event in another.
struct Arrived {
    receiver: Receiver<Packed>,
    texts: Vec<Packed>,
}

/// A text as it goes into the file.
#[derive(Debug)]
pub(crate) struct Packed {
    number: u64,
    entry: Vec<u8>,
}

impl Packed {
    /// The entry of the table of long texts.
    pub(crate) fn entry(&self) -> &[u8] {
        &self.entry
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        HELD_BYTES.fetch_sub(self.entry.capacity(), Ordering::Relaxed);
        HELD.fetch_sub(1, Ordering::Release);
    }
}

/// The long texts of one error, copied and not yet queued.
#[derive(Debug)]
pub(crate) struct Parcel {
    texts: Vec<Packed>,
    /// Which they are.
    pub(crate) long: LongRefs,
}

impl Parcel {
    /// Copies the texts that do not fit. None of them, if they are too many or memory is short.
    pub(crate) fn pack(fields: &[(u32, Value<'_>)], links: &[Link]) -> Self {
        let mut long = long_refs(fields, links);
        let mut bytes = 0;
        for (at, text) in long.texts(fields) {
            let more = long_text_bytes(text);
            if bytes + more > MOST_OF_AN_EVENT {
                long = long.without(at);
            } else {
                bytes += more;
            }
        }
        let first_number = NEXT_NUMBER.fetch_add(long.count() as u64, Ordering::Relaxed);
        let long = long.numbered_from(first_number);
        let mut texts = Vec::new();
        if QUEUE.get().is_some() && texts.try_reserve_exact(long.count()).is_ok() {
            let numbered = (first_number..).zip(long.texts(fields));
            texts.extend(numbered.map_while(|(number, (_, text))| copied(number, text)));
        }
        if texts.len() == long.count() {
            Self { texts, long }
        } else {
            Self { texts: Vec::new(), long: LongRefs::NONE }
        }
    }

    /// Hands them on. Only after this may the event be pushed that refers to them.
    pub(crate) fn send(self) {
        let Some(queue) = QUEUE.get() else { return };
        for text in self.texts {
            // There is a place for whatever is held.
            let sent = queue.sender.try_send(text);
            debug_assert!(sent.is_ok());
        }
    }
}

/// A copy of the text, if there may be one more.
fn copied(number: u64, text: &str) -> Option<Packed> {
    let bytes = long_text_bytes(text);
    // Acquire, with the release of whoever gave the place back.
    if HELD.fetch_add(1, Ordering::Acquire) >= MOST {
        HELD.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    // From here on the drop gives back what is held.
    let mut packed = Packed { number, entry: Vec::new() };
    let held = HELD_BYTES.fetch_add(bytes, Ordering::Relaxed);
    let fits = held + bytes <= MOST_BYTES && packed.entry.try_reserve_exact(bytes).is_ok();
    if !fits {
        HELD_BYTES.fetch_sub(bytes, Ordering::Relaxed);
        // What it has reserved all the same, the drop takes off.
        HELD_BYTES.fetch_add(packed.entry.capacity(), Ordering::Relaxed);
        return None;
    }
    // An allocator may give more than was asked for.
    HELD_BYTES.fetch_add(packed.entry.capacity() - bytes, Ordering::Relaxed);
    push_long_text(&mut packed.entry, number, text, false);
    Some(packed)
}

/// Counts texts that stay cut.
pub(crate) fn count_cut(texts: u64) {
    STAYED_CUT.fetch_add(texts, Ordering::Relaxed);
}

/// Texts that stayed cut in this process so far.
pub(crate) fn stayed_cut() -> u64 {
    STAYED_CUT.load(Ordering::Relaxed)
}

/// Drain only: from now on there is a queue.
pub(crate) fn prepare() {
    QUEUE.get_or_init(|| {
        let (sender, receiver) = mpsc::sync_channel(MOST);
        Queue { sender, arrived: Mutex::new(Arrived { receiver, texts: Vec::new() }) }
    });
}

/// Drain only: whether an event that it has seen may refer to a long text. Nearly always
/// not, which costs one load.
pub(crate) fn are_on_their_way() -> bool {
    // The text was held before its event was pushed; who has seen the one sees the other.
    HELD.load(Ordering::Relaxed) > 0
}

/// Drain only: where the first event is that has long texts, how many units it has, and the
/// numbers of its texts.
pub(crate) fn first_event_with_texts<'a>(
    units: impl Iterator<Item = &'a Record>,
) -> Option<(usize, usize, Vec<u64>)> {
    let (mut event, mut length) = (0, 0);
    let mut numbers = Vec::new();
    for (at, unit) in units.enumerate() {
        if unit.kind.is_base() {
            if !numbers.is_empty() {
                break;
            }
            (event, length) = (at, 1 + unit.slots());
        } else if unit.kind == Kind::LONG_TEXT {
            numbers.push(unit.start);
        }
    }
    (!numbers.is_empty()).then_some((event, length, numbers))
}

/// Drain only: how many units these texts take in a raw slot, with the heads of their batches.
pub(crate) fn units(numbers: &[u64]) -> usize {
    with_arrived(|texts| {
        let wanted = texts.iter().filter(|text| numbers.contains(&text.number));
        wanted.map(|text| 1 + text.entry.len().div_ceil(size_of::<Record>())).sum()
    })
}

/// Drain only: takes these texts. What is dropped makes room for others.
pub(crate) fn take(numbers: &[u64]) -> Vec<Packed> {
    with_arrived(|texts| texts.extract_if(.., |text| numbers.contains(&text.number)).collect())
}

/// Drain only: these units are thrown away, and so are their texts.
pub(crate) fn forget(first: &[Record], second: &[Record]) {
    if are_on_their_way() {
        let units = first.iter().chain(second);
        let numbers = units.filter(|unit| unit.kind == Kind::LONG_TEXT).map(|unit| unit.start);
        take(&numbers.collect::<Vec<_>>());
    }
}

fn with_arrived<R: Default>(then: impl FnOnce(&mut Vec<Packed>) -> R) -> R {
    let Some(queue) = QUEUE.get() else { return R::default() };
    // Whatever panicked did so between whole assignments.
    let mut arrived = queue.arrived.lock().unwrap_or_else(PoisonError::into_inner);
    let Arrived { receiver, texts } = &mut *arrived;
    texts.extend(receiver.try_iter());
    then(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since the queue is the process's.
    #[test]
    fn texts_are_held_up_to_the_limits_and_given_back_when_they_are_taken() {
        let long = "x".repeat(60_000);
        let fields = [(1, Value::Text(long.as_str())), (2, Value::U64(2))];
        assert_eq!(Parcel::pack(&fields, &[]).long, LongRefs::NONE, "nobody would take it");
        prepare();
        let mut numbers = Vec::new();
        for _ in 0..100 {
            let parcel = Parcel::pack(&fields, &[]);
            numbers.extend(parcel.texts.iter().map(|text| text.number));
            parcel.send();
        }
        assert_eq!(numbers.len(), MOST_BYTES / (60_000 + 16), "as many as the bytes allow");
        assert!(are_on_their_way());
        assert_eq!(units(&numbers[..1]), 1 + 60_016_usize.div_ceil(32));
        let taken = take(&numbers);
        assert_eq!(taken.len(), numbers.len());
        assert!(taken[0].entry().ends_with(b"xxx"));
        drop(taken);
        assert_eq!((HELD.load(Ordering::Relaxed), HELD_BYTES.load(Ordering::Relaxed)), (0, 0));

        let short = "y".repeat(1_000);
        let fields = [(1, Value::Text(short.as_str()))];
        let parcels: Vec<Parcel> = (0..300).map(|_| Parcel::pack(&fields, &[])).collect();
        let count = |parcel: &&Parcel| parcel.long.count() == 1;
        assert_eq!(parcels.iter().filter(count).count(), MOST, "as many as the queue takes");
        drop(parcels);
        assert!(!are_on_their_way());

        let many = vec![(1, Value::Text(long.as_str())); 10];
        let parcel = Parcel::pack(&many, &[]);
        assert_eq!(parcel.long.count(), MOST_OF_AN_EVENT / 60_016, "one event has a limit too");
        drop(parcel);

        let parcel = Parcel::pack(&fields, &[]);
        let number = parcel.texts[0].number;
        parcel.send();
        let slot = ringscope_format::long_text_slot(1, number);
        let event = Record { kind: Kind::ERROR, ..Record::default() };
        let with_slot = Record { shape: 1, ..event };
        let found = first_event_with_texts([event, with_slot, slot, event].iter());
        assert_eq!(found, Some((1, 2, vec![number])));
        forget(&[event], &[slot]);
        assert!(!are_on_their_way());
    }
}
