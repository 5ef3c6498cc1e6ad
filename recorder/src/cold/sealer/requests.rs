//! What people ask of a running recorder: dumps, and commands in the control file.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    str::Utf8Error,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::Sealer;
use crate::{
    cold::{
        flight_recorder::Dump,
        shared::{DumpReason, lock},
    },
    error::Error,
    file_names::with_suffix,
    hot::{call_site, clock, names},
    last_words,
    rules::Rules,
    summary::Problem,
};

/// Of a control file no more is read: rules of a line each, for thousands of names.
const MOST_CONTROL_BYTES: u64 = 1 << 20;
/// How long a dump waits for what is in the rings.
const DRAIN_AT_MOST: Duration = Duration::from_secs(1);

impl Sealer {
    pub(super) fn read_control_file(&mut self) {
        let path = with_suffix(&self.shared.config.path, ".control");
        let Ok(bytes) = read_regular(&path) else { return };
        // Whoever writes it may not have come to the end of a line yet, or of a character, until it
        // is the same at two looks; what cannot become text any more is not waited for.
        let is_text = |error: Utf8Error| error.error_len().is_none();
        let is_on_its_way =
            bytes.last() != Some(&b'\n') && str::from_utf8(&bytes).map_or_else(is_text, |_| true);
        if is_on_its_way && self.control_seen.as_ref() != Some(&bytes) {
            self.control_seen = Some(bytes);
            return;
        }
        self.control_seen = None;
        // Removed first: commands that cannot be carried out must not be tried for ever.
        if let Err(error) = fs::remove_file(&path) {
            return self.shared.note(Problem::ControlFile(error.to_string()));
        }
        let mut rejected = String::new();
        for line in bytes.split(|&byte| byte == b'\n') {
            let Ok(line) = str::from_utf8(line) else {
                let why = "not UTF-8";
                rejected.push_str(&format!("{}: {why}\n", String::from_utf8_lossy(line).trim()));
                self.shared.note(Problem::ControlFile(why.to_owned()));
                continue;
            };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(why) = self.carry_out(line) {
                rejected.push_str(&format!("{line}: {why}\n"));
                self.shared.note(Problem::ControlFile(why));
            }
        }
        // Whoever wrote the line looks here, and not at what `finish` says much later.
        let answer = with_suffix(&path, ".rejected");
        let _ = if rejected.is_empty() {
            fs::remove_file(&answer)
        } else {
            fs::write(&answer, rejected)
        };
    }

    /// A line of the control file. Returns why it cannot be carried out, if so.
    fn carry_out(&self, line: &str) -> Result<(), String> {
        if line == "dump" {
            // Nobody would look at the request.
            if self.ring.is_none() {
                return Err(Error::NotAFlightRecorder.to_string());
            }
            lock(&self.shared.dump_requests).push((DumpReason::ControlFile, None));
            return Ok(());
        }
        let later = line.parse::<Rules>().map_err(|error| error.to_string())?;
        let mut rules = call_site::rules();
        rules.extend(later);
        call_site::set_rules(rules);
        Ok(())
    }

    pub(super) fn look_for_dumps(&mut self) {
        if self.ring.is_none() {
            return;
        }
        // By the system's clock: the processor's counter may begin again when a machine wakes up.
        let now = Instant::now();
        let slow = lock(&self.shared.slow_span).take();
        if let Some(slow) = slow
            && self.pending_dump.is_none()
            && self.no_trigger_before.is_none_or(|then| slow.seen_at >= then)
        {
            let due = later(now, self.shared.config.after_trigger);
            let took_ns = self.shared.nanos(slow.ticks);
            self.pending_dump =
                Some((due, DumpReason::SlowSpan { name: name_of(slow.name), took_ns }));
        }
        if let Some((due, reason)) = self.pending_dump.take() {
            if now >= due {
                let _ = self.dump(&reason); // noted as a problem
                self.hold_off();
            } else {
                self.pending_dump = Some((due, reason));
            }
        }
        let signals = last_words::dumps_asked();
        if signals != self.dump_signals_seen {
            self.dump_signals_seen = signals;
            let _ = self.dump(&DumpReason::Signal); // noted as a problem
        }
        let asked = std::mem::take(&mut *lock(&self.shared.dump_requests));
        for (reason, answer) in asked {
            let is_panic = reason == DumpReason::Panic;
            let is_held_off = self.no_trigger_before.is_some_and(|then| Instant::now() < then);
            let result = if is_panic && is_held_off {
                Err(io::Error::other("held off: a dump was written only just now"))
            } else {
                self.dump(&reason)
            };
            if is_panic && result.is_ok() {
                self.hold_off(); // a program that catches its panics may have many
            }
            if let Some(answer) = answer {
                let _ = answer.send(result); // whoever asked may have stopped waiting
            }
        }
    }

