//! A command buffer and its scopes, from encoding to the end of its work.
//!
//! The handler of its completion is added when encoding ends, before the commit. It
//! owns what is left: the number of the submission, the samples, the host's clocks as they were. If Metal
//! drops the handler uncalled, the command buffer was never committed, and is counted so.

use std::{sync::Arc, time::Duration};

use objc2::rc::Retained;
use objc2_metal::{MTLCommandBuffer, MTLDispatchType};

use super::{
    calls::{self, BlitEncoder, CommandBuffer, ComputeEncoder, Edge, Finished, SamplePair},
    host_time,
    profiler::{BLOCK, Shared},
    scope::{BlitScope, ComputeScope, OpenScope},
};
use crate::{
    gpu::{
        Abilities, Batch, Completion, DeviceCounter, KernelName, Launch, Pair, Place, Scope, Slots,
        Submissions, TimingSource, Work, host_ticks,
    },
    vocabulary::CommandBufferQueued,
};

/// Something of your own that holds a command buffer: implement it, and
/// [`GpuProfiler::attach`](super::GpuProfiler::attach) takes it.
///
/// ```ignore
/// struct Pass { commands: Retained<ProtocolObject<dyn MTLCommandBuffer>>, frame: u64 }
///
/// impl CommandBufferWrapper for Pass {
///     fn command_buffer(&self) -> &ProtocolObject<dyn MTLCommandBuffer> {
///         &self.commands
///     }
/// }
///
/// let mut pass = profiler.attach(Pass { commands, frame });
/// ```
pub trait CommandBufferWrapper {
    /// The command buffer. Always the same one.
    fn command_buffer(&self) -> &CommandBuffer;

    /// Commits it; a wrapper that does more than that says so here.
    fn commit_commands(&self) {
        self.command_buffer().commit();
    }
}

impl<T: CommandBufferWrapper + ?Sized> CommandBufferWrapper for &T {
    fn command_buffer(&self) -> &CommandBuffer {
        (**self).command_buffer()
    }

    fn commit_commands(&self) {
        (**self).commit_commands();
    }
}

impl CommandBufferWrapper for Retained<CommandBuffer> {
    fn command_buffer(&self) -> &CommandBuffer {
        self
    }
}

impl CommandBufferWrapper for CommandBuffer {
    fn command_buffer(&self) -> &CommandBuffer {
        self
    }
}

/// A command buffer whose work is profiled, while it is encoded.
///
/// [`commit`](ProfiledCommands::commit) commits it. Dropped without that it is left to the caller,
/// who can still commit it: scopes are then timed all the same. If the caller commits it before,
/// its scopes are not timed, and counted as not observed.
#[must_use = "what is not committed never runs"]
pub struct ProfiledCommands<W: CommandBufferWrapper = Retained<CommandBuffer>> {
    /// Until it ends.
    wrapper: Option<W>,
    profiled: Option<Profiled>,
    submissions: Arc<Submissions>,
    /// Scopes that are in no command buffer of these: past the limit, or the device is lost.
    unprofiled: usize,
}

/// Where the scopes of a command buffer go.
pub(super) struct Profiled {
    shared: Arc<Shared>,
    batch: Batch,
    blocks: Vec<Slots>,
    /// Samples that were given out, of all blocks.
    samples: u32,
}

/// A scope that has begun.
pub(super) struct Begun {
    launch: Launch,
    work: Work,
    sampled: Option<(u32, TimingSource)>,
}

impl<W: CommandBufferWrapper> ProfiledCommands<W> {
    pub(super) fn new(shared: Arc<Shared>, wrapper: W) -> Self {
        let batch = if cfg!(feature = "off") { None } else { shared.submissions.begin() };
        let submissions = Arc::clone(&shared.submissions);
        let profiled =
            batch.map(|batch| Profiled { shared, batch, blocks: Vec::new(), samples: 0 });
        Self { wrapper: Some(wrapper), profiled, submissions, unprofiled: 0 }
    }

