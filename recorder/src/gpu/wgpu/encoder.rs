//! An encoder whose scopes are recorded.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use ::wgpu::{
    CommandBuffer, CommandEncoder, ComputePassDescriptor, ComputePassTimestampWrites, MapMode,
};

use super::{
    CommandBufferWrapper,
    collector::{Collector, Notice, Pending, lock},
    query_sets::PAIRS,
    scope::{BlitScope, ComputeScope, ScopeEnd, SharedPass},
};
use crate::gpu::{Abilities, Batch, KernelName, Launch, Place, Scope, Slots, TimingSource, Work};

/// An encoder whose scopes are recorded: made by [`GpuProfiler::encoder`](super::GpuProfiler::encoder),
/// or [attached](super::GpuProfiler::attach) to one.
///
/// Scopes borrow it, so that none outlives it:
///
/// ```compile_fail
/// # fn run(profiler: ringscope::gpu::wgpu::GpuProfiler) {
/// let mut encoder = profiler.encoder("step");
/// let scope = encoder.profile_compute("matmul");
/// let commands = encoder.finish(); // the scope is still open
/// drop(scope);
/// # }
/// ```
pub struct ProfiledEncoder<W: CommandBufferWrapper = CommandEncoder> {
    /// Until it has ended.
    wrapper: Option<W>,
    collector: Arc<Collector>,
    abilities: Abilities,
    open: Arc<Open>,
}

/// What scopes of an encoder share with it. They may be dropped after it, if their
/// lifetime was forgotten.
pub(super) struct Open {
    pub(super) collector: Arc<Collector>,
    state: Mutex<State>,
}

enum State {
    Profiled(Encoding),
    /// Past the limit in flight, or the device is lost: scopes are counted.
    Unprofiled(usize),
    Ended,
}

struct Encoding {
    batch: Batch,
    blocks: Vec<Slots>,
    /// Of the pairs of queries that were given out, which were written.
    written: Vec<bool>,
}

/// The two queries of a scope: where they are, and the number of the pair in its encoder.
pub(super) struct QueryPair {
    pub(super) block: usize,
    pub(super) start: u32,
    pub(super) number: u32,
}

impl Open {
    /// Two queries, if any are left.
    pub(super) fn pair(&self) -> Option<QueryPair> {
        let State::Profiled(encoding) = &mut *lock(&self.state) else { return None };
        let number = encoding.written.len();
        let (block, place) = (number / PAIRS, (number % PAIRS) as u32);
        if block == encoding.blocks.len() {
            encoding.blocks.push(self.collector.query_sets.take()?);
        }
        encoding.written.push(false);
        let start = encoding.blocks[block].first() + place * 2;
        Some(QueryPair { block, start, number: number as u32 })
    }

    /// Calls `use_set` with the query set of a pair, unless the encoder has ended.
    pub(super) fn with_set<R>(
        &self,
        pair: &QueryPair,
        use_set: impl FnOnce(&::wgpu::QuerySet) -> R,
    ) -> Option<R> {
        let state = lock(&self.state);
        let State::Profiled(encoding) = &*state else { return None };
        Some(use_set(self.collector.query_sets.queries(&encoding.blocks[pair.block])))
    }

    /// A scope has ended.
    pub(super) fn end_scope(&self, launch: Launch, work: Work, pair: Option<(u32, TimingSource)>) {
        let launched = launch.end();
        match &mut *lock(&self.state) {
            State::Profiled(encoding) => {
                if let Some((number, _)) = pair {
                    encoding.written[number as usize] = true;
                }
                if let Some(launched) = launched {
                    let sampled = pair.map(|(number, source)| (number * 2, source));
                    encoding.batch.push(Scope { launched, work, sampled });
                }
            }
            State::Unprofiled(scopes) => *scopes += usize::from(launched.is_some()),
            State::Ended => self.collector.inbox.submissions.count_late_scope(),
        }
    }
}

impl<W: CommandBufferWrapper> ProfiledEncoder<W> {
    pub(super) fn new(wrapper: W, collector: Arc<Collector>, abilities: Abilities) -> Self {
        let state = match collector.inbox.submissions.begin() {
            Some(batch) => {
                State::Profiled(Encoding { batch, blocks: Vec::new(), written: Vec::new() })
            }
            None => State::Unprofiled(0),
        };
        let open = Arc::new(Open { collector: Arc::clone(&collector), state: Mutex::new(state) });
        Self { wrapper: Some(wrapper), collector, abilities, open }
    }

    /// What holds the encoder, for commands outside of scopes.
    pub fn inner(&mut self) -> &mut W {
        self.wrapper.as_mut().expect("it has not ended")
    }

