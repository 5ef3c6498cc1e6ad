//! The libraries ringscope is compared with, one file each, set up as their own
//! documentation advises. What their authors measure separately (handing a
//! frame over, draining a queue) is not timed here either, but shows in the CPU
//! figure of the long run.

mod fastrace;
mod hotpath;
mod lttng;
mod native;
mod perfetto_recorder;
mod puffin;
mod tracing_chrome;
mod tracing_noop;
mod tracy;
mod uftrace;

use super::subject::Subject;

pub(crate) const PEERS: &[&dyn Subject] = &[
    &fastrace::Fastrace,
    &tracy::Tracy,
    &puffin::Puffin,
    &perfetto_recorder::PerfettoRecorder,
    &hotpath::Hotpath,
    &tracing_chrome::TracingChrome,
    &tracing_noop::TracingNoop,
    &lttng::Lttng,
    &uftrace::Uftrace,
];
