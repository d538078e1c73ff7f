//! A picture of the tables: a bar for each row, with its standard deviation.

use std::fmt::Write;

use super::plan::Role;
use super::report::{Line, Table};
use super::table;

const WIDTH: f64 = 820.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 84.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
/// Above the bars of each scenario.
const TITLE: f64 = 44.0;
/// Lines of the grid on each scale.
const STEPS: u32 = 4;

/// Colours for a light page and for a dark one. The picture paints its own ground, so it can be read on either.
const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .scenario { font-weight: 600 }
    .small { font-size: 11px; fill: #59636e }
    .ground { fill: #ffffff }
    .grid { stroke: #d1d9e0; stroke-width: 1 }
    .free { fill: #54aeff }
    .strict { fill: #bc4c00 }
    .other { fill: #818b98 }
    .deviation { stroke: #1f2328; stroke-width: 1.5 }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .small { fill: #9198a1 }
      .ground { fill: #0d1117 }
      .grid { stroke: #3d444d }
      .free { fill: #1f6feb }
      .strict { fill: #f0883e }
      .other { fill: #656c76 }
      .deviation { stroke: #f0f6fc }
    }
";

/// The whole picture.
pub(crate) fn picture(tables: &[Table]) -> String {
    let height = TOP + tables.iter().map(height_of).sum::<f64>() + 8.0;
    let mut picture = Picture(String::new());
    picture.element(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">"
    ));
    let title = "Affinity scopes: SHA-512 of 32 KiB blocks";
    picture.element(&format!("<title>{title}</title>"));
    picture.element(&format!("<style>\n{STYLE}  </style>"));
    picture.element(&format!("<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>"));
    picture.label(16.0, 28.0, "title", "start", title);
    let runs = tables.first().map_or(0, |table| table.runs);
    let summary =
        format!("MiB/s, mean and standard deviation of {runs} runs; CPU utilisation; against the best row");
    picture.label(16.0, 50.0, "small", "start", &summary);
    picture.legend();
    let mut top = TOP;
    for table in tables {
        picture.scenario(table, top);
        top += height_of(table);
    }
    picture.0.push_str("</svg>\n");
    picture.0
}

fn height_of(table: &Table) -> f64 {
    TITLE + ROW * table.lines.len() as f64 + 32.0
}

/// A round number that no bar exceeds.
fn scale(table: &Table) -> f64 {
    let most = table.lines.iter().map(|line| line.bandwidth.mean + line.bandwidth.deviation);
    let most = most.fold(1.0, f64::max);
    let step = 10_f64.powf(most.log10().floor()) / 2.5;
    (most / step).ceil() * step
}

fn class_of(line: &Line) -> &'static str {
    match line.row.role {
        Role::Competes if line.row.strict => "strict",
        Role::Competes => "free",
        Role::Again | Role::Limit => "other",
    }
}

struct Picture(String);

impl Picture {
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
        let labels = [("free", "not strict"), ("strict", "strict"), ("other", "for comparison")];
        let mut x = WIDTH - 320.0;
        for (class, text) in labels {
            self.element(&format!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"60\" width=\"14\" height=\"14\" rx=\"2\"/>"
            ));
            self.label(x + 20.0, 71.5, "small", "start", text);
            x += 40.0 + 6.0 * text.len() as f64;
        }
    }

    fn scenario(&mut self, table: &Table, top: f64) {
        let scenario = &table.scenario;
        let title = format!("Scenario {}: {}", scenario.number, scenario.title);
        self.label(16.0, top + 18.0, "scenario", "start", &title);
        self.label(16.0, top + 34.0, "small", "start", &scenario.load());
        let (scale, first) = (scale(table), top + TITLE);
        let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value / scale;
        let bottom = first + ROW * table.lines.len() as f64;
        for step in 0..=STEPS {
            let value = scale * f64::from(step) / f64::from(STEPS);
            self.line("grid", (x(value), first), (x(value), bottom + 4.0));
            self.label(x(value), bottom + 18.0, "small", "middle", &format!("{value:.0}"));
        }
        for (number, line) in table.lines.iter().enumerate() {
            self.bar(line, first + ROW * number as f64, x);
        }
    }

    fn bar(&mut self, line: &Line, top: f64, x: impl Fn(f64) -> f64) {
        let (y, middle) = (top + (ROW - BAR) / 2.0, top + ROW / 2.0);
        let spread = line.bandwidth;
        self.label(LEFT - 10.0, middle + 4.5, "name", "end", &line.row.name);
        self.element(&format!(
            "<rect class=\"{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR:.1}\"/>",
            class_of(line),
            x(0.0),
            x(spread.mean) - x(0.0)
        ));
        let (low, high) = (x((spread.mean - spread.deviation).max(0.0)), x(spread.mean + spread.deviation));
        self.line("deviation", (low, middle), (high, middle));
        for end in [low, high] {
            self.line("deviation", (end, middle - 4.0), (end, middle + 4.0));
        }
        let best = line.to_best.map_or("best".into(), |ratio| format!("{} %", table::loss(&ratio)));
        let text = format!("{:.0} MiB/s, {:.1} % CPU, {best}", spread.mean, line.utilisation.mean);
        self.label(WIDTH - RIGHT + 14.0, middle + 4.5, "small", "start", &text);
    }
}
