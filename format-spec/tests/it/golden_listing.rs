//! Lists a finished trace byte by byte, by the tables of SPEC.md and without the
//! crate's own parsers.

use std::fmt::Write;

/// A field: its length and what it is.
type Field = (usize, &'static str);

const FILE_HEADER: &[Field] = &[
    (8, "magic"),
    (2, "major version"),
    (2, "minor version"),
    (4, "header length"),
    (16, "recording id"),
    (4, "number of this file"),
    (4, "mode: 0 full"),
    (4, "flags, reserved"),
    (4, "process id"),
    (8, "wall clock at creation"),
    (8, "tick at creation"),
    (4, "counter: 1 x86-64 time-stamp counter"),
    (4, "unused"),
    (8, "nominal ticks per second"),
    (8, "offset of the in-flight area"),
    (4, "in-flight entries: no such area"),
    (4, "bytes of an in-flight entry"),
    (8, "offset of the raw area"),
    (4, "raw slots: no such area"),
    (4, "bytes of a raw slot"),
    (8, "offset of the ring area"),
    (8, "length of the ring area: no such area"),
    (8, "offset of the log area"),
    (116, "unused"),
    (4, "CRC of bytes 0 to 251"),
];

const TWIN: &[Field] = &[(8, "edition"), (4, "length of the payload"), (4, "CRC")];

const VITALS: &[Field] = &[
    (8, "tick of this update"),
    (1, "state: 2 finished"),
    (1, "signal number"),
    (6, "unused"),
    (8, "events stored"),
    (8, "slots stored with them"),
    (8, "events on the recorder's own track"),
    (8, "events overwritten"),
    (64, "events lost, by cause"),
    (64, "slots lost with them, by cause"),
    (64, "events skipped, by cause"),
    (8, "bytes appended"),
    (8, "drain ticks"),
    (8, "long texts stored"),
    (8, "texts of errors that stayed cut"),
    (8, "records and slots that waited in the rings"),
    (8, "events lost or skipped that no table tells"),
];

const CHUNK_HEADER: &[Field] = &[
    (8, "magic"),
    (16, "recording id"),
    (8, "sequence"),
    (1, "kind"),
    (1, "flags, reserved"),
    (2, "number of sections"),
    (4, "length of the chunk"),
    (4, "events"),
    (4, "slots"),
    (8, "earliest start"),
    (8, "latest end"),
    (4, "CRC of the section directory"),
    (8, "origin of the start column"),
    (4, "CRC of bytes 0 to 75"),
];

const SECTION: &[Field] = &[
    (2, "section kind"),
    (1, "encoding"),
    (1, "planes"),
    (4, "items"),
    (4, "stored bytes"),
    (4, "raw bytes"),
    (8, "base value"),
    (4, "CRC of the stored bytes"),
    (4, "unused"),
];

const CLOCK_PAIR: &[Field] = &[
    (8, "tick before the clocks were read"),
    (8, "tick after"),
    (8, "monotonic clock"),
    (8, "wall clock"),
    (8, "boot clock"),
    (4, "track"),
    (4, "unused"),
];

const LOSS: &[Field] = &[
    (4, "track"),
    (1, "1 lost"),
    (1, "cause: 1 ring full"),
    (2, "unused"),
    (8, "events"),
    (8, "slots of these events"),
    (8, "not before this tick"),
    (8, "not after this tick"),
    (8, "lost so far"),
];

const OPEN_SPAN: &[Field] = &[
    (8, "start"),
    (8, "id"),
    (4, "name"),
    (4, "track it started on"),
    (4, "depth"),
    (4, "unused"),
];

const TRACK: &[Field] =
    &[(4, "track"), (1, "kind"), (1, "unused"), (2, "length of the name"), (8, "system's id")];
const LONG_TEXT: &[Field] =
    &[(8, "number"), (4, "length of the text"), (1, "flags"), (3, "unused")];
const NAME: &[Field] = &[(4, "id"), (2, "length"), (1, "entry kind"), (1, "flags")];
const CALL_SITE: &[Field] =
    &[(4, "line"), (4, "id of the file's name"), (4, "id of the module's path")];
const PAIR: &[Field] = &[(2, "length of the key"), (2, "unused"), (4, "length of the value")];

struct Listing<'a> {
    bytes: &'a [u8],
    at: usize,
    text: String,
}

