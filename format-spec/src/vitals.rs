//! What the recorder knows about itself, rewritten at every drain tick (SPEC 5.2).

use crate::little_endian::u64_at;
use crate::twin::TwinCopy;

/// Bytes of the payload that this version writes.
pub const VITALS_PAYLOAD: usize = 288;
/// Bytes of the payload of version 1.0.
const FIRST_PAYLOAD: usize = 256;

/// Where a recording stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordingState {
    /// Still going on, or killed.
    #[default]
    Recording,
    /// Finished in good order: nothing is missing.
    Finished,
    /// A fatal signal; see [`Vitals::signal`].
    FatalSignal,
    /// Goes on in the next file.
    Continued,
    /// Given up: the file was truncated by another, or the like.
    GivenUp,
    /// A state of a later version.
    Unknown(u8),
}

impl RecordingState {
    fn to_byte(self) -> u8 {
        match self {
            RecordingState::Recording => 1,
            RecordingState::Finished => 2,
            RecordingState::FatalSignal => 3,
            RecordingState::Continued => 4,
            RecordingState::GivenUp => 5,
            RecordingState::Unknown(byte) => byte,
        }
    }

    fn from_byte(byte: u8) -> RecordingState {
        match byte {
            1 => RecordingState::Recording,
            2 => RecordingState::Finished,
            3 => RecordingState::FatalSignal,
            4 => RecordingState::Continued,
            5 => RecordingState::GivenUp,
            other => RecordingState::Unknown(other),
        }
    }

    /// Whether this file ended in good order, so that whatever is missing in it is damage.
    pub fn file_is_complete(self) -> bool {
        matches!(self, RecordingState::Finished | RecordingState::Continued)
    }
}

/// Counts of the whole recording, not of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Tick of this update.
    pub tick: u64,
    /// Where the recording stands.
    pub state: RecordingState,
    /// The signal, in state [`RecordingState::FatalSignal`].
    pub signal: u8,
    /// Events of the program handed to the file.
    pub stored: u64,
    /// Slots stored with them.
    pub stored_slots: u64,
    /// Events stored on the recorder's own track.
    pub own: u64,
    /// Events overwritten by newer ones, all tracks.
    pub overwritten: u64,
    /// Events lost, by cause.
    pub lost: [u64; 8],
    /// Slots lost with them, by cause.
    pub lost_slots: [u64; 8],
    /// Events skipped on request, by cause.
    pub skipped: [u64; 8],
    /// Bytes appended to the log and ring areas.
    pub bytes: u64,
    /// Drain ticks so far.
    pub drain_ticks: u64,
    /// Long texts stored.
    pub long_texts: u64,
    /// Texts of errors that stayed cut, because there was no room beside the events.
    pub texts_cut: u64,
    /// Records and slots that this tick left in the rings, because the file had no room for them.
    pub waiting: u64,
    /// Events that are counted as lost or skipped and are in no table of losses, because the
    /// file had no room for it.
    pub untold: u64,
}

impl Vitals {
    /// The payload of the twin block.
    pub fn to_bytes(&self) -> [u8; VITALS_PAYLOAD] {
        let mut bytes = [0; VITALS_PAYLOAD];
        self.put_into(&mut bytes);
        bytes
    }

    #[inline(always)]
    fn put_into(&self, bytes: &mut [u8; VITALS_PAYLOAD]) {
        let mut put = |at: usize, n: u64| bytes[at..at + 8].copy_from_slice(&n.to_le_bytes());
        put(0, self.tick);
        put(8, u64::from(self.state.to_byte()) | u64::from(self.signal) << 8);
        put(16, self.stored);
        put(24, self.stored_slots);
        put(32, self.own);
        put(40, self.overwritten);
        for cause in 0..8 {
            put(48 + 8 * cause, self.lost[cause]);
            put(112 + 8 * cause, self.lost_slots[cause]);
            put(176 + 8 * cause, self.skipped[cause]);
        }
        put(240, self.bytes);
        put(248, self.drain_ticks);
        put(256, self.long_texts);
        put(264, self.texts_cut);
        put(272, self.waiting);
        put(280, self.untold);
    }

    /// Reads a payload. A longer one is of a later version; the rest is ignored. A shorter
    /// one is of an earlier version, which did not count what is missing.
    pub fn parse(payload: &[u8]) -> Option<Vitals> {
        payload.get(..FIRST_PAYLOAD)?;
        let since = |at: usize| if payload.len() >= at + 8 { u64_at(payload, at) } else { 0 };
        let causes = |at: usize| std::array::from_fn(|cause| u64_at(payload, at + 8 * cause));
        Some(Vitals {
            tick: u64_at(payload, 0),
            state: RecordingState::from_byte(payload[8]),
            signal: payload[9],
            stored: u64_at(payload, 16),
            stored_slots: u64_at(payload, 24),
            own: u64_at(payload, 32),
            overwritten: u64_at(payload, 40),
            lost: causes(48),
            lost_slots: causes(112),
            skipped: causes(176),
            bytes: u64_at(payload, 240),
            drain_ticks: u64_at(payload, 248),
            long_texts: since(256),
            texts_cut: since(264),
            waiting: since(272),
            untold: since(280),
        })
    }

