//! What the lines of time are called: after their threads and processes, as far as the
//! file names those, and after their devices.

use super::{Chrome, Line, event::RawEvent, xla};

impl Chrome<'_> {
    /// Names of processes and threads.
    pub(super) fn about(&mut self, event: &RawEvent<'_>) {
        let (process, thread) = (self.number_of(&event.pid), self.number_of(&event.tid));
        let said = event.argument("name").map(|text| text.trim().to_owned());
        match (&*event.name, said) {
            ("process_name", Some(name)) => {
                self.has_xla_devices |= xla::is_device(&name);
                self.processes.insert(process, name);
            }
            ("thread_name", Some(_)) if self.own_thread(event) => {}
            ("thread_name", Some(name)) => drop(self.threads.insert((process, thread), name)),
            ("process_labels" | "process_sort_index" | "thread_sort_index", _) => {}
            (other, _) => self.found.note(&format!("metadata {other:.40}")),
        }
    }

    /// Names come anywhere in a file, so tracks get theirs at its end.
    pub(super) fn name_tracks(&mut self, prefix: &str) {
        let mut of_threads: Vec<u32> = Vec::new();
        for line in self.lines.keys() {
            if let Line::Thread(process, _) = line {
                of_threads.push(*process);
            }
        }
        of_threads.sort_unstable();
        of_threads.dedup();
        let text = |number: u32| self.found.strings.get(number);
        let process_name = |process: u32| match self.processes.get(&process) {
            Some(name) => name.clone(),
            None => format!("process {}", text(process)),
        };
        let mut names = Vec::with_capacity(self.lines.len());
        for (line, &track) in &self.lines {
            let name = match *line {
                Line::Thread(process, thread) => {
                    let own = match self.threads.get(&(process, thread)) {
                        Some(name) => name.clone(),
                        None => format!("thread {}", text(thread)),
                    };
                    let several = of_threads.len() > 1;
                    if several { format!("{}: {own}", process_name(process)) } else { own }
                }
                Line::Queue(device, queue) => {
                    format!("GPU {} stream {}", text(device), text(queue))
                }
                Line::Annotations(device, queue) => {
                    format!("GPU {} stream {} annotations", text(device), text(queue))
                }
                Line::Counters(process) => format!("{} counters", process_name(process)),
            };
            names.push((track, name));
        }
        for (track, name) in names {
            self.found.tracks[track as usize].name = format!("{prefix}{name}");
        }
    }
}
