//! A trace with something of everything, and exports read back.

use std::path::Path;

use ringscope_format::{
    Kind, Link, LinkRole, OpenSpan, Record, Status, TrackKind, Value, ValueType,
};

use crate::{making, nested_traces::Made};

/// A step with fields of every type that launches a kernel, copies that cross on a
/// queue, counters, a gauge, an error, an asynchronous span, and a request that is
/// still open.
pub(crate) fn everything(path: &Path) {
    making::trace(path, |writer| {
        let main = writer.track(TrackKind::Thread, 7, "main");
        let queue = writer.track(TrackKind::GpuQueue, 1, "gpu 0 stream 1");
        let mut name = |text: &str| writer.name(text);
        let (launch, step, gemm, copy) =
            (name("launch"), name("step \"1\"\u{1b}"), name("gemm"), name("copy"));
        let (depth, tokens, oops, fetch, request) =
            (name("pool.depth"), name("tokens"), name("oops"), name("fetch"), name("request"));
        let fields = [
            (name("count"), Value::U64(u64::MAX)),
            (name("delta"), Value::I64(-2)),
            (name("rate"), Value::F64(0.5)),
            (name("odd"), Value::F64(f64::NAN)),
            (name("on"), Value::Bool(true)),
            (name("op"), Value::Name(gemm)),
            (name("wait"), Value::Ticks(40)),
            (name("note"), Value::Text("a \"b\",\nc")),
        ];
        let device = [(name("device"), Value::Text("cuda:0"))];
        let timed =
            |kind, name, track, start, duration| Record::timed(kind, name, track, start, duration);
        let point =
            |kind, name, at, value| Record::point(kind, name, main, at, (ValueType::U64, value));
        let nothing = (ValueType::None, 0);
        let link = |id, role| Link { id, track: 0, role };
        let own = [link(0xAB, LinkRole::Own), link(0xCD, LinkRole::Request)];
        let mut put = |record, fields: &[(u32, Value<'_>)], links: &[Link]| {
            writer.event(record, fields, links).unwrap();
        };
        put(Record { depth: 1, link: 5, ..timed(Kind::LAUNCH, launch, main, 1_100, 20) }, &[], &[]);
        let status = Status::OK;
        put(Record { status, ..timed(Kind::SPAN, step, main, 1_000, 200) }, &fields, &[]);
        put(Record { link: 5, ..timed(Kind::KERNEL, gemm, queue, 1_130, 100) }, &device, &[]);
        put(timed(Kind::COPY, copy, queue, 1_200, 50), &[], &[]);
        put(point(Kind::GAUGE, depth, 1_260, 4), &[], &[]);
        put(point(Kind::COUNTER, tokens, 1_270, 3), &[], &[]);
        put(point(Kind::COUNTER, tokens, 1_280, 5), &[], &[]);
        put(
            Record { depth: 1, ..Record::point(Kind::ERROR, oops, main, 1_290, nothing) },
            &[],
            &[],
        );
        let status = Status::ERROR;
        put(Record { status, ..timed(Kind::ASYNC_SPAN, fetch, main, 1_150, 150) }, &[], &own);
        writer.open_span(OpenSpan { start: 1_240, id: 0, name: request, track: main }, 0);
    });
}

/// A span as it was made: its track, its path from the outermost, its start and end
/// since the trace's first event.
pub(crate) type Seen = (String, Vec<String>, u64, u64);

/// All that are stored, in order.
pub(crate) fn made_spans(made: &Made) -> Vec<Seen> {
    let first = made.stored().map(|(_, span)| span.start).min().unwrap_or(0);
    let seen = |(at, span): (usize, &crate::nested_traces::Span)| {
        (format!("t{}", span.track), made.path(at), span.start - first, span.end - first)
    };
    let mut all: Vec<Seen> = made.stored().map(seen).collect();
    all.sort();
    all
}

/// What an export of it is.
pub(crate) fn export(made: &Made, to: &str) -> Vec<u8> {
    let path = made.file.path().to_str().unwrap();
    crate::nested_traces::run(&["export", path, "--to", to]).stdout
}