    /// Events lost, for whatever cause.
    pub fn total_lost(&self) -> u64 {
        self.lost.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Events skipped on request, for whatever cause.
    pub fn total_skipped(&self) -> u64 {
        self.skipped.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Events that the program produced: stored, lost and skipped.
    pub fn produced(&self) -> u64 {
        self.stored.saturating_add(self.total_lost()).saturating_add(self.total_skipped())
    }
}

/// Writes the next edition of the vitals into their twin block. What [`write_twin`](crate::write_twin)
/// does with [`Vitals::to_bytes`], without the copy in between.
#[inline(always)]
pub fn write_vitals(block: &mut [u8], edition: u64, vitals: &Vitals) -> bool {
    let Some(copy) = TwinCopy::begin(block, edition, VITALS_PAYLOAD) else { return false };
    let Some(payload) = copy.payload.first_chunk_mut() else { return false };
    vitals.put_into(payload);
    copy.end();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> Vitals {
        Vitals {
            tick: 1,
            state: RecordingState::FatalSignal,
            signal: 11,
            stored: 2,
            stored_slots: 3,
            own: 4,
            overwritten: 5,
            lost: std::array::from_fn(|i| 10 + i as u64),
            lost_slots: std::array::from_fn(|i| 20 + i as u64),
            skipped: std::array::from_fn(|i| 30 + i as u64),
            bytes: 6,
            drain_ticks: 7,
            long_texts: 8,
            texts_cut: 9,
            waiting: 10,
            untold: 11,
        }
    }

    #[test]
    fn payload_has_every_field_where_the_format_says() {
        let bytes = counting().to_bytes();
        let at = |offset: usize| u64_at(&bytes, offset);
        assert_eq!(at(0), 1);
        assert_eq!(bytes[8..16], [3, 11, 0, 0, 0, 0, 0, 0]);
        assert_eq!([at(16), at(24), at(32), at(40)], [2, 3, 4, 5]);
        for cause in 0..8 {
            assert_eq!(at(48 + cause * 8), 10 + cause as u64);
            assert_eq!(at(112 + cause * 8), 20 + cause as u64);
            assert_eq!(at(176 + cause * 8), 30 + cause as u64);
        }
        assert_eq!([at(240), at(248), at(256), at(264)], [6, 7, 8, 9]);
        assert_eq!([at(272), at(280)], [10, 11]);
    }

    #[test]
    fn vitals_that_are_made_in_their_block_are_those_that_were_copied_there() {
        for edition in [6, 7] {
            let (mut made, mut copied) = ([0; 640], [0; 640]);
            assert!(write_vitals(&mut made, edition, &counting()));
            assert!(crate::twin::write_twin(&mut copied, edition, &counting().to_bytes()));
            assert_eq!(made, copied);
        }
    }

    #[test]
    fn longer_payload_of_a_later_version_is_accepted_and_one_cut_short_is_not() {
        let mut bytes = counting().to_bytes().to_vec();
        bytes.extend([9; 40]);
        assert_eq!(Vitals::parse(&bytes), Some(counting()));
        assert_eq!(Vitals::parse(&bytes[..255]), None);
    }

    #[test]
    fn payloads_of_earlier_versions_are_read_and_what_they_did_not_count_is_none() {
        let second = Vitals { waiting: 0, untold: 0, ..counting() };
        assert_eq!(Vitals::parse(&counting().to_bytes()[..272]), Some(second));
        let first = Vitals { long_texts: 0, texts_cut: 0, ..second };
        assert_eq!(Vitals::parse(&counting().to_bytes()[..256]), Some(first));
    }

    #[test]
    fn produced_is_stored_lost_and_skipped_and_never_overflows() {
        let mut vitals = counting();
        assert_eq!(vitals.produced(), 2 + (10..18).sum::<u64>() + (30..38).sum::<u64>());
        vitals.lost = [u64::MAX; 8];
        assert_eq!(vitals.produced(), u64::MAX);
    }

    #[test]
    fn states_survive_even_when_unknown() {
        for byte in 0..=255 {
            assert_eq!(RecordingState::from_byte(byte).to_byte(), byte);
        }
    }
}
