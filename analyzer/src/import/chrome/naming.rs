//! What the lines of time are called: after their threads and processes, as far as the
//! file names those, and after their devices.

use super::{Chrome, Line};

impl Chrome<'_> {
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
