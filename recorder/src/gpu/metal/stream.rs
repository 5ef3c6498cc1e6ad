//! Kernels one after the other, in command buffers of their own or in shared ones.

use std::sync::Arc;

use objc2::rc::Retained;

use super::{
    calls::{BlitEncoder, CommandBuffer, ComputeEncoder},
    commands::ProfiledCommands,
    profiler::Shared,
    sharing::Sharing,
};
use crate::gpu::{KernelName, Work};

/// Submits kernels in order. Made by [`GpuProfiler::stream`](super::GpuProfiler::stream).
///
/// In **latency mode** (`RINGSCOPE_GPU_LATENCY`, on by default) each kernel has a command buffer
/// of its own, committed at once: its schedule and its execution have exact times, and
/// each pays for a commit. In **throughput mode** up to 64 kernels share a command buffer, which is
/// committed when it is full, by [`flush`](Stream::flush) and when the stream is dropped.
/// [`in_mode`](Stream::in_mode) chooses without regard to the setting.
#[must_use = "kernels are submitted through it"]
pub struct Stream {
    shared: Arc<Shared>,
    open: Option<ProfiledCommands>,
    sharing: Sharing,
}

impl Stream {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, open: None, sharing: Sharing::new(None) }
    }

    /// In latency mode, or in throughput mode.
    pub fn in_mode(mut self, latency: bool) -> Self {
        self.sharing = Sharing::new(Some(latency));
        self
    }

    /// Encodes a kernel. Returns whether it was: not if Metal makes no command buffer or pass.
    pub fn compute(
        &mut self,
        kernel: impl Into<KernelName>,
        encode: impl FnOnce(&ComputeEncoder),
    ) -> bool {
        self.with_commands(|commands| match commands.profile_compute(kernel) {
            Some(scope) => {
                encode(&scope);
                true
            }
            None => false,
        })
    }

    /// Encodes copies or fills; see [`compute`](Self::compute).
    pub fn blit(
        &mut self,
        name: impl Into<KernelName>,
        work: Work,
        encode: impl FnOnce(&BlitEncoder),
    ) -> bool {
        self.with_commands(|commands| match commands.profile_blit(name) {
            Some(mut scope) => {
                scope.set_work(work);
                encode(&scope);
                true
            }
            None => false,
        })
    }

    /// Commits what was encoded. Returns the command buffer, for whoever wants to wait
    /// for it; `None` if nothing was open.
    pub fn flush(&mut self) -> Option<Retained<CommandBuffer>> {
        self.sharing.begin_anew();
        self.open.take().map(ProfiledCommands::commit)
    }

    fn with_commands(&mut self, encode: impl FnOnce(&mut ProfiledCommands) -> bool) -> bool {
        if self.open.is_none() {
            self.open = self.shared.commands("stream");
        }
        let Some(commands) = &mut self.open else { return false };
        let encoded = encode(commands);
        if self.sharing.is_full_after_one(crate::gpu_latency()) {
            self.flush();
        }
        encoded
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.flush();
    }
}
