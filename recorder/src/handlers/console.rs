//! Events for people to read as they happen: one line each.

use std::{
    io::{self, BufWriter, Write},
    time::Duration,
};

use ringscope_format::{Kind, Status};

use super::{Event, ExportError, MetricExporter};

/// Characters of a text that are shown: those that an event holds by itself.
const LONGEST_TEXT: usize = 750;

/// Writes one line an event, and says of spans that are slow. Of a long text it shows the
/// beginning.
///
/// ```text
/// 17:04:05.123456 main         forward > block_3 > attention 1.21ms head=3
/// 17:04:05.124001 main         error forward > decode failed token=17
/// 17:04:05.201822 main         slow: generate 312.40ms, over 200ms
/// ```
pub struct ConsoleExporter {
    out: BufWriter<Box<dyn Write + Send>>,
    slow: Option<Duration>,
    only_slow: bool,
}

impl std::fmt::Debug for ConsoleExporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { slow, only_slow, .. } = self;
        f.debug_struct("ConsoleExporter").field("slow", slow).field("only_slow", only_slow).finish()
    }
}

impl Default for ConsoleExporter {
    fn default() -> Self {
        Self::new()
    }
}

impl ConsoleExporter {
    /// To standard error.
    pub fn new() -> Self {
        Self::to(io::stderr())
    }

    /// To somewhere else.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        Self { out: BufWriter::new(Box::new(out)), slow: None, only_slow: false }
    }

    /// Warns of what takes at least this long: spans, slices and whole tasks of `tracing`,
    /// launches, work of devices.
    #[must_use]
    pub fn slow(mut self, least: Duration) -> Self {
        self.slow = Some(least);
        self
    }

    /// Writes nothing but those warnings.
    #[must_use]
    pub fn only_slow(mut self) -> Self {
        self.only_slow = true;
        self
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        // Not spans that are kept to be entered again: those last as long as the program likes.
        // Nor scopes: what took long in one is told of by itself.
        let timed = event.duration.filter(|_| !matches!(event.kind, Kind::REUSED | Kind::SCOPE));
        let slow = timed.zip(self.slow).filter(|(took, least)| took >= least);
        if self.only_slow && slow.is_none() {
            return Ok(());
        }
        let at = humantime::format_rfc3339_micros(event.at).to_string();
        // Of the date and time, the time.
        let time = at.get(11..26).unwrap_or(&at);
        write!(self.out, "{time} {:12} ", OneLine(&event.track))?;
        if slow.is_some() {
            write!(self.out, "slow: ")?;
        } else if event.is_error() {
            write!(self.out, "error ")?;
        } else if event.status == Status::CANCELLED {
            write!(self.out, "cancelled ")?;
        }
        for span in &event.path {
            write!(self.out, "{} > ", OneLine(span))?;
        }
        write!(self.out, "{}", OneLine(event.name))?;
        if let Some(took) = event.duration {
            write!(self.out, " {took:.2?}")?;
        }
        if let Some((_, least)) = slow {
            write!(self.out, ", over {least:?}")?;
        }
        if let Some(value) = &event.value {
            let sign = if event.kind == Kind::COUNTER { "+" } else { "" };
            write!(self.out, " {sign}{value}")?;
        }
        for (key, value) in &event.fields {
            match value.text() {
                Some(text) => {
                    let end = text.char_indices().nth(LONGEST_TEXT).map(|(end, _)| end);
                    let shown = OneLine(&text[..end.unwrap_or(text.len())]);
                    write!(self.out, " {key}={shown}{}", if end.is_some() { "…" } else { "" })?;
                }
                None => write!(self.out, " {key}={value}")?,
            }
        }
        if let Some(request) = event.request {
            write!(self.out, " request={request}")?;
        }
        writeln!(self.out)
    }
}

/// A text without what would break the line or steer a terminal.
struct OneLine<'a>(&'a str);

impl std::fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.0.contains(char::is_control) {
            return f.pad(self.0);
        }
        let harmless: String =
            self.0.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect();
        f.pad(&harmless)
    }
}

impl MetricExporter for ConsoleExporter {
    fn export(&mut self, event: &Event) -> Result<(), ExportError> {
        Ok(self.write(event)?)
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        Ok(self.out.flush()?)
    }
}
