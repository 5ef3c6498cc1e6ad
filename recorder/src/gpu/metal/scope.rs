//! Scopes around the work of one pass, or of a part of one.

use std::ops::Deref;

use objc2::rc::Retained;
use objc2_metal::MTLCommandEncoder;

use super::{
    calls::{BlitEncoder, ComputeEncoder, SamplesBetweenCommands},
    commands::{Begun, Profiled},
};
use crate::gpu::Work;

macro_rules! pass_scope {
    ($(#[$doc:meta])* $scope:ident, $encoder:ty) => {
        $(#[$doc])*
        ///
        /// It is the encoder of its pass: dereference it. It ends the pass when it is dropped, so do
        /// not call `endEncoding` on it: Metal ends a process that does so twice.
        #[must_use = "the pass ends when this is dropped"]
        pub struct $scope<'a> {
            encoder: Retained<$encoder>,
            profiled: Option<(&'a mut Profiled, Begun)>,
        }

        impl<'a> $scope<'a> {
            pub(super) fn new(
                encoder: Retained<$encoder>,
                profiled: Option<(&'a mut Profiled, Begun)>,
            ) -> Self {
                Self { encoder, profiled }
            }
        }

        impl Deref for $scope<'_> {
            type Target = $encoder;

            fn deref(&self) -> &$encoder {
                &self.encoder
            }
        }

        impl Drop for $scope<'_> {
            fn drop(&mut self) {
                let profiled = self.profiled.take();
                if let Some((profiled, begun)) = &profiled {
                    profiled.end_of_commands(begun, &*self.encoder);
                }
                self.encoder.endEncoding();
                if let Some((profiled, begun)) = profiled {
                    profiled.push(begun);
                }
            }
        }
    };
}

macro_rules! set_work {
    () => {
        /// What is done, with how many bytes: a copy if nothing is said.
        pub fn set_work(&mut self, work: Work) {
            if let Some((_, begun)) = &mut self.profiled {
                begun.set_work(work);
            }
        }
    };
}

pass_scope! {
    /// A kernel in a compute pass of its own.
    ComputeScope, ComputeEncoder
}

pass_scope! {
    /// Copies or fills in a pass of their own.
    BlitScope, BlitEncoder
}

impl ComputeScope<'_> {
    /// Groups in the grid of its launch, for the trace.
    pub fn set_groups(&mut self, groups: [u32; 3]) {
        if let Some((_, begun)) = &mut self.profiled {
            begun.set_groups(groups);
        }
    }
}

impl BlitScope<'_> {
    set_work!();
}

impl OpenScope<'_, BlitEncoder> {
    set_work!();
}

/// Work in a pass that the caller has begun, and will end after this is dropped.
#[must_use = "the scope ends when this is dropped"]
#[allow(private_bounds)] // encoders are Metal's, and only those
pub struct OpenScope<'a, E: SamplesBetweenCommands + ?Sized> {
    encoder: &'a E,
    profiled: Option<(&'a mut Profiled, Begun)>,
}

#[allow(private_bounds)]
impl<'a, E: SamplesBetweenCommands + ?Sized> OpenScope<'a, E> {
    pub(super) fn new(encoder: &'a E, profiled: Option<(&'a mut Profiled, Begun)>) -> Self {
        Self { encoder, profiled }
    }
}

impl<E: SamplesBetweenCommands + ?Sized> Deref for OpenScope<'_, E> {
    type Target = E;

    fn deref(&self) -> &E {
        self.encoder
    }
}

impl<E: SamplesBetweenCommands + ?Sized> Drop for OpenScope<'_, E> {
    fn drop(&mut self) {
        if let Some((profiled, begun)) = self.profiled.take() {
            profiled.end_of_commands(&begun, self.encoder);
            profiled.push(begun);
        }
    }
}
