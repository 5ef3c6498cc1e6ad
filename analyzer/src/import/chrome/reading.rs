//! The array of events, read on a thread of its own: it takes the text apart while the
//! events before are taken in. Batches of them go to and fro, so that their memory is made once.

use std::{
    panic::resume_unwind,
    sync::mpsc::{Receiver, SyncSender, channel, sync_channel},
    thread,
};

use super::{
    super::json::{Fault, Reader},
    event::RawEvent,
};

/// Events that are passed on at once.
const BATCH: usize = 256;
/// Batches that may wait.
const WAITING: usize = 4;

/// Some events; those from `used` on are memory for the next.
#[derive(Default)]
struct Batch<'t> {
    events: Vec<RawEvent<'t>>,
    used: usize,
}

/// What ended the array, and where the event begins that is cut off, if one is.
type Ended = (Result<(), Fault>, Option<usize>);

/// Shows every entry of the array that comes next to `take`.
pub(super) fn each_entry<'t>(
    reader: &mut Reader<'t>,
    mut take: impl FnMut(&RawEvent<'t>),
) -> Ended {
    thread::scope(|scope| {
        let (full, to_take) = sync_channel(WAITING);
        let (empty, to_fill) = channel();
        let reading = scope.spawn(move || read(reader, &full, &to_fill));
        for batch in to_take {
            let Batch { events, used } = &batch;
            events[..*used].iter().for_each(&mut take);
            // It has ended if it wants no more.
            let _ = empty.send(batch);
        }
        reading.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn read<'t>(
    reader: &mut Reader<'t>,
    full: &SyncSender<Batch<'t>>,
    to_fill: &Receiver<Batch<'t>>,
) -> Ended {
    let mut batch = Batch::default();
    let ended = loop {
        if batch.used == BATCH {
            // Whoever takes them takes all of them.
            let _ = full.send(batch);
            batch = to_fill.try_recv().unwrap_or_default();
            batch.used = 0;
        }
        if batch.used == batch.events.len() {
            batch.events.push(RawEvent::default());
        }
        match entry(reader, &mut batch.events[batch.used]) {
            Ok(true) => batch.used += 1,
            Ok(false) => break (Ok(()), None),
            Err(ended) => break ended,
        }
    };
    let _ = full.send(batch);
    ended
}

/// The next entry, if there is one.
fn entry<'t>(reader: &mut Reader<'t>, event: &mut RawEvent<'t>) -> Result<bool, Ended> {
    while reader.peek() == Some(b',') {
        reader.at += 1;
    }
    let begin = reader.at;
    match reader.peek() {
        None => return Err((Err(Fault::CutOff), None)),
        Some(b']') => {
            reader.at += 1;
            return Ok(false);
        }
        Some(b'{') => event.read(reader).map_err(|fault| {
            let cut = matches!(fault, Fault::CutOff).then_some(begin);
            (Err(fault), cut)
        })?,
        Some(_) => {
            event.clear();
            event.is_no_event = true;
            reader.skip().map_err(|fault| (Err(fault), None))?;
        }
    }
    event.begin = begin;
    Ok(true)
}
