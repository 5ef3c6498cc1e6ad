//! Options that say which part of a trace is meant, the same in every command.

use clap::Args;

use super::values::{parse_length, parse_time};
use crate::{
    Error, Result,
    filter::{Filter, Patterns},
    requests::Prefix,
};

/// When, where and what.
#[derive(Args, Clone, Debug)]
pub struct Filters {
    /// Only what starts at or after this, since the first event: 1.5s, 200ms; -2s is from the end
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true, help_heading = "Filters")]
    pub from: Option<f64>,
    /// Only what starts before this
    #[arg(long, alias = "until", value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true, help_heading = "Filters")]
    pub to: Option<f64>,
    /// Only the last part of the trace
    #[arg(long, value_name = "TIME", value_parser = parse_length, help_heading = "Filters")]
    pub last: Option<f64>,
    /// Only names that match: `attn*`; `!load*` excludes; may be given several times
    #[arg(long, value_name = "PATTERN", help_heading = "Filters")]
    pub name: Vec<String>,
    /// Only threads and queues that match
    #[arg(long, value_name = "PATTERN", help_heading = "Filters")]
    pub track: Vec<String>,
    /// Only what was done for this request: the first digits of its id, which `requests` lists
    #[arg(long, value_name = "HEX", help_heading = "Filters")]
    pub request: Option<Prefix>,
}

impl Filters {
    /// What is in, whatever its duration.
    pub fn filter(&self) -> Result<Filter> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
            && (from < 0.0) == (to < 0.0)
        {
            return Err(Error::new("--to: must be later than --from"));
        }
        Ok(Filter {
            from_ns: self.from,
            to_ns: self.to,
            last_ns: self.last,
            names: Patterns::parse(self.name.iter().map(String::as_str))?,
            tracks: Patterns::parse(self.track.iter().map(String::as_str))?,
            duration_ns: None,
            request: self.request.clone(),
        })
    }
}
