//! From counters of energy to watts.
//!
//! The system's energy model has a counter for every part of the chip, in a unit that
//! it names; what it has counted between two readings, by the time between them, is
//! power.

use std::time::Duration;

/// Joules that a channel of the energy model has counted for the GPU; `None` if it is
/// another part's, or in a unit that nobody has seen yet.
///
/// Chips made of two dies have a channel for each, to be added up.
pub(crate) fn gpu_joules(channel: &str, unit: &str, count: i64) -> Option<f64> {
    // The parts of which it is the sum have channels too: `GPU0`, `GPU SRAM0`.
    let of_die = channel.rsplit_once('_').filter(|(die, _)| die.starts_with("DIE"));
    let part = of_die.map_or(channel, |(_, part)| part);
    if part != "GPU Energy" {
        return None;
    }
    let joules_each = match unit.trim() {
        "mJ" => 1e-3,
        "uJ" => 1e-6,
        "nJ" => 1e-9,
        _ => return None,
    };
    (count >= 0).then_some(count as f64 * joules_each)
}

/// Power from one reading to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PowerMeter {
    last: Option<(Duration, f64)>,
}

impl PowerMeter {
    /// Watts since the reading before. `at` is any clock that does not go back.
    ///
    /// `None` for the first reading, and for one that a reset of the counter lies before.
    pub(crate) fn watts(&mut self, at: Duration, joules: f64) -> Option<f64> {
        let (last_at, last_joules) = self.last.replace((at, joules))?;
        let seconds = at.checked_sub(last_at)?.as_secs_f64();
        (seconds > 0.0 && joules >= last_joules).then(|| (joules - last_joules) / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_counted_in_the_unit_that_the_channel_names() {
        assert_eq!(gpu_joules("GPU Energy", "nJ", 2_000_000_000), Some(2.0));
        assert_eq!(gpu_joules("GPU Energy", "uJ", 3_000_000), Some(3.0));
        assert_eq!(gpu_joules("GPU Energy", " mJ ", 4_000), Some(4.0));
    }

    #[test]
    fn a_unit_that_is_not_known_is_not_guessed() {
        assert_eq!(gpu_joules("GPU Energy", "J", 4), None);
        assert_eq!(gpu_joules("GPU Energy", "", 4), None);
    }

    #[test]
    fn other_parts_of_the_chip_and_parts_of_the_gpu_are_not_counted() {
        for channel in ["CPU Energy", "GPU0", "GPU SRAM0", "GPU CS Energy", "ANE", "EACC_CPU0"] {
            assert_eq!(gpu_joules(channel, "mJ", 1), None, "{channel}");
        }
    }

    #[test]
    fn each_die_of_a_chip_has_a_channel() {
        assert_eq!(gpu_joules("DIE_0_GPU Energy", "mJ", 1_000), Some(1.0));
        assert_eq!(gpu_joules("DIE_1_GPU Energy", "mJ", 1_000), Some(1.0));
        assert_eq!(gpu_joules("DIE_1_CPU Energy", "mJ", 1_000), None);
    }

    #[test]
    fn power_is_energy_by_the_time_between_two_readings() {
        let mut meter = PowerMeter::default();
        assert_eq!(meter.watts(Duration::from_secs(10), 100.0), None);
        assert_eq!(meter.watts(Duration::from_secs(12), 130.0), Some(15.0));
        assert_eq!(meter.watts(Duration::from_millis(12_500), 130.0), Some(0.0));
    }

    #[test]
    fn a_counter_that_was_reset_costs_one_reading() {
        let mut meter = PowerMeter::default();
        meter.watts(Duration::from_secs(1), 100.0);
        assert_eq!(meter.watts(Duration::from_secs(2), 3.0), None);
        assert_eq!(meter.watts(Duration::from_secs(3), 5.0), Some(2.0));
    }

    #[test]
    fn two_readings_at_once_have_no_power_between_them() {
        let mut meter = PowerMeter::default();
        meter.watts(Duration::from_secs(1), 100.0);
        assert_eq!(meter.watts(Duration::from_secs(1), 101.0), None);
    }
}