    /// Begins a compute pass for this kernel: encode it through the scope, which ends the
    /// pass when it is dropped. `None` if Metal makes no pass.
    pub fn profile_compute(&mut self, kernel: impl Into<KernelName>) -> Option<ComputeScope<'_>> {
        self.profile_compute_as(kernel, MTLDispatchType::Serial)
    }

    /// The same for a pass whose dispatches may overlap.
    pub fn profile_compute_as(
        &mut self,
        kernel: impl Into<KernelName>,
        dispatch_type: MTLDispatchType,
    ) -> Option<ComputeScope<'_>> {
        let place = Place::OwnPass;
        let begun = self.begin(kernel.into(), Work::Kernel, place, |it| it.compute());
        let samples = self.pair(begun.as_ref(), TimingSource::StageBoundary);
        let encoder = calls::compute_encoder(self.command_buffer(), dispatch_type, samples)?;
        if let Some(samples) = self.pair(begun.as_ref(), TimingSource::DispatchBoundary) {
            calls::SamplesBetweenCommands::sample(&*encoder, samples, Edge::Begin);
        }
        Some(ComputeScope::new(encoder, self.profiled.as_mut().zip(begun)))
    }

    /// Begins a pass for copies or fills; see [`profile_compute`](Self::profile_compute).
    pub fn profile_blit(&mut self, name: impl Into<KernelName>) -> Option<BlitScope<'_>> {
        let begun = self.begin(name.into(), Work::COPY, Place::OwnPass, |it| it.blit());
        let samples = self.pair(begun.as_ref(), TimingSource::StageBoundary);
        let encoder = calls::blit_encoder(self.command_buffer(), samples)?;
        if let Some(samples) = self.pair(begun.as_ref(), TimingSource::DispatchBoundary) {
            calls::SamplesBetweenCommands::sample(&*encoder, samples, Edge::Begin);
        }
        Some(BlitScope::new(encoder, self.profiled.as_mut().zip(begun)))
    }

    /// A kernel in a compute pass of this command buffer that the caller has begun, and ends
    /// after the scope: an encoder that has ended takes no samples, and Metal ends a process
    /// that asks for them.
    pub fn profile_compute_in<'a>(
        &'a mut self,
        encoder: &'a ComputeEncoder,
        kernel: impl Into<KernelName>,
    ) -> OpenScope<'a, ComputeEncoder> {
        let place = Place::OpenPass;
        let begun = self.begin(kernel.into(), Work::Kernel, place, |it| it.compute());
        self.open(encoder, begun)
    }

    /// The same for copies or fills.
    pub fn profile_blit_in<'a>(
        &'a mut self,
        encoder: &'a BlitEncoder,
        name: impl Into<KernelName>,
    ) -> OpenScope<'a, BlitEncoder> {
        let begun = self.begin(name.into(), Work::COPY, Place::OpenPass, |it| it.blit());
        self.open(encoder, begun)
    }

    fn open<'a, E: calls::SamplesBetweenCommands + ?Sized>(
        &'a mut self,
        encoder: &'a E,
        begun: Option<Begun>,
    ) -> OpenScope<'a, E> {
        if let Some(samples) = self.pair(begun.as_ref(), TimingSource::DispatchBoundary) {
            encoder.sample(samples, Edge::Begin);
        }
        OpenScope::new(encoder, self.profiled.as_mut().zip(begun))
    }

    /// The command buffer.
    pub fn command_buffer(&self) -> &CommandBuffer {
        self.inner().command_buffer()
    }

    /// What holds the command buffer, for passes outside of scopes.
    pub fn inner(&self) -> &W {
        self.wrapper.as_ref().expect("it has not ended")
    }

    /// Commits it, and returns what holds it. Does not wait: the scopes are recorded when the
    /// device is done.
    pub fn commit(mut self) -> W {
        if let Some((submissions, id)) = self.add_handler() {
            submissions.submitted(id, host_ticks());
        }
        let wrapper = self.wrapper.take().expect("it has not ended");
        wrapper.commit_commands();
        wrapper
    }

    /// Ends profiling and returns what holds the command buffer, to be committed as usual:
    /// results come by themselves. The queue delay counts from here.
    pub fn end(mut self) -> W {
        self.add_handler();
        self.wrapper.take().expect("it has not ended")
    }

    /// Encoding has ended: adds the handler. Returns the number of the submission.
    fn add_handler(&mut self) -> Option<(Arc<Submissions>, u64)> {
        self.submissions.count_unprofiled(std::mem::take(&mut self.unprofiled));
        let Profiled { shared, batch, blocks, .. } = self.profiled.take()?;
        if batch.is_empty() && blocks.is_empty() {
            return None;
        }
        shared.calibrate();
        let id = if batch.is_empty() { None } else { batch.enter() };
        let entered = id.map(|id| (Arc::clone(&shared.submissions), id));
        let ended = host_time::uptime();
        let in_flight = InFlight { shared, id, blocks, ended, is_done: false };
        let commands = self.command_buffer();
        if !calls::takes_handlers(commands) {
            in_flight.give_up();
            return None;
        }
        calls::on_completion(commands, move |finished| in_flight.complete(finished));
        entered
    }

    fn begin(
        &mut self,
        name: KernelName,
        work: Work,
        place: Place,
        abilities: impl Fn(super::abilities::Answers) -> Abilities,
    ) -> Option<Begun> {
        let launch = Launch::begin(name);
        if !launch.is_recorded() {
            return None;
        }
        let Some(profiled) = self.profiled.as_mut() else {
            self.unprofiled += 1;
            return None;
        };
        let source = abilities(profiled.shared.answers).finest(place);
        let sampled = source.is_exact().then(|| profiled.take_samples()).flatten();
        Some(Begun { launch, work, sampled: sampled.map(|first| (first, source)) })
    }

    /// Where a scope samples, if it does so by this source.
    fn pair(&self, begun: Option<&Begun>, by: TimingSource) -> Option<SamplePair<'_>> {
        self.profiled.as_ref()?.pair(begun?, by)
    }
}

