//! A chart with a bar for each row. A mark shows the middle half of the row's runs.

use crate::picture::{Picture, WIDTH};
use crate::stats::Spread;

const LEFT: f64 = 200.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 62.0;
const ROW: f64 = 24.0;
const BAR: f64 = 15.0;
/// The number of grid lines on a linear scale.
const STEPS: u32 = 4;
/// If values differ by more than this factor, the scale is logarithmic.
const FAR: f64 = 30.0;

/// The contents of a chart.
pub struct Chart<'a> {
    /// The title.
    pub title: &'a str,
    /// The meaning of the bars, in a few words.
    pub summary: &'a str,
    /// The legend. For each colour: its class in [`picture`](crate::picture), its meaning, and its position.
    pub legend: &'a [(&'a str, &'a str, f64)],
    /// The rows, from the top.
    pub rows: Vec<Row>,
}

/// A row of a chart.
pub struct Row {
    /// The label at the left.
    pub name: String,
    /// The colour.
    pub class: &'static str,
    /// The bar and its range. If this is `None`, the row only has its text.
    pub spread: Option<Spread>,
    /// The text at the right, or in place of the bar.
    pub text: String,
}

impl Chart<'_> {
    /// Returns the whole picture, as SVG.
    pub fn draw(&self) -> String {
        let highs: Vec<f64> = self.rows.iter().filter_map(|row| Some(row.spread?.high)).collect();
        let scale = Scale::of(&highs);
        let height = TOP + ROW * self.rows.len() as f64 + 34.0;
        let mut picture = Picture::begin(self.title, height);
        let logarithmic = if matches!(scale, Scale::Logarithmic { .. }) { "; logarithmic scale" } else { "" };
        let text = format!("{}{logarithmic}; the line spans the middle half of all runs", self.summary);
        picture.label("small", (16.0, 48.0), "start", &text);
        picture.legend(18.0, self.legend);
        grid(&mut picture, &scale, self.rows.len());
        for (number, row) in self.rows.iter().enumerate() {
            bar(&mut picture, row, TOP + ROW * number as f64, &scale);
        }
        picture.end()
    }
}

/// A scale, which determines the positions of values, from 0 to 1, and the lines of the grid.
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
            // The scale begins below the smallest value, so that this value has a bar, too.
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

fn bar(picture: &mut Picture, row: &Row, top: f64, scale: &Scale) {
    let (y, middle) = (top + (ROW - BAR) / 2.0, top + ROW / 2.0);
    picture.label("name", (LEFT - 10.0, middle + 4.5), "end", &row.name);
    let Some(spread) = row.spread else {
        return picture.label("small", (LEFT + 8.0, middle + 4.0), "start", &row.text);
    };
    let [end, low, high] = [spread.median, spread.low, spread.high].map(|value| x(scale.place(value)));
    picture.bar(row.class, (LEFT, y), (end - LEFT, BAR));
    picture.range(middle, low, high);
    picture.label("small", (WIDTH - RIGHT + 14.0, middle + 4.0), "start", &row.text);
}

#[cfg(test)]
mod tests {
    use super::Scale;

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
}
