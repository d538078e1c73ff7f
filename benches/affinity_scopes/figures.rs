//! Figures and their aims.

use super::report::{Line, Table};
use super::table::loss;

/// The bounds of the interval of a non-strict scope's ratio to the best row. Its upper end must reach the first value,
/// its lower end the second value, and the third value bounds half its width.
const REACHES: f64 = 0.995;
const SURELY: f64 = 0.98;
const HALF_WIDTH: f64 = 0.015;
/// The part of the bandwidth without a queue that hashing through a queue must reach.
const OF_THE_PARTITION: f64 = 0.98;
/// The least part of the items that must start in their pod. Only items for which their pod has room count.
const AT_HOME: f64 = 0.99;

struct Figure {
    name: String,
    aim: String,
    measured: String,
    good: bool,
}

/// Returns a table with a line for each figure of the measured scenarios.
pub(crate) fn text(tables: &[Table]) -> String {
    let figures: Vec<Figure> = tables.iter().flat_map(of_scenario).collect();
    let width =
        |text: fn(&Figure) -> &str| figures.iter().map(|f| text(f).chars().count()).max().unwrap_or(0);
    let (names, aims) = (width(|f| &f.name).max(6), width(|f| &f.aim).max(8));
    let mut text = format!("{:<names$}  {:<aims$}  measured\n", "figure", "aim");
    for figure in &figures {
        let missed = if figure.good { "" } else { "  MISSED" };
        text += &format!("{:<names$}  {:<aims$}  {}{missed}\n", figure.name, figure.aim, figure.measured);
    }
    text
}

fn of_scenario(table: &Table) -> Vec<Figure> {
    let number = table.scenario.number;
    let Some((free, strict)) = table.divided() else { return Vec::new() };
    let mut figures = vec![against_the_best(number, free)];
    if number == 1 {
        figures.extend(against_the_partition(free));
    }
    if number == 3 {
        figures.push(loss_of(strict));
    }
    figures.extend(at_home(number, free));
    figures
}

/// Compares a row with the best row. The figure is good if the interval is narrow and high enough.
fn against_the_best(number: usize, line: &Line) -> Figure {
    let (measured, good) = match &line.to_best {
        None => ("it is the best".to_owned(), true),
        Some(ratio) => {
            let good = ratio.half_width() <= HALF_WIDTH && ratio.high >= REACHES && ratio.low >= SURELY;
            (format!("{} % ({:.2} to {:.2})", loss(ratio), 100.0 * ratio.low, 100.0 * ratio.high), good)
        }
    };
    Figure {
        name: format!("scenario {number}: {} against the best row", line.row.name),
        aim: "reaches 99.5 %, low end >= 98 %, +- <= 1.5 %".into(),
        measured,
        good,
    }
}

fn against_the_partition(line: &Line) -> Option<Figure> {
    let ratio = line.to_limit?;
    Some(Figure {
        name: format!("scenario 1: {} against the static partition", line.row.name),
        aim: ">= 98 %".into(),
        measured: format!("{:.2} ± {:.2} %", 100.0 * ratio.estimate, 100.0 * ratio.half_width()),
        good: ratio.estimate >= OF_THE_PARTITION,
    })
}

fn loss_of(line: &Line) -> Figure {
    let (measured, good) = match &line.to_best {
        None => ("it is the best".to_owned(), false),
        Some(ratio) => (format!("{} %", loss(ratio)), ratio.high < 1.0),
    };
    let name = format!("scenario 3: {} against the best row", line.row.name);
    Figure { name, aim: "shows its loss (documents: −16.7 %)".into(), measured, good }
}

fn at_home(number: usize, line: &Line) -> Option<Figure> {
    let share = line.placed.share()?;
    Some(Figure {
        name: format!("scenario {number}: {}, items that start at home", line.row.name),
        aim: ">= 99 %".into(),
        measured: format!("{:.2} % of {}", 100.0 * share, line.placed.home + line.placed.away),
        good: share >= AT_HOME,
    })
}
