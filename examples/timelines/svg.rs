//! A picture of a timeline: a lane per item, the documented times above the measured ones.

use std::fmt::Write;

use crate::measure::Measured;
use crate::scenario::{ITEMS, Timeline, Times};

const WIDTH: f64 = 820.0;
const LEFT: f64 = 132.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 76.0;
const LANE: f64 = 62.0;
const DOCUMENTED_HEIGHT: f64 = 12.0;
const MEASURED_HEIGHT: f64 = 24.0;
/// The axis reaches as far in every picture, so that they can be compared side by side; farther only if it must.
const AXIS: f64 = 55.0;
const STEP: f64 = 5.0;

/// Colours for a light page and for a dark one. The picture paints its own ground, so it can be read on either.
const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .small { font-size: 11px; fill: #59636e }
    .ground { fill: #ffffff }
    .grid { stroke: #d1d9e0; stroke-width: 1 }
    .burn { fill: #bc4c00 }
    .sleep { fill: #54aeff }
    .documented { opacity: 0.4 }
    .waits { stroke: #818b98; stroke-width: 1.5; stroke-dasharray: 2 4 }
    .end { stroke: #1f2328; stroke-width: 2 }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .small { fill: #9198a1 }
      .ground { fill: #0d1117 }
      .grid { stroke: #3d444d }
      .burn { fill: #f0883e }
      .sleep { fill: #1f6feb }
      .documented { opacity: 0.5 }
      .waits { stroke: #9198a1 }
      .end { stroke: #f0f6fc }
    }
";

/// The whole picture.
pub(crate) fn picture(timeline: &Timeline, measured: &Measured, runs: usize) -> String {
    let bottom = TOP + LANE * ITEMS.len() as f64;
    let height = bottom + 52.0;
    let last = (measured.makespan / STEP).ceil() * STEP;
    let mut picture = Picture { text: String::new(), axis: last.max(AXIS) };
    picture.element(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">"
    ));
    let title = format!("({}) {}", timeline.key, escaped(timeline.title));
    let summary = format!("makespan {:.1} ms, documented {} ms", measured.makespan, timeline.makespan());
    picture.element(&format!("<title>{title}: {summary}</title>"));
    picture.element(&format!("<style>\n{STYLE}  </style>"));
    picture.element(&format!("<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>"));
    picture.label(16.0, 28.0, "title", "start", &title);
    let medians = if runs == 1 { "one run".into() } else { format!("medians of {runs} runs") };
    picture.label(16.0, 50.0, "small", "start", &format!("{summary}; {medians}"));
    picture.legend();
    picture.axis(bottom);
    for (item, name) in ITEMS.iter().enumerate() {
        let y = TOP + LANE * item as f64;
        picture.label(16.0, y + 34.0, "name", "start", name);
        picture.label(LEFT - 10.0, y + 18.0, "small", "end", "documented");
        picture.label(LEFT - 10.0, y + 40.0, "small", "end", "measured");
        picture.lane(&timeline.documented[item], y + 8.0, DOCUMENTED_HEIGHT, "documented");
        picture.lane(&measured.items[item], y + 24.0, MEASURED_HEIGHT, "measured");
    }
    picture.text.push_str("</svg>\n");
    picture.text
}

struct Picture {
    text: String,
    /// The last time on it.
    axis: f64,
}

impl Picture {
    fn element(&mut self, element: &str) {
        let indent = if element.starts_with("<svg") { "" } else { "  " };
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{indent}{element}");
    }

    fn label(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        self.element(&format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// Where a time lies.
    fn x(&self, time: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * time / self.axis
    }

    fn legend(&mut self) {
        let y = 39.0;
        for (x, class, text) in [(WIDTH - 190.0, "burn", "burns CPU"), (WIDTH - 90.0, "sleep", "sleeps")] {
            self.element(&format!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\" rx=\"2\"/>"
            ));
            self.label(x + 20.0, y + 11.5, "small", "start", text);
        }
    }

    fn axis(&mut self, bottom: f64) {
        for step in 0..=(self.axis / STEP) as u32 {
            let time = f64::from(step) * STEP;
            let x = self.x(time);
            self.element(&format!(
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\"/>",
                bottom + 6.0
            ));
            self.label(x, bottom + 22.0, "small", "middle", &format!("{time}"));
        }
        self.label(
            self.x(self.axis / 2.0),
            bottom + 42.0,
            "small",
            "middle",
            "milliseconds since w0 was queued",
        );
    }

    /// What an item did: waited to start, burned, slept, burned, finished.
    fn lane(&mut self, times: &Times, y: f64, height: f64, class: &str) {
        let middle = y + height / 2.0;
        self.element(&format!("<g class=\"{class}\">"));
        if times.start > 0.5 {
            self.element(&format!(
                "  <line class=\"waits\" x1=\"{:.1}\" y1=\"{middle:.1}\" x2=\"{:.1}\" y2=\"{middle:.1}\"/>",
                self.x(0.0),
                self.x(times.start)
            ));
        }
        let segments = [
            ("burn", times.start, times.sleep),
            ("sleep", times.sleep, times.wake),
            ("burn", times.wake, times.finish),
        ];
        for (kind, from, to) in segments {
            self.element(&format!(
                "  <rect class=\"{kind}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                self.x(from),
                self.x(to) - self.x(from)
            ));
        }
        self.element(&format!(
            "  <line class=\"end\" x1=\"{0:.1}\" y1=\"{y:.1}\" x2=\"{0:.1}\" y2=\"{1:.1}\"/>",
            self.x(times.finish),
            y + height
        ));
        self.element("</g>");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
