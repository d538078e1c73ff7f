//! A histogram as bars, one line for each band of durations.

use std::time::Duration;

use cmwq::observe::Histogram;
use ratatui::text::{Line, Span};

use super::super::format;
use super::super::theme::Theme;
use super::table::bar;

/// Draws a title, the quantiles, and at most `lines` bars.
pub(super) fn lines(
    title: &'static str,
    histogram: &Histogram,
    theme: Theme,
    width: u16,
    lines: usize,
) -> Vec<Line<'static>> {
    let quantile = |share| format::duration(histogram.quantile(share));
    let mut all = vec![
        Line::from(vec![
            Span::styled(title, theme.title()),
            Span::raw(format!(
                "  n {}  max {}",
                format::count(histogram.count()),
                format::duration(histogram.max())
            )),
        ]),
        Line::raw(format!("p50 {}  p99 {}  p99.9 {}", quantile(0.5), quantile(0.99), quantile(0.999))),
    ];
    let bands = bands(histogram.buckets().map(|(range, count)| (range.start, count)), lines);
    let most = bands.iter().map(|(_, count)| *count).max().unwrap_or(0);
    // A line consists of `< 1.0 ms `, the bar, and ` 123456`.
    let room = width.saturating_sub(10 + 7);
    for (below, count) in bands {
        all.push(Line::from(vec![
            Span::styled(format!("<{:>7} ", format::duration(below)), theme.dim()),
            Span::styled(
                format!("{:<1$}", bar(count as usize, most as usize, room), room.into()),
                theme.bar(),
            ),
            Span::raw(format!(" {:>6}", format::count(count))),
        ]));
    }
    all
}

/// Joins the buckets into bands of equal ratio, from the first to the last duration that occurs. The ratio is the
/// smallest power of two for which the number of bands is at most `lines`. Returns the exclusive upper end and the
/// count of each band.
fn bands(buckets: impl Iterator<Item = (Duration, u64)>, lines: usize) -> Vec<(Duration, u64)> {
    let mut octaves = [0_u64; 64];
    for (start, count) in buckets {
        octaves[(start.as_nanos() as u64).max(1).ilog2() as usize] += count;
    }
    let used = |count: &u64| *count > 0;
    let (Some(first), Some(last)) = (octaves.iter().position(used), octaves.iter().rposition(used)) else {
        return Vec::new();
    };
    let step = (last - first + 1).div_ceil(lines.max(1));
    let sums = octaves[first..=last].chunks(step).map(|octaves| octaves.iter().sum());
    sums.enumerate()
        .map(|(n, count)| {
            (Duration::from_nanos(2_u64.saturating_pow((first + (n + 1) * step) as u32)), count)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_join_until_they_fit() {
        let ns = Duration::from_nanos;
        let buckets = || [(ns(1), 2), (ns(3), 3), (ns(4), 1), (ns(100), 7)].into_iter();
        assert_eq!(bands(buckets(), 7).len(), 7);
        assert_eq!(bands(buckets(), 4), [(ns(4), 5), (ns(16), 1), (ns(64), 0), (ns(256), 7)]);
        assert_eq!(bands(buckets(), 1), [(ns(128), 13)]);
        assert_eq!(bands(std::iter::empty(), 5), []);
        assert_eq!(bands([(ns(u64::MAX), 1)].into_iter(), 3), [(ns(u64::MAX), 1)]);
    }
}
