//! Means, paired ratios, and how sure they are.

/// Samples drawn from the sample, for an interval.
const RESAMPLES: usize = 10_000;

/// A mean, and the standard deviation of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    /// Zero for a single value.
    pub(crate) deviation: f64,
}

/// How many times as much, with a 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ratio {
    pub(crate) estimate: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Numbers that look random (SplitMix64), always the same from one seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Self { mean, deviation }
    }
}

impl Ratio {
    /// The geometric mean of `of[i] / to[i]`, and the bootstrap percentile interval of it. At least one pair, of positive
    /// values.
    pub(crate) fn of_pairs(of: &[f64], to: &[f64]) -> Self {
        assert_eq!(of.len(), to.len(), "pairs have two sides");
        let logarithms: Vec<f64> = of.iter().zip(to).map(|(of, to)| (of / to).ln()).collect();
        let mut random = Random(logarithms.len() as u64);
        let mut means: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let drawn = (0..logarithms.len()).map(|_| logarithms[random.below(logarithms.len())]);
                drawn.sum::<f64>() / logarithms.len() as f64
            })
            .collect();
        means.sort_by(f64::total_cmp);
        let at = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize].exp();
        Self { estimate: Spread::of(&logarithms).mean.exp(), low: at(0.025), high: at(0.975) }
    }

    pub(crate) fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Less than `limit`, which is small: no number is noticeably more likely than another.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
    }
}
