//! A picture of a case: a bar for each row, with the middle half of its runs.

use testkit::picture::{Picture, WIDTH};

use crate::report::{CaseReport, Row};
use crate::rival::Part;
use crate::stats::Spread;
use crate::unit::Better;

const LEFT: f64 = 200.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 62.0;
const ROW: f64 = 24.0;
const BAR: f64 = 15.0;
/// The lines of the grid on a linear scale.
const STEPS: u32 = 4;
/// If values differ by more than this factor, the scale is logarithmic.
const FAR: f64 = 30.0;

/// The position of values on the scale, from 0 to 1, and the lines of the grid.
enum Scale {
    Linear {
        most: f64,
    },
    /// From one power of ten to another.
    Logarithmic {
        from: f64,
        to: f64,
    },
}

impl Scale {
    /// Makes the scale for positive values.
    fn of(values: &[f64]) -> Self {
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let least = values.iter().copied().fold(most, f64::min).max(f64::MIN_POSITIVE);
        if most / least > FAR {
            // The scale begins below the least value, so that it has a bar, too.
            return Self::Logarithmic { from: (least / 2.0).log10().floor(), to: most.log10().ceil() };
        }
        let step = 10_f64.powf(most.log10().floor()) / 2.5;
        Self::Linear { most: (most / step).ceil() * step }
    }

    fn place(&self, value: f64) -> f64 {
        match self {
            Self::Linear { most } => value / most,
            Self::Logarithmic { from, to } => {
                (value.max(f64::MIN_POSITIVE).log10() - from).max(0.0) / (to - from)
            }
        }
    }

    fn lines(&self) -> Vec<f64> {
        match self {
            Self::Linear { most } => {
                (0..=STEPS).map(|step| most * f64::from(step) / f64::from(STEPS)).collect()
            }
            Self::Logarithmic { from, to } => {
                (*from as i32..=*to as i32).map(|power| 10_f64.powi(power)).collect()
            }
        }
    }
}

/// Returns the whole picture, for the measure that ranks the rows.
pub(crate) fn picture(report: &CaseReport) -> String {
    let measure = &report.case.measures[0];
    let shown = |value: f64| measure.unit.shown(value);
    let spread = |row: &Row| {
        let spread = row.cells.first().copied().flatten().filter(|_| row.trouble.is_none())?;
        Some(Spread { median: shown(spread.median), low: shown(spread.low), high: shown(spread.high) })
    };
    let highs: Vec<f64> = report.rows.iter().filter_map(spread).map(|spread| spread.high).collect();
    let scale = Scale::of(&highs);
    let height = TOP + ROW * report.rows.len() as f64 + 34.0;
    let mut picture = Picture::begin(&report.case.name(), height);
    let logarithmic = if matches!(scale, Scale::Logarithmic { .. }) { "; logarithmic scale" } else { "" };
    let text = format!("{}{logarithmic}; the line spans the middle half of all runs", summary(report));
    picture.label("small", (16.0, 48.0), "start", &text);
    picture.legend(
        18.0,
        &[
            ("blue", "cmwq", WIDTH - 270.0),
            ("orange", "pools", WIDTH - 195.0),
            ("grey", "channel, threads", WIDTH - 120.0),
        ],
    );
    grid(&mut picture, &scale, report.rows.len());
    for (number, row) in report.rows.iter().enumerate() {
        let top = TOP + ROW * number as f64;
        let text = match (&row.trouble, row.cells.first().copied().flatten()) {
            (Some(trouble), _) => trouble.chars().take(60).collect(),
            (None, Some(spread)) => measure.unit.full(spread.median),
            (None, None) => "not measured".into(),
        };
        bar(&mut picture, row, top, spread(row), &scale, &text);
    }
    picture.end()
}

/// Returns the meaning of the bars, in a few words.
pub(crate) fn summary(report: &CaseReport) -> String {
    let measure = &report.case.measures[0];
    let better = match measure.better {
        Better::Less => "less is better",
        Better::More => "more is better",
    };
    format!("{}, {}: {better}", measure.name, measure.unit.name())
}

fn class_of(part: Part) -> &'static str {
    match part {
        Part::Floor | Part::Threads => "grey",
        Part::Pool | Part::Apart => "orange",
        _ => "blue",
    }
}

fn x(place: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * place
}

fn grid(picture: &mut Picture, scale: &Scale, rows: usize) {
    let bottom = TOP + ROW * rows as f64;
    for value in scale.lines() {
        let x = x(scale.place(value));
        picture.line("grid", (x, TOP), (x, bottom + 4.0));
        let text = format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned();
        picture.label("small", (x, bottom + 18.0), "middle", &text);
    }
}

fn bar(picture: &mut Picture, row: &Row, top: f64, spread: Option<Spread>, scale: &Scale, text: &str) {
    let (y, middle) = (top + (ROW - BAR) / 2.0, top + ROW / 2.0);
    picture.label("name", (LEFT - 10.0, middle + 4.5), "end", row.rival.name);
    let Some(spread) = spread else {
        return picture.label("small", (LEFT + 8.0, middle + 4.0), "start", text);
    };
    let [end, low, high] = [spread.median, spread.low, spread.high].map(|value| x(scale.place(value)));
    picture.bar(class_of(row.rival.can.part), (LEFT, y), (end - LEFT, BAR));
    picture.range(middle, low, high);
    picture.label("small", (WIDTH - RIGHT + 14.0, middle + 4.0), "start", text);
}

#[cfg(test)]
mod tests {
    use super::{Scale, picture};
    use crate::report::tests::report;

    #[test]
    fn a_scale_ends_beyond_the_greatest_value() {
        let near = Scale::of(&[230.0, 310.0]);
        assert!(matches!(near, Scale::Linear { most } if most == 320.0), "{:?}", near.lines());
        assert_eq!((near.place(0.0), near.place(160.0)), (0.0, 0.5));
        let far = Scale::of(&[0.3, 250.0]);
        assert_eq!(far.lines(), [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert_eq!((far.place(0.1), far.place(1000.0)), (0.0, 1.0));
        assert!(Scale::of(&[]).place(0.0).is_finite());
    }

    #[test]
    fn a_picture_has_a_bar_for_each_row_that_finished() {
        let picture =
            picture(&report("dep", &[("rayon", None), ("cmwq", Some(0.001)), ("blocking", Some(0.9))]));
        assert_eq!(
            picture.matches("class=\"orange\"").count(),
            1 + 1,
            "one bar, and one entry of the legend"
        );
        assert_eq!(picture.matches("class=\"blue\"").count(), 1 + 1);
        assert!(picture.contains("stuck after 5 s") && picture.contains("logarithmic"));
        assert_eq!(picture.matches("<svg").count(), picture.matches("</svg>").count());
    }
}