    /// No dump for a slow span or a panic for a while.
    fn hold_off(&mut self) {
        self.no_trigger_before = Some(later(Instant::now(), self.shared.config.hold_off));
    }

    /// After the drain has ended: whatever was waited for does not come any more.
    pub(super) fn write_last_dumps(&mut self) {
        if let Some((due, _)) = &mut self.pending_dump {
            *due = Instant::now();
        }
        self.look_for_dumps();
        if let Some((_, reason)) = self.pending_dump.take() {
            let _ = self.dump(&reason); // noted as a problem
        }
    }

    fn dump(&mut self, reason: &DumpReason) -> io::Result<PathBuf> {
        let result = if self.dumps < self.shared.config.max_dumps {
            self.dumps += 1;
            self.write_dump(reason)
        } else {
            Err(io::Error::other(
                "this recording has written as many dumps as it may; raise `max_dumps`",
            ))
        };
        match &result {
            Ok(path) => lock(&self.shared.dumps).push(path.clone()),
            Err(error) => self.shared.note(Problem::DumpFailed(error.to_string())),
        }
        result
    }

    fn write_dump(&mut self, reason: &DumpReason) -> io::Result<PathBuf> {
        // However long it takes until all of that is sealed.
        let asked = clock::ticks();
        // What is still in the rings and in the open slot belongs into the dump too.
        if !self.shared.stop_sealer.load(Ordering::Acquire) {
            self.shared.close_slot.store(true, Ordering::Release);
            let rendezvous = last_words::rendezvous();
            let ticket = rendezvous.ask();
            self.shared.wake_drain();
            let shared = Arc::clone(&self.shared);
            let is_over =
                || rendezvous.is_done(ticket) || shared.drain_is_gone.load(Ordering::Acquire);
            let begun = Instant::now();
            // The drain may need the slots that only this thread makes free.
            while !last_words::wait_for(is_over, Duration::from_millis(2))
                && begun.elapsed() < DRAIN_AT_MOST
            {
                self.seal_all()?;
            }
        }
        self.seal_all()?;
        let (names, _) = self.name_chunks()?;
        let (vitals, open) = lock(&self.shared.at_last_close).clone();
        let open_chunk = match open.as_slice() {
            [] => None,
            open => {
                let number = u64::from(self.dumps);
                let chunk = self.encoder.open_spans(number, vitals.tick, open);
                Some(chunk.map_err(io::Error::other)?.to_vec())
            }
        };
        let window =
            self.shared.config.keep_last.as_ref().map_or(Duration::ZERO, |keep| keep.window);
        let Some(ring) = &self.ring else {
            return Err(io::Error::other(Error::NotAFlightRecorder));
        };
        let dump = Dump {
            file: &self.log.file,
            ring,
            encoder: &mut self.encoder,
            vitals,
            reason,
            metadata: &self.metadata,
            metadata_sequence: self.metadata_sequence + 1,
            rules: &call_site::rules().to_string(),
            names: &names,
            open_chunk,
            since: asked.saturating_sub(self.shared.ticks(window)),
            ns_per_tick: 1e9 / self.shared.ticks_per_second.max(1) as f64,
            // Also when somebody has taken the last one away: a name means one dump.
            number: self.last_dump + 1,
        };
        let (path, number) = dump.write()?;
        self.last_dump = number;
        self.metadata_sequence += 1;
        Ok(path)
    }
}

/// So much later, or what is as good as never.
fn later(now: Instant, pause: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(1 << 32);
    now.checked_add(pause).unwrap_or_else(|| now + NEVER)
}

/// What is in a file, if it is one: to open or read a FIFO would be to wait for whoever
/// writes to it, and a device may have no end.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(MOST_CONTROL_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn name_of(id: u32) -> String {
    let mut entries = Vec::new();
    names::copy_entries(0, usize::MAX, &mut entries);
    let text = entries.iter().find_map(|entry| match *entry {
        names::Entry::Text { id: known, text } if known == id => Some(text),
        _ => None,
    });
    text.unwrap_or("?").to_owned()
}
