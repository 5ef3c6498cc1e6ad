//! What a Metal device says it can sample, in the words that backends share.
//!
//! Apple's own GPUs sample at the boundaries of a pass, Intel's and AMD's between the
//! commands of one; asking a device for what it cannot do ends the process. So every
//! point is asked about, and what is not granted is not used.

use crate::gpu::Abilities;

/// What a device answered, point by point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    /// It has the counter set of timestamps.
    pub(crate) timestamps: bool,
    /// It samples where a pass begins and ends, of whatever kind.
    pub(crate) stage_boundary: bool,
    /// It samples between dispatches.
    pub(crate) dispatch_boundary: bool,
    /// It samples between copies.
    pub(crate) blit_boundary: bool,
}

impl Answers {
    /// For compute passes.
    pub(crate) fn compute(self) -> Abilities {
        self.abilities(self.dispatch_boundary)
    }

    /// For passes of copies and fills.
    pub(crate) fn blit(self) -> Abilities {
        self.abilities(self.blit_boundary)
    }

    fn abilities(self, between_commands: bool) -> Abilities {
        Abilities {
            stage_boundary: self.timestamps && self.stage_boundary,
            dispatch_boundary: self.timestamps && between_commands,
            command_buffer: true,
            ..Abilities::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{Place, TimingSource};

    const APPLE_SILICON: Answers = Answers {
        timestamps: true,
        stage_boundary: true,
        dispatch_boundary: false,
        blit_boundary: false,
    };
    const AMD: Answers = Answers {
        timestamps: true,
        stage_boundary: false,
        dispatch_boundary: true,
        blit_boundary: true,
    };

    fn sources(answers: Answers, place: Place) -> [TimingSource; 2] {
        [answers.compute().finest(place), answers.blit().finest(place)]
    }

    #[test]
    fn apple_silicon_samples_the_passes_that_we_make() {
        assert_eq!(sources(APPLE_SILICON, Place::OwnPass), [TimingSource::StageBoundary; 2]);
    }

    #[test]
    fn apple_silicon_samples_nothing_inside_of_a_pass_of_the_caller() {
        assert_eq!(sources(APPLE_SILICON, Place::OpenPass), [TimingSource::CommandBuffer; 2]);
    }

    #[test]
    fn amd_samples_between_commands_whoever_made_the_pass() {
        for place in [Place::OwnPass, Place::OpenPass] {
            assert_eq!(sources(AMD, place), [TimingSource::DispatchBoundary; 2]);
        }
    }

    #[test]
    fn dispatches_and_copies_are_asked_about_apart() {
        let no_blit = Answers { blit_boundary: false, ..AMD };
        let expected = [TimingSource::DispatchBoundary, TimingSource::CommandBuffer];
        assert_eq!(sources(no_blit, Place::OpenPass), expected);
    }

    #[test]
    fn points_without_the_counter_set_are_of_no_use() {
        for device in [APPLE_SILICON, AMD] {
            let without = Answers { timestamps: false, ..device };
            for place in [Place::OwnPass, Place::OpenPass] {
                assert_eq!(sources(without, place), [TimingSource::CommandBuffer; 2]);
            }
        }
    }

    #[test]
    fn a_pass_is_preferred_where_both_are_granted() {
        let both = Answers { stage_boundary: true, ..AMD };
        assert_eq!(sources(both, Place::OwnPass), [TimingSource::StageBoundary; 2]);
        assert_eq!(sources(both, Place::OpenPass), [TimingSource::DispatchBoundary; 2]);
    }
}
