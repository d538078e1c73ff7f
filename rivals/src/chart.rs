//! A picture of a case: a bar for each row, with the middle half of its runs.

use std::fmt::Write;

use crate::report::{CaseReport, Row};
use crate::rival::Part;
use crate::stats::Spread;
use crate::unit::Better;

const WIDTH: f64 = 820.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 62.0;
const ROW: f64 = 24.0;
const BAR: f64 = 15.0;
/// Lines of the grid on a linear scale.
const STEPS: u32 = 4;
/// Where values are further apart than this, the scale is logarithmic.
const FAR: f64 = 30.0;

/// Colours for a light page and for a dark one. The picture paints its own ground, so it can be read on either.
const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .small { font-size: 11px; fill: #59636e }
    .ground { fill: #ffffff }
    .grid { stroke: #d1d9e0; stroke-width: 1 }
    .cmwq { fill: #54aeff }
    .pool { fill: #bc4c00 }
    .floor { fill: #818b98 }
    .spread { stroke: #1f2328; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .small { fill: #9198a1 }
      .ground { fill: #0d1117 }
      .grid { stroke: #3d444d }
      .cmwq { fill: #1f6feb }
      .pool { fill: #f0883e }
      .floor { fill: #656c76 }
      .spread { stroke: #f0f6fc }
    }
";

/// How far a value is along the scale, from 0 to 1, and where the lines of the grid are.
enum Scale {
    Linear {
        most: f64,
    },
    /// From this power of ten to that one.
    Logarithmic {
        from: f64,
        to: f64,
    },
}

impl Scale {
    /// For positive values.
    fn of(values: &[f64]) -> Self {
        let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let least = values.iter().copied().fold(most, f64::min).max(f64::MIN_POSITIVE);
        if most / least > FAR {
            // The least value has a bar, too.
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

/// The whole picture, of the measure by which rows are ranked.
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
    picture.label(16.0, 48.0, "small", "start", &text);
    picture.legend();
    picture.grid(&scale, report.rows.len());
    for (number, row) in report.rows.iter().enumerate() {
        let top = TOP + ROW * number as f64;
        let text = match (&row.trouble, row.cells.first().copied().flatten()) {
            (Some(trouble), _) => trouble.chars().take(60).collect(),
            (None, Some(spread)) => measure.unit.full(spread.median),
            (None, None) => "not measured".into(),
        };
        picture.row(row, top, spread(row), &scale, &text);
    }
    picture.0.push_str("</svg>\n");
    picture.0
}

/// What the bars stand for, in a few words.
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
        Part::Floor | Part::Threads => "floor",
        Part::Pool | Part::Apart => "pool",
        _ => "cmwq",
    }
}

fn x(place: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * place
}

struct Picture(String);

impl Picture {
    fn begin(title: &str, height: f64) -> Self {
        let mut picture = Self(String::new());
        picture.element(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\">"
        ));
        picture.element(&format!("<title>{title}</title>"));
        picture.element(&format!("<style>\n{STYLE}  </style>"));
        picture.element(&format!("<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>"));
        picture.label(16.0, 28.0, "title", "start", title);
        picture
    }

    fn element(&mut self, element: &str) {
        let indent = if element.starts_with("<svg") { "" } else { "  " };
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{indent}{element}");
    }

    fn label(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.element(&format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.element(&format!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    fn legend(&mut self) {
        for (number, (class, text)) in
            [("cmwq", "cmwq"), ("pool", "pools"), ("floor", "channel, threads")].into_iter().enumerate()
        {
            let x = WIDTH - 270.0 + 75.0 * number as f64;
            self.element(&format!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"19\" width=\"10\" height=\"10\"/>"
            ));
            self.label(x + 15.0, 28.0, "small", "start", text);
        }
    }

    fn grid(&mut self, scale: &Scale, rows: usize) {
        let bottom = TOP + ROW * rows as f64;
        for value in scale.lines() {
            let x = x(scale.place(value));
            self.line("grid", (x, TOP), (x, bottom + 4.0));
            let text = format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned();
            self.label(x, bottom + 18.0, "small", "middle", &text);
        }
    }

    fn row(&mut self, row: &Row, top: f64, spread: Option<Spread>, scale: &Scale, text: &str) {
        let (y, middle) = (top + (ROW - BAR) / 2.0, top + ROW / 2.0);
        self.label(LEFT - 10.0, middle + 4.5, "name", "end", row.rival.name);
        let Some(spread) = spread else {
            return self.label(LEFT + 8.0, middle + 4.0, "small", "start", text);
        };
        let [end, low, high] = [spread.median, spread.low, spread.high].map(|value| x(scale.place(value)));
        self.element(&format!(
            "<rect class=\"{}\" x=\"{LEFT:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR:.1}\"/>",
            class_of(row.rival.can.part),
            end - LEFT
        ));
        self.line("spread", (low, middle), (high, middle));
        for end in [low, high] {
            self.line("spread", (end, middle - 4.0), (end, middle + 4.0));
        }
        self.label(WIDTH - RIGHT + 14.0, middle + 4.0, "small", "start", text);
    }
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
    fn a_picture_has_a_bar_for_each_row_that_came_to_its_end() {
        let picture =
            picture(&report("dep", &[("rayon", None), ("cmwq", Some(0.001)), ("blocking", Some(0.9))]));
        assert_eq!(picture.matches("class=\"pool\"").count(), 1 + 1, "and one in the legend");
        assert_eq!(picture.matches("class=\"cmwq\"").count(), 1 + 1);
        assert!(picture.contains("stuck after 5 s") && picture.contains("logarithmic"));
        assert_eq!(picture.matches("<svg").count(), picture.matches("</svg>").count());
    }
}
