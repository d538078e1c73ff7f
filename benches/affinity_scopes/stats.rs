//! Means, paired ratios, and their confidence.

use fastrand::Rng;

/// The number of resamples for an interval.
const RESAMPLES: usize = 10_000;

/// The mean and the standard deviation of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    /// The standard deviation, which is zero for a single value.
    pub(crate) deviation: f64,
}

/// A ratio, with a 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ratio {
    pub(crate) estimate: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Computes the spread of at least one value.
    pub(crate) fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Self { mean, deviation }
    }
}

impl Ratio {
    /// Computes the geometric mean of the middle half of the ratios `of[i] / to[i]`, and its bootstrap percentile
    /// interval. There must be at least one pair of positive values. Occasional disturbances of the machine, which are
    /// unrelated to the pair, fall outside of the middle half.
    pub(crate) fn of_pairs(of: &[f64], to: &[f64]) -> Self {
        assert_eq!(of.len(), to.len(), "pairs have two sides");
        let mut logarithms: Vec<f64> = of.iter().zip(to).map(|(of, to)| (of / to).ln()).collect();
        logarithms.sort_by(f64::total_cmp);
        let mut random = Rng::with_seed(logarithms.len() as u64);
        let mut times = vec![0; logarithms.len()];
        let mut means: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                times.fill(0);
                (0..times.len()).for_each(|_| times[random.usize(..logarithms.len())] += 1);
                mean_of_middle(&logarithms, &times)
            })
            .collect();
        means.sort_by(f64::total_cmp);
        let at = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize].exp();
        times.fill(1);
        Self { estimate: mean_of_middle(&logarithms, &times).exp(), low: at(0.025), high: at(0.975) }
    }

    pub(crate) fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// Returns the mean of ascending values without a quarter of them at each end. `times` says how often each value
/// occurs. A value at the border of the middle half counts in part.
fn mean_of_middle(ascending: &[f64], times: &[u32]) -> f64 {
    let count: f64 = times.iter().copied().map(f64::from).sum();
    let (from, to) = (count / 4.0, count * 3.0 / 4.0);
    let (mut passed, mut sum) = (0.0, 0.0);
    for (value, times) in ascending.iter().zip(times) {
        let end = passed + f64::from(*times);
        sum += value * (end.min(to) - f64::max(passed, from)).max(0.0);
        passed = end;
    }
    sum / (to - from)
}
