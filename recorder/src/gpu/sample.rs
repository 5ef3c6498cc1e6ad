//! Whether a pair of timestamps can be believed.
//!
//! A device leaves 0 where an encoder held no commands, an error value where it
//! could not sample, and whatever was there before where it was lost. None of that may become a
//! time: what is not believed has a name and is counted.

use std::fmt;

use super::{clock_map::Moment, counter::DeviceCounter};

/// What a device leaves where it could not sample: `MTLCounterErrorValue`, and all
/// ones elsewhere too.
const ERROR_VALUE: u64 = u64::MAX;

/// Why timestamps were not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rejection {
    /// There were fewer samples than scopes.
    Missing,
    /// One of them is 0: nothing was sampled.
    Zero,
    /// One of them is the error value.
    ErrorValue,
    /// The end lies before the start.
    EndBeforeStart,
    /// They lie outside of the time in which the work can have run.
    Outside,
    /// There is nothing to map them to the host's clock by: nothing is known of it yet, or they
    /// contradict what is.
    NoClock,
}

impl Rejection {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Missing,
        Self::Zero,
        Self::ErrorValue,
        Self::EndBeforeStart,
        Self::Outside,
        Self::NoClock,
    ];

    /// In words, as traces have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "sample missing",
            Self::Zero => "sample is zero",
            Self::ErrorValue => "sample is an error value",
            Self::EndBeforeStart => "end before start",
            Self::Outside => "outside of its submission",
            Self::NoClock => "clock not mapped",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Two samples of a device's counter: when work began and when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

impl Sample {
    /// The sample, if both of it are times and in order.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn believed(self, counter: DeviceCounter) -> Result<Self, Rejection> {
        let both = [self.start, self.end];
        if both.contains(&0) {
            Err(Rejection::Zero)
        } else if both.contains(&ERROR_VALUE) {
            Err(Rejection::ErrorValue)
        } else if counter.between(self.start, self.end) < 0 {
            Err(Rejection::EndBeforeStart)
        } else {
            Ok(self)
        }
    }
}

/// When work ran, in ticks of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// By how many ticks both may be off, together: the duration is better known.
    pub error: u64,
}

impl Interval {
    /// From the mapped ends of a believed sample.
    pub fn mapped(start: Moment, end: Moment) -> Self {
        Self { start: start.tick, end: end.tick.max(start.tick), error: start.error.max(end.error) }
    }

    /// The interval, if it lies between these ticks as far as its error allows.
    ///
    /// Where the error is to blame it is moved inside, as long as it was: that work
    /// begins after its submission is certain, the mapping of clocks is not.
    ///
    /// # Errors
    ///
    /// [`Rejection::Outside`] if its error does not explain where it lies.
    pub fn between(self, submitted: u64, done: u64) -> Result<Self, Rejection> {
        let (Some(length), Some(room)) =
            (self.end.checked_sub(self.start), done.checked_sub(submitted))
        else {
            return Err(Rejection::Outside);
        };
        let early = submitted.saturating_sub(self.start);
        let late = self.end.saturating_sub(done);
        if early > self.error || late > self.error || length > room.saturating_add(self.error) {
            return Err(Rejection::Outside);
        }
        let length = length.min(room);
        let start = self.start.clamp(submitted, done - length);
        Ok(Self { start, end: start + length, error: self.error })
    }

    /// The interval, if it lies within that of its command buffer as far as the errors of
    /// both allow. It is not moved: which of the two is off is not known.
    ///
    /// # Errors
    ///
    /// [`Rejection::Outside`] if their errors do not explain where it lies.
    pub fn within(self, whole: Self) -> Result<Self, Rejection> {
        let error = self.error.saturating_add(whole.error);
        let early = whole.start.saturating_sub(self.start);
        let late = self.end.saturating_sub(whole.end);
        if early > error || late > error { Err(Rejection::Outside) } else { Ok(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn believed(start: u64, end: u64) -> Result<Sample, Rejection> {
        Sample { start, end }.believed(DeviceCounter::FULL)
    }

    #[test]
    fn zero_and_the_error_value_are_no_times() {
        assert_eq!(believed(0, 0), Err(Rejection::Zero), "an encoder without commands");
        assert_eq!(believed(0, 5_000), Err(Rejection::Zero));
        assert_eq!(believed(5_000, 0), Err(Rejection::Zero));
        assert_eq!(believed(u64::MAX, 5_000), Err(Rejection::ErrorValue));
        assert_eq!(believed(5_000, u64::MAX), Err(Rejection::ErrorValue));
    }

    #[test]
    fn an_end_before_its_start_is_refused_unless_the_counter_began_again() {
        assert_eq!(believed(5_000, 4_999), Err(Rejection::EndBeforeStart));
        assert_eq!(believed(5_000, 5_000), Ok(Sample { start: 5_000, end: 5_000 }));
        let wrapped = Sample { start: (1 << 36) - 10, end: 5 };
        assert_eq!(wrapped.believed(DeviceCounter::of_bits(36)), Ok(wrapped));
        assert_eq!(wrapped.believed(DeviceCounter::FULL), Err(Rejection::EndBeforeStart));
    }

    #[test]
    fn work_outside_of_its_submission_is_refused() {
        let work = Interval { start: 1_000, end: 2_000, error: 10 };
        assert_eq!(work.between(900, 2_100), Ok(work));
        assert_eq!(work.between(1_011, 2_100), Err(Rejection::Outside));
        assert_eq!(work.between(900, 1_989), Err(Rejection::Outside));
        assert_eq!(work.between(2_000, 1_000), Err(Rejection::Outside), "done before submitted");
    }

    #[test]
    fn what_ends_before_it_begins_is_refused_however_large_the_error() {
        let work = Interval { start: 1_500, end: 1_500, error: 1_000_000 };
        assert_eq!(work.between(2_000, 1_000), Err(Rejection::Outside), "done before submitted");
        let backwards = Interval { start: 1_500, end: 1_400, error: 1_000_000 };
        assert_eq!(backwards.between(1_000, 2_000), Err(Rejection::Outside));
    }

    #[test]
    fn what_the_error_explains_is_moved_inside_and_stays_as_long() {
        let work = Interval { start: 1_000, end: 2_000, error: 10 };
        assert_eq!(
            work.between(1_010, 5_000),
            Ok(Interval { start: 1_010, end: 2_010, error: 10 })
        );
        assert_eq!(work.between(500, 1_990), Ok(Interval { start: 990, end: 1_990, error: 10 }));
        assert_eq!(
            work.between(1_005, 1_995),
            Ok(Interval { start: 1_005, end: 1_995, error: 10 })
        );
    }

    #[test]
    fn work_outside_of_its_command_buffer_is_refused() {
        let whole = Interval { start: 1_000, end: 2_000, error: 5 };
        let work = |start, end| Interval { start, end, error: 10 };
        assert_eq!(work(1_200, 1_300).within(whole), Ok(work(1_200, 1_300)));
        assert_eq!(work(985, 2_015).within(whole), Ok(work(985, 2_015)), "what errors explain");
        assert_eq!(work(984, 1_300).within(whole), Err(Rejection::Outside));
        assert_eq!(work(1_200, 2_016).within(whole), Err(Rejection::Outside));
        assert_eq!(work(500, 600).within(whole), Err(Rejection::Outside), "left from before");
    }
}
