//! A screen as an SVG.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

const FONT: f64 = 14.0;
const WIDTH: f64 = 8.43;
const HEIGHT: f64 = 18.0;
const MARGIN: f64 = 12.0;
/// The distance from the top of a cell to the baseline of the letters.
const BASE: f64 = 13.5;

const PAPER: &str = "#16181d";
const INK: &str = "#d5d8de";
const COLOURS: [&str; 16] = [
    "#16181d", "#f0616d", "#8ccf7e", "#e5c76b", "#5b8ae0", "#c47fd5", "#6cbfd0", "#c5c8ce", "#7a828f",
    "#f0616d", "#8ccf7e", "#e5c76b", "#5b8ae0", "#c47fd5", "#6cbfd0", "#ffffff",
];

/// The look of a cell. Neighbouring cells of the same look are drawn together.
#[derive(Clone, PartialEq)]
struct Look {
    ink: String,
    paper: Option<String>,
    bold: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let (mut ink, mut paper) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
        if cell.inverse() {
            (ink, paper) = (Some(paper.unwrap_or(PAPER.into())), Some(ink.unwrap_or(INK.into())));
        }
        Self { ink: ink.unwrap_or(INK.into()), paper, bold: cell.bold() }
    }
}

fn colour(colour: Color) -> Option<String> {
    match colour {
        Color::Default => None,
        Color::Idx(index @ 0..16) => Some(COLOURS[usize::from(index)].into()),
        // These colours are a cube of six shades of red, green and blue. The colours after them are greys.
        Color::Idx(index @ 16..232) => {
            let shade = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
            let index = index - 16;
            Some(rgb(shade(index / 36), shade(index / 6 % 6), shade(index % 6)))
        }
        Color::Idx(grey) => Some(rgb(8 + 10 * (grey - 232), 8 + 10 * (grey - 232), 8 + 10 * (grey - 232))),
        Color::Rgb(red, green, blue) => Some(rgb(red, green, blue)),
    }
}

fn rgb(red: u8, green: u8, blue: u8) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Draws the screen.
pub(crate) fn of(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let width = f64::from(columns.get()) * WIDTH + 2.0 * MARGIN;
    let height = f64::from(rows.get()) * HEIGHT + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\">\n<style>text {{ font: {FONT}px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', \
         monospace; white-space: pre; }}</style>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{PAPER}\"/>\n"
    );
    for y in 0..rows.get() {
        let cells: Vec<&Cell> = (0..columns.get()).filter_map(|x| screen.cell(y, x)).collect();
        let mut start = 0;
        while start < cells.len() {
            let look = Look::of(cells[start]);
            let same = cells[start..].iter().take_while(|cell| Look::of(cell) == look).count();
            run(&mut svg, &cells[start..start + same], &look, start, y);
            start += same;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws the background, the bars and the letters of cells with the same look.
fn run(svg: &mut String, cells: &[&Cell], look: &Look, start: usize, y: u16) {
    let left = |column: usize| MARGIN + column as f64 * WIDTH;
    let top = MARGIN + f64::from(y) * HEIGHT;
    if let Some(paper) = &look.paper {
        rectangle(svg, (left(start), top, cells.len() as f64 * WIDTH, HEIGHT), paper);
    }
    let mut text = String::new();
    let mut bars: Vec<(usize, f64)> = Vec::new();
    for (n, cell) in cells.iter().enumerate() {
        match cell.contents().chars().next() {
            // Blocks are characters of some eighths of a cell. A block is drawn as one bar with the blocks before it,
            // because fonts leave gaps.
            Some(block @ '█'..='▏') => {
                let eighths = f64::from(8 - (u32::from(block) - u32::from('█')));
                match bars.last_mut() {
                    Some((first, length)) if *first as f64 + *length == n as f64 => *length += eighths / 8.0,
                    _ => bars.push((n, eighths / 8.0)),
                }
                text.push(' ');
            }
            Some(_) => text.push_str(cell.contents()),
            None => text.push(' '),
        }
    }
    for (first, length) in bars {
        rectangle(svg, (left(start + first), top + 2.0, WIDTH * length, HEIGHT - 4.0), &look.ink);
    }
    // Each word is placed separately, so that it keeps its column with any font.
    let mut at = 0;
    for word in text.split_inclusive("  ") {
        let shown = word.trim_end();
        let indent = shown.chars().take_while(|c| *c == ' ').count();
        let letters = shown.chars().count() - indent;
        if letters > 0 {
            let bold = if look.bold { " font-weight=\"bold\"" } else { "" };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\"{bold}>{}</text>",
                left(start + at + indent),
                top + BASE,
                look.ink,
                letters as f64 * WIDTH,
                escape(shown.trim_start())
            );
        }
        at += word.chars().count();
    }
}

fn rectangle(svg: &mut String, (x, y, width, height): (f64, f64, f64, f64), fill: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
