//! From one file to the next, and the end of the last.

use std::{
    fs, io,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use ringscope_format::{FileHeader, OpenSpan, RecordingState, Vitals};

use super::{Log, Sealer};
use crate::{
    cold::{
        drain::Remains,
        sealing::Sealing,
        shared::{NextFile, lock},
        trace_file::{Fate, TraceFile},
    },
    error::Error,
    file_names::numbered,
    hot::clock,
    last_words,
    summary::Problem,
};

/// Finished files up to this size are rewritten without their work areas; in
/// larger ones those areas are a small part.
const COMPACT_UP_TO: u64 = 64 << 20;
/// The same for files that rotation has left: slots wait while this is copied.
const COMPACT_WHILE_RECORDING: u64 = 4 << 20;

impl Sealer {
    /// Prepares the next file and asks the drain to go on there.
    pub(super) fn rotate(&mut self) {
        let current = &self.log.file.header;
        let file_number = current.file_number + 1;
        let path = numbered(&self.shared.config.path, &file_number.to_string());
        let pair = clock::pair();
        let header = FileHeader {
            file_number,
            created_tick: pair.tick_after,
            created_wall_ns: pair.wall_ns,
            ..*current
        };
        let created = TraceFile::create(&path, header).and_then(|file| {
            let file = Arc::new(file);
            let mut log = Log::new(Arc::clone(&file));
            let names_in_file = self.begin(&mut log).map_err(Error::io(&path, "write"))?;
            file.put_in_place()?;
            Ok((log, NextFile { file, names_in_file }))
        });
        match created {
            Ok((log, next_file)) => {
                crate::crash_point("rotation-begun");
                self.next_log = Some(log);
                *lock(&self.shared.left_file) = None;
                *lock(&self.shared.next_file) = Some(next_file);
                self.shared.has_next_file.store(true, Ordering::Release);
                crate::crash_point("rotation-offered");
                self.shared.wake_drain();
            }
            Err(error) => self.shared.note(Problem::CannotRotate(error.to_string())),
        }
    }

    /// Removes a next file that the drain did not come to.
    pub(super) fn remove_unused_file(&mut self) {
        if let Some(unused) = lock(&self.shared.next_file).take() {
            let _ = fs::remove_file(&unused.file.path);
            self.next_log = None;
        }
    }

    /// The drain has left the old file and all its slots are sealed.
    pub(super) fn enter_next_file(&mut self, sealing: &mut Sealing) {
        self.check_file();
        if let Some((old, edition, vitals)) = self.close_left_file() {
            sealing.file = Arc::clone(&self.log.file);
            self.compact(&old, edition, &vitals, COMPACT_WHILE_RECORDING);
        }
    }

    /// Ends the file that the drain has left, if it has, and goes on with the log of the next.
    /// Returns what was ended, and with which edition of which vitals.
    ///
    /// Not before all of it is sealed or nothing more will be: until then its log might end anywhere.
    pub(super) fn close_left_file(&mut self) -> Option<(Log, u64, Vitals)> {
        let (edition, vitals) = lock(&self.shared.left_file).take()?;
        let old = std::mem::replace(&mut self.log, self.next_log.take()?);
        old.file.write_vitals(edition, &vitals);
        crate::crash_point("left-file-closed");
        Some((old, edition, vitals))
    }

    fn compact(&self, log: &Log, edition: u64, vitals: &Vitals, up_to: u64) {
        let content = log.end - log.file.header.layout.log_offset;
        if content <= up_to
            && log.file.header.layout.ring_length == 0
            && log.file.fate(log.end) == Fate::Fine
            && let Err(error) = log.file.compact(log.end, edition, vitals)
        {
            self.shared.note(Problem::NotCompacted(error.to_string()));
        }
    }

    /// When all is sealed: open spans, the last vitals, and the file without its work areas.
    pub(super) fn finish(mut self, remains: &Remains) -> (PathBuf, Vitals) {
        self.check_file();
        self.remove_unused_file();
        // What could not be sealed stays in the raw slots of the file that was left, where readers
        // find it; the recording ends in the file that the drain was in last.
        if self.close_left_file().is_some() {
            self.check_file();
        }
        self.write_new_rules();
        let file = Arc::clone(&self.log.file);
        let mut complete = file.full_slots() == 0;
        // Where not everything could be written, they stay in the in-flight area.
        if complete && !remains.open.is_empty() {
            match self.append_open_spans(&remains.open, remains.vitals.tick) {
                Ok(()) => file.clear_in_flight(),
                Err(_) => complete = false,
            }
        }
        let mut vitals = remains.vitals;
        vitals.bytes = self.shared.bytes.load(Ordering::Relaxed);
        vitals.overwritten = self.shared.overwritten.load(Ordering::Relaxed);
        if last_words::file_was_truncated() && vitals.state == RecordingState::Finished {
            vitals.state = RecordingState::GivenUp;
        }
        let edition = remains.edition + 1;
        file.write_vitals(edition, &vitals);
        if complete && vitals.state == RecordingState::Finished {
            self.compact(&self.log, edition, &vitals, COMPACT_UP_TO);
        }
        (file.path.clone(), vitals)
    }

    fn append_open_spans(&mut self, open: &[(OpenSpan, u32)], tick: u64) -> io::Result<()> {
        let number = u64::from(self.dumps) + 1; // dumps have the numbers before
        let chunk = self.encoder.open_spans(number, tick, open).map_err(io::Error::other)?;
        self.log.append(chunk, &self.shared)
    }
}
