//! Traces out of traces: one file per subcommand, each of which writes a new trace
//! and leaves its sources as they are.
//!
//! What they share is here and in `copying`: a record keeps its times, its number,
//! its status, its depth and all of its slots; names and tracks get the ids of the new
//! file; losses, metadata, readings of the clock and open spans come along. Chunks
//! are read and written one after the other, so what is held does not grow with the
//! trace. The new file is written beside its place and renamed when it is whole.
//!
//! What does not come along: chunks, and slots of events, of kinds that this version
//! does not know, since ids in them could not be put right; and how deep a stack of
//! open spans was past the spans that the file lists. The new file is a finished one,
//! whatever its source was; `source.state` in its metadata tells how that ended.

mod alignment;
mod copying;
mod cut;
mod merge;
mod provenance;
mod recordings;
mod recover;
mod scrub;
mod siphash;
mod vocabulary;

use std::{
    fs::{self, File},
    io::{BufWriter, Read},
    path::PathBuf,
};

use ringscope_format::{FileHeader, Mode, TraceWriter, looks_like_a_trace};

use crate::{
    Error, Exit, Result,
    load::{self, Traces},
    output,
    report::about,
};

/// Commands that write traces.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// A trace of a part of another: a range of time, names, threads, the worst and what was around them
    Cut(cut::Args),
    /// A trace without what its texts give away: names and payloads replaced, figures kept
    Scrub(scrub::Args),
    /// A whole trace from a damaged or unfinished one, and what was lost
    Recover(recover::Args),
    /// One trace from those of several processes, ranks or hosts, on one line of time
    Merge(merge::Args),
}

impl Command {
    /// Carries the command out.
    pub(crate) fn run(self) -> Result<Exit> {
        match self {
            Command::Cut(args) => cut::run(args)?,
            Command::Scrub(args) => scrub::run(args)?,
            Command::Recover(args) => recover::run(args)?,
            Command::Merge(args) => merge::run(args)?,
        }
        Ok(Exit::Ok)
    }
}

/// Where the new trace goes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Target {
    /// The new trace: written beside its place, then renamed
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
}

/// The writer of a new trace.
type Writer<'a> = TraceWriter<&'a mut BufWriter<File>>;

impl Target {
    /// Opens the sources, unless the new trace would take the place of one of them or
    /// of something that is no trace. Says what is damaged.
    fn open(&self, sources: &[PathBuf]) -> Result<Traces> {
        self.refuse_what_is_there(sources)?;
        let traces = Traces::open(sources)?;
        about::warn_damage(&traces);
        Ok(traces)
    }

    /// A slip of the shell must not cost somebody a file.
    pub(crate) fn refuse_what_is_there(&self, sources: &[PathBuf]) -> Result<()> {
        let path = &self.output;
        let Ok(there) = fs::metadata(path) else {
            // Said now, and not after minutes of work.
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let missing = folder.and_then(|folder| fs::metadata(folder).err());
            return missing.map_or(Ok(()), |error| Err(Error::of(path, error)));
        };
        if !there.is_file() {
            return Err(Error::of(path, "is not a regular file; give the name of a new trace"));
        }
        if sources.iter().any(|source| load::is_same_file(source, path)) {
            return Err(Error::of(path, "is the source itself; give the name of a new trace"));
        }
        let mut first = Vec::new();
        let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut first));
        read.map_err(|error| Error::of(path, error))?;
        if !first.is_empty() && !looks_like_a_trace(&first) {
            let why = "is there and is not a trace; remove it, or give another name";
            return Err(Error::of(path, why));
        }
        Ok(())
    }

    /// Writes the new trace.
    fn write(
        &self,
        header: FileHeader,
        fill: impl FnOnce(&mut Writer<'_>) -> Result<()>,
    ) -> Result<()> {
        let path = &self.output;
        output::replace(path, |out| {
            let mut writer =
                TraceWriter::new(out, header).map_err(|error| Error::of(path, error))?;
            fill(&mut writer)?;
            writer.finish().map_err(|error| Error::of(path, error))?;
            Ok(())
        })
    }

    /// Says in one line what became of it.
    fn say(&self, what: &str) {
        eprintln!("analyze: {}: {what}", output::shown(&self.output.display().to_string()));
    }
}

/// The header of a trace that is made of `sources`: the clock is that of the first.
/// A chunk is known by the id of its recording and its number, so the new one has an
/// id of its own; it is the same whenever the same is done to the same sources.
fn header(traces: &Traces, what: &str) -> FileHeader {
    let mut text = what.as_bytes().to_vec();
    for loaded in &traces.list {
        text.extend_from_slice(&loaded.trace.header().recording);
    }
    let mut id = [0; 16];
    for (half, key) in id.chunks_exact_mut(8).zip([1, 2]) {
        half.copy_from_slice(&siphash::siphash([key, 0], &text).to_le_bytes());
    }
    // Version and variant of a UUID that means nothing.
    (id[6], id[8]) = (id[6] & 0x0F | 0x40, id[8] & 0x3F | 0x80);
    let first = traces.list[0].trace.header();
    FileHeader { recording: id, file_number: 0, mode: Mode::Converted, ..*first }
}