impl<W: CommandBufferWrapper> Drop for ProfiledCommands<W> {
    fn drop(&mut self) {
        if self.wrapper.is_some() {
            self.add_handler();
        }
    }
}

impl Profiled {
    /// Room for two samples: their place among all of this command buffer.
    fn take_samples(&mut self) -> Option<u32> {
        if self.samples == self.blocks.len() as u32 * BLOCK {
            self.blocks.push(self.shared.slots()?);
        }
        let first = self.samples;
        self.samples += 2;
        Some(first)
    }

    fn pair(&self, begun: &Begun, by: TimingSource) -> Option<SamplePair<'_>> {
        let (first, _) = begun.sampled.filter(|(_, source)| *source == by)?;
        let slots = &self.blocks[(first / BLOCK) as usize];
        let begin = slots.first() + first % BLOCK;
        SamplePair::new(self.shared.buffer(slots)?, begin as usize)
    }

    /// A scope has ended: takes its second sample, if that is taken between commands.
    pub(super) fn end_of_commands(
        &self,
        begun: &Begun,
        encoder: &(impl calls::SamplesBetweenCommands + ?Sized),
    ) {
        if let Some(samples) = self.pair(begun, TimingSource::DispatchBoundary) {
            encoder.sample(samples, Edge::End);
        }
    }

    /// And its launch is recorded.
    pub(super) fn push(&mut self, begun: Begun) {
        let Begun { launch, work, sampled } = begun;
        if let Some(launched) = launch.end() {
            self.batch.push(Scope { launched, work, sampled });
        }
    }
}

impl Begun {
    /// Groups in the grid of the launch.
    pub(super) fn set_groups(&mut self, groups: [u32; 3]) {
        self.launch.set_groups(groups);
    }

    /// What it is around, if that is not what it began as.
    pub(super) fn set_work(&mut self, work: Work) {
        self.work = work;
    }
}

/// A command buffer that the device has, or will have. What it samples into stays
/// alive, and is nobody else's, until it is done.
struct InFlight {
    shared: Arc<Shared>,
    /// `None` if nothing is to be recorded.
    id: Option<u64>,
    blocks: Vec<Slots>,
    /// The host's clocks when encoding ended.
    ended: Pair,
    is_done: bool,
}

impl InFlight {
    /// On a thread of Metal's.
    fn complete(mut self, finished: &Finished) {
        self.is_done = true;
        let (done, now) = (host_ticks(), host_time::uptime());
        let Some(id) = self.id else { return };
        let submissions = &self.shared.submissions;
        if let Some(failure) = &finished.failure {
            self.shared.complain("command buffer", &failure.reason);
            submissions.fail(id);
            if failure.device_lost {
                submissions.lose_device();
            }
            return;
        }
        self.shared.calibrate();
        self.record_queue(id, finished, now);
        let samples = self.samples();
        let whole = host_time::whole(self.ended, now, finished.gpu_start, finished.gpu_end);
        let completion = Completion { done, samples: &samples, whole };
        submissions.complete(id, &completion, DeviceCounter::FULL, |device| self.shared.at(device));
    }

    /// The caller committed it before profiling had ended: nobody will tell when it is
    /// done. What it samples into is never used again.
    fn give_up(mut self) {
        self.is_done = true;
        if let Some(id) = self.id {
            self.shared.submissions.not_observed(id);
        }
        let (shared, blocks) = (Arc::clone(&self.shared), std::mem::take(&mut self.blocks));
        std::mem::forget((shared, blocks));
    }

    /// All samples, in the order in which they were given out. What cannot be read is
    /// left at 0, which nobody believes.
    fn samples(&self) -> Vec<u64> {
        let mut all = vec![0; self.blocks.len() * BLOCK as usize];
        for (slots, to) in self.blocks.iter().zip(all.chunks_exact_mut(BLOCK as usize)) {
            let first = slots.first() as usize;
            let range = first..first + slots.count() as usize;
            if let Some(read) = self.shared.buffer(slots).and_then(|buffer| buffer.read(range)) {
                to.copy_from_slice(&read);
            }
        }
        all
    }

    /// How long it waited, and how long the system took to schedule it.
    fn record_queue(&self, id: u64, finished: &Finished, now: Pair) {
        let submitted = self.shared.submissions.submitted_at(id);
        let submitted = submitted.and_then(|tick| host_time::uptime_at(self.ended, now, tick));
        let waited = host_time::uptime_ns(finished.gpu_start)
            .zip(submitted)
            .map(|(start, submitted)| start.saturating_sub(submitted));
        let scheduled = host_time::uptime_ns(finished.kernel_start)
            .zip(host_time::uptime_ns(finished.kernel_end))
            .and_then(|(start, end)| end.checked_sub(start));
        CommandBufferQueued::new()
            .device(self.shared.name)
            .buffer(id)
            .queue(waited.map(Duration::from_nanos))
            .schedule(scheduled.map(Duration::from_nanos))
            .record();
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(id) = self.id.filter(|_| !self.is_done) {
            self.shared.submissions.never_submitted(id);
        }
    }
}
