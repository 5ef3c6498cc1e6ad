//! A course over time in one line of text.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What the lowest bar stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// Zero, or the least value if that is below: for amounts.
    Zero,
    /// The least value: for what never comes near zero.
    Least,
}

/// Draws `readings`, pairs of time and value by rising time, into `width` equal
/// parts of the time from `range.0` to `range.1`. Each part shows its largest
/// value; one without a reading shows the last value before it, and a blank if
/// there is none. Readings that are not finite are left out.
pub fn sparkline(
    readings: impl IntoIterator<Item = (f64, f64)>,
    range: (f64, f64),
    width: usize,
    floor: Floor,
) -> String {
    let length = (range.1 - range.0).max(1.0);
    // The largest and the last value of each part.
    let mut parts: Vec<Option<(f64, f64)>> = vec![None; width];
    for (time, value) in readings {
        if !value.is_finite() || width == 0 {
            continue;
        }
        let at = ((time - range.0) / length * width as f64).clamp(0.0, width as f64 - 1.0);
        let part = &mut parts[at as usize];
        *part = Some((part.map_or(value, |(largest, _)| largest.max(value)), value));
    }
    let known = || parts.iter().flatten().flat_map(|&(largest, last)| [largest, last]);
    let least = known().fold(f64::INFINITY, f64::min);
    let largest = known().fold(f64::NEG_INFINITY, f64::max);
    let bottom = if floor == Floor::Zero { least.min(0.0) } else { least };
    let mut before = None;
    let bar = |part: &Option<(f64, f64)>| {
        let value = part.map(|(largest, _)| largest).or(before);
        before = part.map(|(_, last)| last).or(before);
        let Some(value) = value else { return ' ' };
        let share = if largest > bottom { (value - bottom) / (largest - bottom) } else { 0.0 };
        BARS[((share * 8.0) as usize).min(7)]
    };
    parts.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_a_reading_repeats_what_was_last_known() {
        let readings = [(10.0, 8.0), (30.0, 4.0), (31.0, 0.0)];
        assert_eq!(sparkline(readings, (0.0, 50.0), 5, Floor::Zero), " ██▅▁");
    }

    #[test]
    fn a_course_that_never_comes_near_zero_still_shows() {
        let readings = [(0.0, 100.0), (1.0, 101.0), (2.0, f64::NAN), (3.0, 102.0)];
        assert_eq!(sparkline(readings, (0.0, 4.0), 4, Floor::Least), "▁▅▅█");
        assert_eq!(sparkline([], (0.0, 4.0), 4, Floor::Least), "    ");
    }
}
