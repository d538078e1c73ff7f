//! Measures and their units.

/// A measure of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Better {
    Less,
    More,
}

impl Better {
    /// Returns how many times as good the first number is as the second.
    pub(crate) fn ratio(self, of: f64, to: f64) -> f64 {
        match self {
            Self::More => of / to,
            Self::Less => to / of,
        }
    }
}

/// The unit in which a number is shown. Numbers are stored in seconds, items per second, megabytes, and counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    ItemsPerSecond,
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    Megabytes,
    /// A multiple of another value.
    Times,
    Count,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ItemsPerSecond => "k/s",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
            Self::Nanoseconds => "ns",
            Self::Megabytes => "MB",
            Self::Times => "×",
            Self::Count => "",
        }
    }

    /// Converts the number to the shown unit.
    pub(crate) fn shown(self, value: f64) -> f64 {
        match self {
            Self::ItemsPerSecond => value / 1e3,
            Self::Milliseconds => value * 1e3,
            Self::Microseconds => value * 1e6,
            Self::Nanoseconds => value * 1e9,
            Self::Seconds | Self::Megabytes | Self::Times | Self::Count => value,
        }
    }

    /// Formats the number with a suitable number of digits.
    pub(crate) fn text(self, value: f64) -> String {
        let value = self.shown(value);
        match self {
            Self::Count => format!("{value:.0}"),
            _ if value.abs() >= 100.0 => format!("{value:.0}"),
            _ if value.abs() >= 10.0 => format!("{value:.1}"),
            _ if value.abs() < 0.1 => format!("{value:.3}"),
            _ => format!("{value:.2}"),
        }
    }

    /// Formats the number with its unit.
    pub(crate) fn full(self, value: f64) -> String {
        format!("{} {}", self.text(value), self.name()).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Better, Unit};

    #[test]
    fn numbers_have_a_suitable_number_of_digits() {
        let texts =
            [0.000_012_34, 0.001_234, 0.012_34, 0.123_4].map(|seconds| Unit::Milliseconds.text(seconds));
        assert_eq!(texts, ["0.012", "1.23", "12.3", "123"]);
        assert_eq!(Unit::ItemsPerSecond.full(2_345_678.0), "2346 k/s");
        assert_eq!(Unit::Count.full(7.0), "7");
    }

    #[test]
    fn twice_as_good_is_twice_as_much_or_half_as_much() {
        assert_eq!(Better::More.ratio(4.0, 2.0), 2.0);
        assert_eq!(Better::Less.ratio(2.0, 4.0), 2.0);
    }
}
