//! Numbered events that do not compress, to fill files with.

use ringscope::gauge;

use crate::told::Event;

/// What one thread records: events `step`, numbered from 0, with 128 bytes of
/// noise in each. In a raw slot one takes 288 bytes.
pub(crate) struct Load {
    next: u64,
    noise: u64,
}

impl Load {
    pub(crate) fn new(seed: u64) -> Self {
        Self { next: 0, noise: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// Events recorded so far.
    pub(crate) fn produced(&self) -> u64 {
        self.next
    }

    pub(crate) fn record(&mut self, events: u64) {
        macro_rules! step {
            ($($noise:ident)*) => {
                gauge!("step", self.random(), i = self.next, $($noise = self.random()),*)
            };
        }
        for _ in 0..events {
            step!(a b c d e f g h j k l m n o p);
            self.next += 1;
        }
    }

    /// Xorshift.
    fn random(&mut self) -> u64 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        self.noise
    }
}

/// Numbers of these steps; each follows the one before it.
#[track_caller]
pub(crate) fn unbroken<'a>(events: impl IntoIterator<Item = &'a Event>) -> std::ops::Range<u64> {
    let steps = events.into_iter().filter(|event| event.name == "step");
    let mut range = 0..0;
    for (at, step) in steps.enumerate() {
        let i = step.number("i");
        if at == 0 {
            range = i..i;
        }
        assert_eq!(i, range.end, "of the steps from {} on", range.start);
        range.end += 1;
    }
    range
}
