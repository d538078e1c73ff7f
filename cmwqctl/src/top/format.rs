//! Numbers in few columns.

use std::time::Duration;

/// Formats a duration with at most three digits and a unit: `340 ns`, `1.2 µs`, `12 ms`, `3.4 s`, `15 min`.
pub(crate) fn duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    let seconds = duration.as_secs_f64();
    if seconds >= 599.5 {
        return format!("{:.0} min", seconds / 60.0);
    }
    let units = [(1e6, "µs"), (1e3, "ms"), (1.0, "s")];
    let scaled = units.map(|(factor, unit)| (seconds * factor, unit));
    let (value, unit) = scaled.into_iter().find(|(value, _)| *value < 999.5).unwrap_or((seconds, "s"));
    if value < 9.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

/// Formats a count in at most six columns: `0`, `12`, `123456`, `12.3M`.
pub(crate) fn count(count: u64) -> String {
    if count < 1_000_000 { count.to_string() } else { large(count as f64) }
}

/// Formats a rate in at most six columns: `0`, `0.5`, `12`, `123456`, `1.23M`.
pub(crate) fn rate(rate: f64) -> String {
    if rate == 0.0 {
        "0".into()
    } else if rate < 9.95 {
        format!("{rate:.1}")
    } else if rate < 999_999.5 {
        format!("{rate:.0}")
    } else {
        large(rate)
    }
}

fn large(value: f64) -> String {
    let units = [(1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| value < 999.5 * scale).unwrap_or((1e18, "E"));
    let value = value / scale;
    match value {
        value if value < 9.995 => format!("{value:.2}{unit}"),
        value if value < 99.95 => format!("{value:.1}{unit}"),
        value => format!("{value:.0}{unit}"),
    }
}

/// Cuts the text to `width` columns, and marks the cut with an ellipsis.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut fitted: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        fitted.push('…');
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_at_most() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (9_960, "10 µs"),
            (999_499, "999 µs"),
            (999_501, "1.0 ms"),
            (12_345_678, "12 ms"),
            (3_400_000_000, "3.4 s"),
            (300_000_000_000, "300 s"),
            (900_000_000_000, "15 min"),
        ] {
            assert_eq!(duration(Duration::from_nanos(ns)), text, "{ns}");
        }
    }

    #[test]
    fn counts_and_rates_have_six_columns_at_most() {
        for (number, text) in [
            (0, "0"),
            (999_999, "999999"),
            (1_234_567, "1.23M"),
            (12_345_678, "12.3M"),
            (999_400_000, "999M"),
        ] {
            assert_eq!(count(number), text);
        }
        for number in [u64::MAX, 999_999_999, 99_960_000, 9_996_000] {
            assert!(count(number).len() <= 6, "{}", count(number));
        }
        for (number, text) in
            [(0.0, "0"), (0.5, "0.5"), (9.96, "10"), (1234.5, "1234"), (2_500_000.0, "2.50M")]
        {
            assert_eq!(rate(number), text);
        }
    }

    #[test]
    fn text_that_does_not_fit_ends_in_an_ellipsis() {
        assert_eq!(fit("events", 6), "events");
        assert_eq!(fit("events", 4), "eve…");
        assert_eq!(fit("events", 0), "");
    }
}
