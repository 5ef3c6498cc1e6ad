//! Functions of statistics that the decision takes: trigamma and its inverse, and
//! Student's distribution with any number of degrees of freedom, infinitely many
//! included.

use statrs::{
    distribution::{ContinuousCDF, Normal, StudentsT},
    function::gamma,
};

/// From here on Student's distribution is taken for the normal one.
const MANY_DEGREES: f64 = 1e6;

/// The logarithmic derivative of the gamma function.
pub fn digamma(x: f64) -> f64 {
    gamma::digamma(x)
}

/// The derivative of [`digamma`], for `x` above 0.
pub fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    // The series below is exact to 1e-12 from 10 on; the recurrence leads there.
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let bernoulli = [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0];
    let tail = bernoulli.iter().rev().fold(0.0, |sum, b| (sum + b) * square);
    sum + (1.0 + 1.0 / (2.0 * x) + tail) / x
}

/// The second derivative of [`digamma`].
fn tetragamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum -= 2.0 / (x * x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let inner =
        1.0 + 1.0 / x + square * (0.5 - square * (1.0 / 6.0 - square * (1.0 / 6.0 - square * 0.3)));
    sum - square * inner
}

/// The `x` whose trigamma is `y`, for `y` above 0: Newton's way on `1 / trigamma`,
/// which is convex and nearly straight, so a few steps do from any size.
pub fn trigamma_inverse(y: f64) -> f64 {
    if y > 1e7 {
        return 1.0 / y.sqrt();
    }
    if y < 1e-6 {
        return 1.0 / y;
    }
    let mut x = 0.5 + 1.0 / y;
    for _ in 0..50 {
        let tri = trigamma(x);
        let step = tri * (1.0 - tri / y) / tetragamma(x);
        x += step;
        if -step / x < 1e-10 {
            break;
        }
    }
    x
}

/// The chance that Student's t exceeds `t`.
pub fn t_above(t: f64, degrees: f64) -> f64 {
    if degrees >= MANY_DEGREES {
        return normal().sf(t);
    }
    StudentsT::new(0.0, 1.0, degrees).map_or(1.0, |it| it.sf(t))
}

/// The t that is exceeded with the chance `p`, between 0 and 1/2.
pub fn t_exceeded_by(p: f64, degrees: f64) -> f64 {
    // By bisection on the tail: exact where `1 - p` would round to 1.
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    while t_above(high, degrees) > p && high < 1e15 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if t_above(middle, degrees) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The density of the normal distribution where it has `p` below it.
pub fn normal_density_at(p: f64) -> f64 {
    let z = normal().inverse_cdf(p.clamp(1e-12, 1.0 - 1e-12));
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

fn normal() -> Normal {
    Normal::standard()
}

/// The middle of some numbers; 0 of none.
pub fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { 0.5 * (values[middle - 1] + values[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 1e-6 * wanted.abs().max(1e-3), "{found} for {wanted}");
    }

    #[test]
    fn trigamma_has_its_known_values() {
        let pi2 = std::f64::consts::PI.powi(2);
        near(trigamma(1.0), pi2 / 6.0);
        near(trigamma(0.5), pi2 / 2.0);
        near(trigamma(2.0), pi2 / 6.0 - 1.0);
        near(trigamma(100.0), 0.010_050_166_663_333);
        near(digamma(1.0), -0.577_215_664_901_532_9);
    }

    #[test]
    fn the_inverse_of_trigamma_leads_back() {
        for x in [1e-4, 0.03, 0.5, 1.0, 2.5, 7.0, 40.0, 1e3, 1e5, 1e8] {
            near(trigamma_inverse(trigamma(x)), x);
        }
    }

    #[test]
    fn quantiles_of_student_are_those_of_the_tables() {
        for (degrees, p, t) in [
            (1.0, 0.025, 12.706_204_7),
            (4.0, 0.01, 3.746_947_4),
            (8.0, 0.005, 3.355_387_3),
            (8.0, 0.000_5, 5.041_305_4),
            (30.0, 0.025, 2.042_272_5),
            (f64::INFINITY, 0.025, 1.959_964_0),
        ] {
            near(t_exceeded_by(p, degrees), t);
            near(t_above(t, degrees), p);
        }
        // Far in the tail, where the quantile by 1 - p would be infinite.
        near(t_above(t_exceeded_by(1e-18, 6.0), 6.0), 1e-18);
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&mut []), 0.0);
    }
}
