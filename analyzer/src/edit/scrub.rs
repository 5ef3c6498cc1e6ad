//! `scrub`: a trace to show to others. Texts are replaced, figures are kept.
//!
//! Replaced are names of events, names and texts in fields, names of tracks, values of
//! metadata, and keys of metadata that no recorder writes. The same text gets the same
//! stand-in everywhere. What stays: durations, times, numbers, ids and structure; keys
//! of fields; words of the vocabulary, which reports look for, and names that begin
//! with `process.` or `recorder.`; shapes of launches, and the number of the device in
//! the name of a queue; names and tracks that `--keep` names.
//!
//! Without a key, names are numbered in the order of the file, and texts of fields that
//! are no names get a stand-in that is good for this one run: so what is held does
//! not grow with the trace. With a key, all stand-ins are hashes under it, the
//! same in every trace. Whoever has the key can try out texts; nobody else can.
//!
//! What it cannot promise: durations, times and structure may tell a lot, too.

use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    path::PathBuf,
};

use ringscope_format::{Track, TrackKind};

use super::{
    Target,
    copying::{Copying, Rewrite, Tally},
    header,
    provenance::{elsewhere, inherited, unfinished},
    siphash::siphash,
    vocabulary,
};
use crate::{
    Result,
    device::device_in,
    filter::Patterns,
    load::{EDIT, Loaded, SOURCE_ACCOUNT, SOURCE_STATE},
    report::about,
};

/// Options of `scrub`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Names and tracks that stay: `attn*`; may be given several times
    #[arg(long, value_name = "PATTERN")]
    keep: Vec<String>,
    /// Stand-ins that are the same in every trace that is scrubbed with this secret
    #[arg(long, value_name = "SECRET")]
    key: Option<String>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let keep = match args.keep.as_slice() {
        [] => None,
        patterns => Some(Patterns::parse(patterns.iter().map(String::as_str))?),
    };
    let traces = args.target.open(&[args.trace])?;
    let loaded = &traces.list[0];
    let mut stand_ins = StandIns::new(args.key.as_deref(), keep, loaded);
    let metadata = stand_ins.metadata(loaded);
    let (mut kept, mut left_out) = (Tally::default(), Tally::default());
    args.target.write(header(&traces, "scrub"), |writer| {
        let mut copying = Copying::new(&traces, 0, writer, &mut stand_ins);
        copying.metadata(&metadata)?;
        copying.clock_pairs();
        copying.chunks(|_| true, |_, _| true)?;
        copying.losses(traces.events_unreadable(0), |_| true);
        copying.open_spans(|_| true)?;
        (kept, left_out) = (copying.kept, copying.left_out);
        Ok(())
    })?;
    about::warn_unreadable(&traces);
    args.target.say(&format!("{} kept, {} left out", kept.in_words(), left_out.in_short()));
    Ok(())
}

/// Which text stands in for which.
struct StandIns {
    /// Of names, tracks and metadata. A text that stays stands for itself.
    known: HashMap<String, String>,
    keep: Option<Patterns>,
    secret: [u64; 2],
    /// Whether the secret is the user's, and so names are hashed as well.
    is_keyed: bool,
    numbered: u64,
}

impl StandIns {
    /// Stand-ins for all names of a trace: texts in fields may be equal to any of them.
    fn new(key: Option<&str>, keep: Option<Patterns>, loaded: &Loaded) -> Self {
        let secret = match key {
            Some(key) => [1, 2].map(|half| siphash([half, 0], key.as_bytes())),
            None => [1, 2].map(|half: u64| RandomState::new().hash_one(half)),
        };
        let mut all =
            Self { known: HashMap::new(), keep, secret, is_keyed: key.is_some(), numbered: 0 };
        for (_, name) in loaded.trace.names().iter() {
            all.of_name(name);
        }
        all
    }

    fn of_name(&mut self, text: &str) -> String {
        let stays =
            vocabulary::has_name(text) || self.keep.as_ref().is_some_and(|keep| keep.matches(text));
        self.of(text, stays)
    }

    /// What stands in for a text that is one of few.
    fn of(&mut self, text: &str, stays: bool) -> String {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let instead = if stays || text.is_empty() {
            text.to_owned()
        } else if self.is_keyed {
            self.hashed(text)
        } else {
            self.numbered += 1;
            format!("name-{}", self.numbered)
        };
        self.known.insert(text.to_owned(), instead.clone());
        instead
    }

    /// 60 bits: of a million texts, two have the same with a chance of one in two million.
    fn hashed(&self, text: &str) -> String {
        format!("name-{:015x}", siphash(self.secret, text.as_bytes()) >> 4)
    }

    fn metadata(&mut self, loaded: &Loaded) -> Vec<(String, String)> {
        // Reports read the clock of what was merged otherwise.
        let is_merged = loaded.edits().any(|it| it == "merge");
        let pairs = inherited(loaded).into_iter();
        let pairs = pairs.map(|(key, value)| match key.rsplit_once('/') {
            // What a source did not have is counted in words that are ours.
            Some((label, SOURCE_ACCOUNT)) if is_merged => {
                (format!("{}/{SOURCE_ACCOUNT}", self.of(label, false)), value)
            }
            _ => (self.metadata_key(&key), self.of(&value, false)),
        });
        let mut all: Vec<(String, String)> = pairs.collect();
        let done = if is_merged { "merge, scrub" } else { "scrub" };
        all.push((EDIT.to_owned(), done.to_owned()));
        all.extend(unfinished(loaded).map(|state| (SOURCE_STATE.to_owned(), state)));
        all.extend(elsewhere(loaded));
        all
    }

    /// Keys of merged traces have the name of a file before them.
    fn metadata_key(&mut self, key: &str) -> String {
        let (before, last) = key.rsplit_once('/').map_or((None, key), |(a, b)| (Some(a), b));
        let last = if vocabulary::has_metadata(last) { last.into() } else { self.of(last, false) };
        match before {
            Some(before) => format!("{}/{last}", self.of(before, false)),
            None => last,
        }
    }
}

impl Rewrite for &mut StandIns {
    fn name<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        self.of_name(text).into()
    }

    fn text(&mut self, text: &str) -> Option<String> {
        match self.known.get(text) {
            Some(known) => Some(known.clone()),
            None if text.is_empty() || vocabulary::has_value(text) => None,
            None => Some(self.hashed(text)),
        }
    }

    fn track(&mut self, track: &Track) -> String {
        if track.kind == TrackKind::Recorder {
            return "recorder".to_owned();
        }
        let instead = self.of_name(&track.name);
        match device_in(&track.name) {
            Some(device) if track.kind == TrackKind::GpuQueue && instead != track.name => {
                format!("{instead} gpu {device}")
            }
            _ => instead,
        }
    }
}