    /// Begins a compute pass that is one kernel: recorded from its begin to its end.
    pub fn profile_compute(&mut self, name: impl Into<KernelName>) -> ComputeScope<'_> {
        let name = name.into();
        let label = Some(name.site().name());
        self.compute(name, ComputePassDescriptor { label, timestamp_writes: None })
    }

    /// The same with a descriptor of your own: the kernel is called as the pass is labelled. If
    /// it has timestamp writes already, the pass keeps them, and the time recorded is that of the
    /// command buffer.
    pub fn profile_pass(&mut self, descriptor: &ComputePassDescriptor<'_>) -> ComputeScope<'_> {
        let name = KernelName::from(descriptor.label.unwrap_or("compute pass"));
        self.compute(name, descriptor.clone())
    }

    fn compute(
        &mut self,
        name: KernelName,
        descriptor: ComputePassDescriptor<'_>,
    ) -> ComputeScope<'_> {
        let launch = Launch::begin(name);
        let source = self.abilities.finest(Place::OwnPass);
        let is_sampled = launch.is_recorded()
            && source == TimingSource::PassBoundary
            && descriptor.timestamp_writes.is_none();
        let pair = if is_sampled { self.open.pair() } else { None };
        let open = Arc::clone(&self.open);
        let encoder = self.inner().encoder();
        let pass = match &pair {
            None => encoder.begin_compute_pass(&descriptor),
            Some(pair) => open
                .with_set(pair, |query_set| {
                    encoder.begin_compute_pass(&ComputePassDescriptor {
                        label: descriptor.label,
                        timestamp_writes: Some(ComputePassTimestampWrites {
                            query_set,
                            beginning_of_pass_write_index: Some(pair.start),
                            end_of_pass_write_index: Some(pair.start + 1),
                        }),
                    })
                })
                .expect("a pair is of an encoder that has not ended"),
        };
        let sampled = pair.map(|pair| (pair.number, source));
        ComputeScope { pass, end: ScopeEnd::new(launch, open, Work::Kernel, sampled) }
    }

    /// Begins a compute pass of several kernels: each is a scope of the pass.
    pub fn shared_pass(&mut self, label: &str) -> SharedPass<'_> {
        let (open, abilities) = (Arc::clone(&self.open), self.abilities);
        let descriptor = ComputePassDescriptor { label: Some(label), timestamp_writes: None };
        SharedPass { pass: self.inner().encoder().begin_compute_pass(&descriptor), open, abilities }
    }

    /// A scope around copies and other commands outside of passes.
    pub fn profile_blit(&mut self, name: impl Into<KernelName>) -> BlitScope<'_> {
        let launch = Launch::begin(name.into());
        let source = self.abilities.finest(Place::Encoder);
        let is_sampled = launch.is_recorded() && source == TimingSource::InsideEncoder;
        let pair = if is_sampled { self.open.pair() } else { None };
        let open = Arc::clone(&self.open);
        let encoder = self.inner().encoder();
        if let Some(pair) = &pair {
            open.with_set(pair, |set| encoder.write_timestamp(set, pair.start));
        }
        let sampled = pair.as_ref().map(|pair| (pair.number, source));
        BlitScope { encoder, end: ScopeEnd::new(launch, open, Work::COPY, sampled), pair }
    }

    /// Ends profiling and returns what holds the encoder, to be finished and submitted
    /// as usual: results come by themselves.
    pub fn end(mut self) -> W {
        self.resolve();
        self.wrapper.take().expect("it has not ended")
    }

    /// Has the samples resolved, and asks to be told when they are there.
    fn resolve(&mut self) -> Option<u64> {
        let state = std::mem::replace(&mut *lock(&self.open.state), State::Ended);
        let Encoding { batch, blocks, written } = match state {
            State::Profiled(encoding) => encoding,
            State::Unprofiled(scopes) => {
                self.collector.inbox.submissions.count_unprofiled(scopes);
                return None;
            }
            State::Ended => return None,
        };
        if batch.is_empty() {
            return None;
        }
        let collector = Arc::clone(&self.collector);
        let encoder = self.wrapper.as_mut()?.encoder();
        let readback =
            (!written.is_empty()).then(|| collector.query_sets.resolve(encoder, &blocks, &written));
        let id = batch.enter()?;
        let inbox = &collector.inbox;
        let notice = Notice::new(id, inbox);
        let mapped = readback.as_ref().map(|readback| readback.buffer.clone());
        inbox.expect(id, Pending { blocks, readback, samples: written.len() * 2 });
        match mapped {
            Some(buffer) => {
                let told = move |result: Result<(), _>| notice.call(result.is_ok());
                encoder.map_buffer_on_submit(&buffer, MapMode::Read, .., told);
            }
            None => encoder.on_submitted_work_done(move || notice.call(true)),
        }
        inbox.wake();
        Some(id)
    }
}

impl ProfiledEncoder<CommandEncoder> {
    /// Ends encoding. Hand the result to [`GpuProfiler::submit`](super::GpuProfiler::submit).
    pub fn finish(mut self) -> ProfiledBuffer {
        let id = self.resolve();
        let encoder = self.wrapper.take().expect("it has not ended");
        ProfiledBuffer { buffer: encoder.finish(), id }
    }
}

impl<W: CommandBufferWrapper> Drop for ProfiledEncoder<W> {
    /// Of an encoder that is only borrowed, what was encoded stays, and is recorded if it
    /// is submitted.
    fn drop(&mut self) {
        self.resolve();
    }
}

impl<W: CommandBufferWrapper> fmt::Debug for ProfiledEncoder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfiledEncoder").finish_non_exhaustive()
    }
}

/// A command buffer whose scopes are recorded when it completes; dropped, they were never
/// submitted.
#[derive(Debug)]
pub struct ProfiledBuffer {
    buffer: CommandBuffer,
    pub(super) id: Option<u64>,
}

impl ProfiledBuffer {
    /// The command buffer, to be submitted without the profiler.
    pub fn into_inner(self) -> CommandBuffer {
        self.buffer
    }
}

impl From<CommandBuffer> for ProfiledBuffer {
    /// One without scopes.
    fn from(buffer: CommandBuffer) -> Self {
        Self { buffer, id: None }
    }
}
