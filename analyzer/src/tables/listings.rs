//! The tables that are lists of the trace's own: names and tracks. They need no
//! event.

use polars::prelude::{DataFrame, IntoColumn, NamedFrom, NewChunkedArray, Series, StringChunked};
use ringscope_format::TrackKind;

use super::Wanted;
use crate::{Result, load::Traces};

/// The table `names`.
pub(super) fn names(traces: &Traces, wanted: &Wanted) -> Result<DataFrame> {
    let (mut trace, mut id, mut name, mut sites) = (vec![], vec![], vec![], vec![]);
    for loaded in &traces.list {
        let names = loaded.trace.names();
        for (at, text) in names.iter() {
            trace.push(loaded.label.as_str());
            id.push(at);
            name.push(text);
            let site = |site: &ringscope_format::CallSiteEntry| {
                format!("{}:{}", names.get(site.file).unwrap_or("?"), site.line)
            };
            let places: Vec<String> = names.call_sites(at).iter().map(site).collect();
            sites.push(places.join(", "));
        }
    }
    let columns = vec![
        StringChunked::from_slice("trace".into(), &trace).into_column(),
        Series::new("id".into(), &id).into_column(),
        StringChunked::from_slice("name".into(), &name).into_column(),
        StringChunked::from_slice("call_sites".into(), &sites).into_column(),
    ];
    Ok(DataFrame::new(trace.len(), columns)?.select(wanted.columns.iter().copied())?)
}

/// The table `tracks`.
pub(super) fn tracks(traces: &Traces, wanted: &Wanted) -> Result<DataFrame> {
    let (mut trace, mut id, mut kind, mut name, mut os_id) =
        (vec![], vec![], vec![], vec![], vec![]);
    for loaded in &traces.list {
        for track in loaded.trace.tracks() {
            trace.push(loaded.label.as_str());
            id.push(track.id);
            kind.push(match track.kind {
                TrackKind::Thread => "thread",
                TrackKind::GpuQueue => "queue",
                TrackKind::Recorder => "recorder",
                TrackKind::Other | TrackKind::Unknown(_) => "other",
            });
            name.push(loaded.track_name(track.id));
            os_id.push(track.os_id);
        }
    }
    let columns = vec![
        StringChunked::from_slice("trace".into(), &trace).into_column(),
        Series::new("id".into(), &id).into_column(),
        StringChunked::from_slice("kind".into(), &kind).into_column(),
        StringChunked::from_slice("name".into(), &name).into_column(),
        Series::new("os_id".into(), &os_id).into_column(),
    ];
    Ok(DataFrame::new(trace.len(), columns)?.select(wanted.columns.iter().copied())?)
}
