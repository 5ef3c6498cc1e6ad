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

/// Values in equal parts of a time. What is held is the parts, however many values there are.
#[derive(Clone, Debug)]
pub struct Course {
    range: (f64, f64),
    parts: Vec<Option<Part>>,
}

/// The values of one part.
#[derive(Clone, Copy, Debug)]
struct Part {
    largest: f64,
    /// The last one and when that was.
    last: (f64, f64),
}

impl Course {
    /// The time from `range.0` to `range.1`, in `width` parts.
    pub fn new(range: (f64, f64), width: usize) -> Self {
        Self { range, parts: vec![None; width] }
    }

    /// Bytes that so many parts take.
    pub fn bytes(width: usize) -> usize {
        size_of::<Self>() + width * size_of::<Option<Part>>()
    }

    /// Values come in any order; of two at the same time, the last one counts as the later.
    /// One that is not finite is left out.
    pub fn add(&mut self, time: f64, value: f64) {
        let Some(part) = self.part_at(time).filter(|_| value.is_finite()) else { return };
        *part = Some(match *part {
            None => Part { largest: value, last: (time, value) },
            Some(before) => Part {
                largest: before.largest.max(value),
                last: if time >= before.last.0 { (time, value) } else { before.last },
            },
        });
    }

    /// Of amounts that add up, a part shows how much they are together, and one without any
    /// shows nothing of it.
    pub fn count(&mut self, time: f64, amount: f64) {
        let Some(part) = self.part_at(time).filter(|_| amount.is_finite()) else { return };
        let before = part.map_or(0.0, |part| part.largest);
        *part = Some(Part { largest: before + amount, last: (time, 0.0) });
    }

    fn part_at(&mut self, time: f64) -> Option<&mut Option<Part>> {
        let width = self.parts.len() as f64;
        let length = (self.range.1 - self.range.0).max(1.0);
        let at = ((time - self.range.0) / length * width).clamp(0.0, (width - 1.0).max(0.0));
        self.parts.get_mut(at as usize)
    }

    /// Each part shows its largest value; one without any shows the last value before it, and
    /// a blank if there is none.
    pub fn line(&self, floor: Floor) -> String {
        let known = || self.parts.iter().flatten().flat_map(|part| [part.largest, part.last.1]);
        let least = known().fold(f64::INFINITY, f64::min);
        let largest = known().fold(f64::NEG_INFINITY, f64::max);
        let bottom = if floor == Floor::Zero { least.min(0.0) } else { least };
        let mut before = None;
        let bar = |part: &Option<Part>| {
            let value = part.map(|part| part.largest).or(before);
            before = part.map(|part| part.last.1).or(before);
            let Some(value) = value else { return ' ' };
            let share = if largest > bottom { (value - bottom) / (largest - bottom) } else { 0.0 };
            BARS[((share * 8.0) as usize).min(7)]
        };
        self.parts.iter().map(bar).collect()
    }
}

/// Draws `readings`, pairs of time and value, as a [`Course`].
pub fn sparkline(
    readings: impl IntoIterator<Item = (f64, f64)>,
    range: (f64, f64),
    width: usize,
    floor: Floor,
) -> String {
    let mut course = Course::new(range, width);
    readings.into_iter().for_each(|(time, value)| course.add(time, value));
    course.line(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_add_up_in_their_part_and_count_in_no_other() {
        let mut course = Course::new((0.0, 80.0), 8);
        [1.0, 2.0, 11.0, 35.0, 36.0].into_iter().for_each(|time| course.count(time, 5.0));
        assert_eq!(course.line(Floor::Zero), "█▅▁█▁▁▁▁");
        course.count(99.0, f64::NAN);
        Course::new((0.0, 1.0), 0).count(0.0, 1.0);
        assert_eq!(course.line(Floor::Zero), "█▅▁█▁▁▁▁");
    }

    #[test]
    fn a_part_without_a_reading_repeats_what_was_last_known() {
        let readings = [(10.0, 8.0), (30.0, 4.0), (31.0, 0.0)];
        assert_eq!(sparkline(readings, (0.0, 50.0), 5, Floor::Zero), " ██▅▁");
    }

    #[test]
    fn the_order_of_readings_does_not_matter() {
        let readings = [(31.0, 0.0), (10.0, 8.0), (30.0, 4.0)];
        assert_eq!(sparkline(readings, (0.0, 50.0), 5, Floor::Zero), " ██▅▁");
    }

    #[test]
    fn a_course_that_never_comes_near_zero_still_shows() {
        let readings = [(0.0, 100.0), (1.0, 101.0), (2.0, f64::NAN), (3.0, 102.0)];
        assert_eq!(sparkline(readings, (0.0, 4.0), 4, Floor::Least), "▁▅▅█");
        assert_eq!(sparkline([], (0.0, 4.0), 4, Floor::Least), "    ");
    }
}
