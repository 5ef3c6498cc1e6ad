//! Events in a channel: for a user interface in the same process.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
    mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
};

use super::{Event, ExportError, MetricExporter, Missed};

/// Sends events to a receiver in the same process.
///
/// Never waits for it: what does not fit is lost, counted as such in its
/// [`ExportReport`](super::ExportReport) and in [`missed`](Self::missed). A receiver that is gone
/// ends the exporter.
#[derive(Debug)]
pub struct ChannelExporter {
    sender: SyncSender<Event>,
    missed: Arc<AtomicU64>,
}

impl ChannelExporter {
    /// An exporter and where its events come out, of which so many may wait.
    pub fn new(capacity: usize) -> (Self, Receiver<Event>) {
        let (sender, receiver) = sync_channel(capacity.max(1));
        (Self { sender, missed: Arc::default() }, receiver)
    }

    /// How many events found the channel full; stays readable after attaching.
    pub fn missed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.missed)
    }
}

impl MetricExporter for ChannelExporter {
    fn export(&mut self, event: &Event) -> Result<(), ExportError> {
        match self.sender.try_send(event.clone()) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                self.missed.fetch_add(1, Ordering::Relaxed);
                Err(Missed.into())
            }
            Err(TrySendError::Disconnected(_)) => Err("its receiver is gone".into()),
        }
    }
}
