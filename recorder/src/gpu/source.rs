//! Where a duration comes from: what a device can sample, and what is chosen.

use crate::Name;

/// How the time of some work was taken; the field `source` of its record, finest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TimingSource {
    /// Counters sampled where the stages of an encoder begin and end: Metal on Apple's devices.
    StageBoundary,
    /// Counters sampled before and after a dispatch, within its encoder.
    DispatchBoundary,
    /// Timestamps where a pass begins and ends.
    PassBoundary,
    /// Timestamps within a pass that holds other work as well.
    InsidePass,
    /// Timestamps between the passes of an encoder.
    InsideEncoder,
    /// The device's times of the whole command buffer.
    CommandBuffer,
    /// The host's: from submission until it was seen to be done.
    SubmitToDone,
}

impl TimingSource {
    /// All of them, finest first.
    pub const ALL: [Self; 7] = [
        Self::StageBoundary,
        Self::DispatchBoundary,
        Self::PassBoundary,
        Self::InsidePass,
        Self::InsideEncoder,
        Self::CommandBuffer,
        Self::SubmitToDone,
    ];

    /// In words, as traces have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StageBoundary => "stage boundary",
            Self::DispatchBoundary => "dispatch boundary",
            Self::PassBoundary => "pass boundary",
            Self::InsidePass => "inside pass",
            Self::InsideEncoder => "inside encoder",
            Self::CommandBuffer => "command buffer",
            Self::SubmitToDone => "submit to done",
        }
    }

    /// Whether each piece of work has times of its own, rather than those of its
    /// command buffer.
    pub fn is_exact(self) -> bool {
        self < Self::CommandBuffer
    }

    pub(crate) fn label(self) -> &'static Name {
        static NAMES: [Name; 7] = [
            Name::new(TimingSource::StageBoundary.name()),
            Name::new(TimingSource::DispatchBoundary.name()),
            Name::new(TimingSource::PassBoundary.name()),
            Name::new(TimingSource::InsidePass.name()),
            Name::new(TimingSource::InsideEncoder.name()),
            Name::new(TimingSource::CommandBuffer.name()),
            Name::new(TimingSource::SubmitToDone.name()),
        ];
        &NAMES[self as usize]
    }
}

/// Where in a command buffer the work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a pass or encoder that the profiler begins for it alone.
    OwnPass,
    /// In a pass or encoder that is already open.
    OpenPass,
    /// In a command buffer, outside of any pass.
    Encoder,
}

/// What a device can sample; ask it about each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Counters at the ends of an encoder's stages, set when it is made.
    pub stage_boundary: bool,
    /// Counters between two dispatches of an encoder.
    pub dispatch_boundary: bool,
    /// Timestamps at the ends of a pass, set when it is made.
    pub pass_boundary: bool,
    /// Timestamps within a pass.
    pub inside_pass: bool,
    /// Timestamps outside of passes.
    pub inside_encoder: bool,
    /// When a command buffer began and ended.
    pub command_buffer: bool,
}

impl Abilities {
    /// The same device, if it could take times this way as well. From submission to done it
    /// always can.
    pub fn with(mut self, source: TimingSource) -> Self {
        match source {
            TimingSource::StageBoundary => self.stage_boundary = true,
            TimingSource::DispatchBoundary => self.dispatch_boundary = true,
            TimingSource::PassBoundary => self.pass_boundary = true,
            TimingSource::InsidePass => self.inside_pass = true,
            TimingSource::InsideEncoder => self.inside_encoder = true,
            TimingSource::CommandBuffer => self.command_buffer = true,
            TimingSource::SubmitToDone => {}
        }
        self
    }

    /// Whether it can take times this way.
    pub fn has(self, source: TimingSource) -> bool {
        self.with(source) == self
    }

    /// The finest source for work at this place.
    pub fn finest(self, place: Place) -> TimingSource {
        use TimingSource::{
            CommandBuffer, DispatchBoundary, InsideEncoder, InsidePass, PassBoundary,
            StageBoundary, SubmitToDone,
        };
        let own = place == Place::OwnPass;
        let in_pass = place != Place::Encoder;
        let sources = [
            (own && self.stage_boundary, StageBoundary),
            (own && self.pass_boundary, PassBoundary),
            (in_pass && self.dispatch_boundary, DispatchBoundary),
            (in_pass && self.inside_pass, InsidePass),
            (place != Place::OpenPass && self.inside_encoder, InsideEncoder),
            (self.command_buffer, CommandBuffer),
        ];
        sources.into_iter().find_map(|(can, source)| can.then_some(source)).unwrap_or(SubmitToDone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finest_that_a_device_has_is_chosen() {
        let apple =
            Abilities { stage_boundary: true, command_buffer: true, ..Abilities::default() };
        assert_eq!(apple.finest(Place::OwnPass), TimingSource::StageBoundary);
        assert_eq!(apple.finest(Place::OpenPass), TimingSource::CommandBuffer, "too late for it");
        assert_eq!(apple.finest(Place::Encoder), TimingSource::CommandBuffer);

        let intel =
            Abilities { dispatch_boundary: true, command_buffer: true, ..Abilities::default() };
        assert_eq!(intel.finest(Place::OwnPass), TimingSource::DispatchBoundary);
        assert_eq!(intel.finest(Place::OpenPass), TimingSource::DispatchBoundary);

        let webgpu = Abilities { pass_boundary: true, ..Abilities::default() };
        assert_eq!(webgpu.finest(Place::OwnPass), TimingSource::PassBoundary);
        assert_eq!(webgpu.finest(Place::OpenPass), TimingSource::SubmitToDone);

        let vulkan = Abilities { inside_pass: true, inside_encoder: true, ..webgpu };
        assert_eq!(vulkan.finest(Place::OwnPass), TimingSource::PassBoundary);
        assert_eq!(vulkan.finest(Place::OpenPass), TimingSource::InsidePass);
        assert_eq!(vulkan.finest(Place::Encoder), TimingSource::InsideEncoder);

        assert_eq!(Abilities::default().finest(Place::OwnPass), TimingSource::SubmitToDone);
    }

    #[test]
    fn a_device_has_what_it_was_given_and_no_more() {
        for given in TimingSource::ALL {
            let device = Abilities::default().with(given);
            for asked in TimingSource::ALL {
                let expected = asked == given || asked == TimingSource::SubmitToDone;
                assert_eq!(device.has(asked), expected, "{given:?} {asked:?}");
            }
        }
    }

    #[test]
    fn a_source_says_whether_it_knows_each_piece_of_work() {
        assert!(TimingSource::StageBoundary.is_exact() && TimingSource::InsideEncoder.is_exact());
        assert!(!TimingSource::CommandBuffer.is_exact() && !TimingSource::SubmitToDone.is_exact());
    }

    #[cfg(not(feature = "off"))]
    #[test]
    fn traces_have_the_words_that_the_docs_have() {
        for source in TimingSource::ALL {
            assert_eq!(source.label().text(), source.name());
        }
    }
}
