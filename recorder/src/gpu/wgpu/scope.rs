//! Scopes: around a pass, around copies, around one kernel of a pass.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use ::wgpu::{CommandEncoder, ComputePass};

use super::encoder::{Open, QueryPair};
use crate::gpu::{Abilities, Direction, KernelName, Launch, Place, TimingSource, Work};

/// Ends a scope when dropped: records the launch, and joins it to its command buffer.
pub(super) struct ScopeEnd {
    launch: Option<Launch>,
    open: Arc<Open>,
    work: Work,
    sampled: Option<(u32, TimingSource)>,
}

impl ScopeEnd {
    pub(super) fn new(
        launch: Launch,
        open: Arc<Open>,
        work: Work,
        sampled: Option<(u32, TimingSource)>,
    ) -> Self {
        Self { launch: Some(launch), open, work, sampled }
    }
}

impl Drop for ScopeEnd {
    fn drop(&mut self) {
        if let Some(launch) = self.launch.take() {
            self.open.end_scope(launch, self.work, self.sampled);
        }
    }
}

macro_rules! scope_traits {
    ($scope:ident<$($life:lifetime),+>, $field:ident, $target:ty) => {
        impl<$($life),+> Deref for $scope<$($life),+> {
            type Target = $target;
            fn deref(&self) -> &Self::Target {
                &self.$field
            }
        }

        impl<$($life),+> DerefMut for $scope<$($life),+> {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.$field
            }
        }

        impl fmt::Debug for $scope<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($scope)).finish_non_exhaustive()
            }
        }
    };
}

/// A compute pass that is one kernel.
#[must_use = "a scope lasts until it is dropped"]
pub struct ComputeScope<'a> {
    // In this order: the pass ends before its scope does.
    pub(super) pass: ComputePass<'a>,
    pub(super) end: ScopeEnd,
}

scope_traits!(ComputeScope<'a>, pass, ComputePass<'a>);

impl ComputeScope<'_> {
    /// Dispatches, and records the size of the grid with the launch.
    pub fn dispatch_workgroups(&mut self, x: u32, y: u32, z: u32) {
        if let Some(launch) = &mut self.end.launch {
            launch.set_groups([x, y, z]);
        }
        self.pass.dispatch_workgroups(x, y, z);
    }

    /// The scope without its tie to the encoder, as
    /// [`ComputePass::forget_lifetime`](::wgpu::ComputePass::forget_lifetime): dropped
    /// after the encoder has ended, it is not recorded, and counted.
    pub fn forget_lifetime(self) -> ComputeScope<'static> {
        ComputeScope { pass: self.pass.forget_lifetime(), end: self.end }
    }
}

/// A compute pass of several kernels.
#[must_use = "a pass lasts until it is dropped"]
pub struct SharedPass<'a> {
    pub(super) pass: ComputePass<'a>,
    pub(super) open: Arc<Open>,
    pub(super) abilities: Abilities,
}

scope_traits!(SharedPass<'a>, pass, ComputePass<'a>);

impl<'a> SharedPass<'a> {
    /// A scope around one kernel. Devices may run kernels of one pass side by side, so their
    /// times may overlap.
    pub fn profile_compute<'p>(&'p mut self, name: impl Into<KernelName>) -> DispatchScope<'p, 'a> {
        let launch = Launch::begin(name.into());
        let source = self.abilities.finest(Place::OpenPass);
        let is_sampled = launch.is_recorded() && source == TimingSource::InsidePass;
        let pair = if is_sampled { self.open.pair() } else { None };
        if let Some(pair) = &pair {
            self.open.with_set(pair, |set| self.pass.write_timestamp(set, pair.start));
        }
        let sampled = pair.as_ref().map(|pair| (pair.number, source));
        let end = ScopeEnd::new(launch, Arc::clone(&self.open), Work::Kernel, sampled);
        DispatchScope { pass: &mut self.pass, end, pair }
    }
}

/// One kernel of a pass.
#[must_use = "a scope lasts until it is dropped"]
pub struct DispatchScope<'p, 'a> {
    pass: &'p mut ComputePass<'a>,
    end: ScopeEnd,
    pair: Option<QueryPair>,
}

impl<'a> Deref for DispatchScope<'_, 'a> {
    type Target = ComputePass<'a>;
    fn deref(&self) -> &Self::Target {
        self.pass
    }
}

impl DerefMut for DispatchScope<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.pass
    }
}

impl fmt::Debug for DispatchScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatchScope").finish_non_exhaustive()
    }
}

impl Drop for DispatchScope<'_, '_> {
    fn drop(&mut self) {
        if let Some(pair) = &self.pair {
            self.end.open.with_set(pair, |set| self.pass.write_timestamp(set, pair.start + 1));
        }
    }
}

/// Commands outside of passes: copies.
#[must_use = "a scope lasts until it is dropped"]
pub struct BlitScope<'a> {
    pub(super) encoder: &'a mut CommandEncoder,
    pub(super) end: ScopeEnd,
    pub(super) pair: Option<QueryPair>,
}

scope_traits!(BlitScope<'a>, encoder, CommandEncoder);

impl BlitScope<'_> {
    /// How much is copied, for its bandwidth.
    pub fn set_bytes(&mut self, copied: u64) {
        if let Work::Copy { bytes, .. } = &mut self.end.work {
            *bytes = Some(copied);
        }
    }

    /// From where to where.
    pub fn set_direction(&mut self, given: Direction) {
        if let Work::Copy { direction, .. } = &mut self.end.work {
            *direction = Some(given);
        }
    }
}

impl Drop for BlitScope<'_> {
    fn drop(&mut self) {
        if let Some(pair) = &self.pair {
            let encoder = &mut *self.encoder;
            self.end.open.with_set(pair, |set| encoder.write_timestamp(set, pair.start + 1));
        }
    }
}
