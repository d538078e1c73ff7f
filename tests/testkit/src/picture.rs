//! The common parts of all pictures: background, colours, labels, lines and bars.

use std::fmt::{Arguments, Write};

/// The width of every picture.
pub const WIDTH: f64 = 820.0;

/// Colours for light and for dark pages. The picture paints its own background, so it is readable on both.
const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-size: 16px; font-weight: 600 }
    .strong { font-weight: 600 }
    .small { font-size: 11px; fill: #59636e }
    .ground { fill: #ffffff }
    .grid { stroke: #d1d9e0; stroke-width: 1 }
    .blue { fill: #54aeff }
    .orange { fill: #bc4c00 }
    .grey { fill: #818b98 }
    .pale { opacity: 0.45 }
    .mark { stroke: #1f2328; stroke-width: 1.5 }
    .dotted { stroke: #818b98; stroke-width: 1.5; stroke-dasharray: 2 4 }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .small { fill: #9198a1 }
      .ground { fill: #0d1117 }
      .grid { stroke: #3d444d }
      .blue { fill: #1f6feb }
      .orange { fill: #f0883e }
      .grey { fill: #656c76 }
      .mark { stroke: #f0f6fc }
      .dotted { stroke: #9198a1 }
    }
";

/// A picture that is being drawn. Coordinates are pixels from the upper left corner. Text may contain any characters.
pub struct Picture(String);

impl Picture {
    /// Begins a picture with a background and a title.
    pub fn begin(title: &str, height: f64) -> Self {
        let mut picture = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\">\n"
        ));
        picture.element(format_args!("<title>{}</title>", escaped(title)));
        picture.element(format_args!("<style>\n{STYLE}  </style>"));
        picture
            .element(format_args!("<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>"));
        picture.label("title", (16.0, 28.0), "start", title);
        picture
    }

    /// Ends the picture, and returns its SVG.
    pub fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    /// Draws a text. `anchor` says which point of the text is at the position: `start`, `middle` or `end`.
    pub fn label(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escaped(text);
        self.element(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// Draws a line between two points.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.element(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// Draws a filled rectangle with this upper left corner and this size.
    pub fn bar(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.element(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        ));
    }

    /// Draws a line from the low to the high end of the measured values, with a cross-stroke at each end.
    pub fn range(&mut self, y: f64, low: f64, high: f64) {
        self.line("mark", (low, y), (high, y));
        for end in [low, high] {
            self.line("mark", (end, y - 4.0), (end, y + 4.0));
        }
    }

    /// Draws the legend. `colours` has the class, the meaning and the position of each colour.
    pub fn legend(&mut self, y: f64, colours: &[(&str, &str, f64)]) {
        for (class, text, x) in colours {
            self.bar(class, (*x, y), (12.0, 12.0));
            self.label("small", (x + 17.0, y + 10.0), "start", text);
        }
    }

    fn element(&mut self, element: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "  {element}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
