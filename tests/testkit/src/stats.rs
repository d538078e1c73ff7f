//! Medians, spreads and percentiles.

/// The median of a sample, and the ends of its middle half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The first quartile.
    pub low: f64,
    /// The third quartile.
    pub high: f64,
}

impl Spread {
    /// Computes the spread of a sample. Returns `None` if the sample is empty.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (values.len() - 1) as f64;
            let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
            low + (high - low) * place.fract()
        };
        (!values.is_empty()).then(|| Self { median: at(0.5), low: at(0.25), high: at(0.75) })
    }

    /// Returns half of the width of the middle half, in percent of the median.
    pub fn percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { 50.0 * (self.high - self.low) / self.median }
    }
}

/// Returns the median, or NaN if there are no values.
pub fn median(values: &[f64]) -> f64 {
    Spread::of(values).map_or(f64::NAN, |spread| spread.median)
}

/// Returns the smallest of these ascending values that is not exceeded by `percent` percent of the values.
pub fn percentile(ascending: &[f64], percent: usize) -> Option<f64> {
    let rank = (ascending.len() * percent).div_ceil(100).max(1);
    ascending.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::{Spread, percentile};

    #[test]
    fn a_spread_is_the_middle_half() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0]), Some(Spread { median: 3.0, low: 3.0, high: 3.0 }));
        let five = Spread::of(&[50.0, 10.0, 30.0, 20.0, 40.0]).unwrap();
        assert_eq!(five, Spread { median: 30.0, low: 20.0, high: 40.0 });
        assert!((five.percent() - 100.0 / 3.0).abs() < 1e-9);
        assert_eq!(Spread::of(&[1.0, 2.0]).unwrap().median, 1.5);
    }

    #[test]
    fn a_percentile_is_a_value_that_occurred() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), Some(100.0));
        assert_eq!(percentile(&values, 99), Some(198.0));
        assert_eq!(percentile(&values, 100), Some(200.0));
        assert_eq!(percentile(&values[..1], 50), Some(1.0));
        assert_eq!(percentile(&[], 50), None);
    }
}