impl Listing<'_> {
    fn number(&self, at: usize, length: usize) -> usize {
        self.bytes[at..at + length].iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte))
    }

    fn heading(&mut self, words: &str) {
        write!(self.text, "\n# {words}\n\n").unwrap();
    }

    fn line(&mut self, hex: &str, words: &str) {
        let line = format!("{:<8}{hex:<50}{words}", format!("{:#06x}", self.at));
        writeln!(self.text, "{}", line.trim_end()).unwrap();
    }

    /// One field: 16 bytes a line, and repetitions as such.
    fn field(&mut self, length: usize, words: &str) {
        let bytes = &self.bytes[self.at..self.at + length];
        let same = bytes.iter().all(|byte| Some(byte) == bytes.first());
        if length > 16 && same {
            self.line(&format!("{:02x} x {length}", bytes[0]), words);
            self.at += length;
            return;
        }
        let mut words = words.to_owned();
        let speaks =
            ["magic", "CRC", ": "].iter().any(|it| words.contains(it)) || words == "unused";
        if length <= 8 && !speaks {
            write!(words, " = {}", self.number(self.at, length)).unwrap();
        }
        for piece in bytes.chunks(16) {
            let hex: Vec<String> = piece.iter().map(|byte| format!("{byte:02x}")).collect();
            self.line(&hex.join(" "), &words);
            words.clear();
            self.at += piece.len();
        }
    }

    fn fields(&mut self, fields: &[Field]) {
        for (length, words) in fields {
            self.field(*length, words);
        }
    }

    fn text(&mut self, length: usize) {
        let text = String::from_utf8_lossy(&self.bytes[self.at..self.at + length]).into_owned();
        if length > 0 {
            let at = self.at;
            let hex: Vec<String> =
                self.bytes[at..at + length].iter().map(|byte| format!("{byte:02x}")).collect();
            for (index, piece) in hex.chunks(16).enumerate() {
                let words = if index == 0 { format!("{text:?}") } else { String::new() };
                self.line(&piece.join(" "), &words);
                self.at += piece.len();
            }
        }
    }

    fn chunk(&mut self) {
        let start = self.at;
        let kind = match self.bytes[start + 32] {
            1 => "data",
            2 => "names",
            _ => "metadata",
        };
        self.heading(&format!("{kind} chunk: header (8.1)"));
        self.fields(CHUNK_HEADER);
        let sections = self.number(start + 34, 2);
        let end = start + self.number(start + 36, 4);
        for _ in 0..sections {
            self.heading(&format!(
                "directory entry (8.2): {}",
                section_name(self.number(self.at, 2))
            ));
            self.fields(SECTION);
        }
        for index in 0..sections {
            let entry = start + 80 + 32 * index;
            let kind = self.number(entry, 2);
            let stored = self.number(entry + 8, 4);
            if stored > 0 {
                self.heading(&format!("{kind}: {}", section_name(kind)));
                self.section(kind, self.bytes[entry + 3], self.at + stored);
            }
        }
        if self.at < end {
            self.heading("padding");
            self.field(end - self.at, "zeros to a multiple of 64");
        }
    }

    fn section(&mut self, kind: usize, planes: u8, end: usize) {
        if kind < 32 {
            let lengths: Vec<usize> = (0..planes.count_ones() as usize)
                .map(|plane| self.number(self.at + 4 * plane, 4))
                .collect();
            let bytes: Vec<u32> = (0..8).filter(|byte| planes & (1 << byte) != 0).collect();
            for byte in &bytes {
                self.field(4, &format!("length of the plane of byte {byte}"));
            }
            for (byte, length) in bytes.iter().zip(lengths) {
                let words = format!("byte {byte} of every value");
                let at = self.at;
                self.field(length, &words);
                assert_eq!(self.at, at + length);
            }
        }
        while self.at < end {
            match kind {
                32 => {
                    let name = self.number(self.at + 6, 2);
                    self.fields(TRACK);
                    self.text(name);
                }
                33 => self.fields(CLOCK_PAIR),
                34 => self.fields(LOSS),
                35 => self.fields(OPEN_SPAN),
                36 => {
                    let length = self.number(self.at + 8, 4);
                    self.fields(LONG_TEXT);
                    self.text(length);
                }
                48 => {
                    let (length, call_site) =
                        (self.number(self.at + 4, 2), self.bytes[self.at + 6] == 1);
                    self.fields(NAME);
                    if call_site {
                        self.fields(CALL_SITE);
                    } else {
                        self.text(length);
                    }
                }
                _ => {
                    let (key, value) = (self.number(self.at, 2), self.number(self.at + 4, 4));
                    self.fields(PAIR);
                    self.text(key);
                    self.text(value);
                }
            }
        }
    }
}

fn section_name(kind: usize) -> &'static str {
    match kind {
        1 => "start (8.3.1)",
        2 => "value",
        3 => "name",
        4 => "track",
        5 => "link",
        6 => "kind",
        7 => "status",
        8 => "depth",
        9 => "shape",
        16 => "slots, word 0",
        17 => "slots, word 1",
        18 => "slots, word 2",
        19 => "slots, word 3",
        32 => "tracks (8.3.2)",
        33 => "clock pairs (8.3.4)",
        34 => "losses (8.3.3)",
        35 => "open spans (8.3.5)",
        36 => "long texts (8.3.6)",
        48 => "names (8.4)",
        _ => "metadata (8.5)",
    }
}

/// The listing of a finished file.
pub(crate) fn listing(bytes: &[u8]) -> String {
    let intro = "annotated.trace, byte by byte: offset, bytes, meaning. Numbers in brackets are\n\
                 sections of SPEC.md. `00 x 116` stands for 116 zeros.\n";
    let mut listing = Listing { bytes, at: 0, text: intro.to_owned() };
    listing.heading("file header (5.1)");
    listing.fields(FILE_HEADER);
    listing.heading("vitals (5.2): copy of even editions, never written");
    listing.field(512, "unused");
    listing.heading("vitals: copy of odd editions");
    listing.fields(TWIN);
    listing.fields(VITALS);
    listing.field(208, "rest of the copy");
    listing.heading("rest of the header page");
    listing.field(4096 - 256 - 1024, "unused");
    while listing.at < bytes.len() {
        listing.chunk();
    }
    listing.text
}
