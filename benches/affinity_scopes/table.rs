//! The tables, in Markdown.

use std::fmt::Write;

use super::plan::Role;
use super::report::{Line, Table};
use super::stats::{Ratio, Spread};

pub(crate) fn markdown(tables: &[Table]) -> String {
    let runs = tables.first().map_or(0, |table| table.runs);
    tables.iter().map(|table| one(table) + "\n").collect::<String>()
        + &format!(
            "± is the standard deviation over {runs} runs. Beside ratios to the best row, it is half of the 95 % interval of the \
             ratio in pairs.\nThe static partition has no queue: it is the limit, and no row to be the best.\n"
        )
}

fn one(table: &Table) -> String {
    let scenario = &table.scenario;
    let mut text = format!("Scenario {}: {} ({})\n\n", scenario.number, scenario.title, scenario.load());
    let head = ["affinity", "MiB/s", "CPU util (%)", "to the best (%)", "at home (%)"].map(String::from);
    let cells: Vec<[String; 5]> = std::iter::once(head).chain(table.lines.iter().map(cells)).collect();
    let widths: [usize; 5] =
        std::array::from_fn(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for (number, row) in cells.iter().enumerate() {
        let padded: Vec<String> = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(
                |(column, (cell, width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        // Writing to a string cannot fail, so the result is ignored.
        let _ = writeln!(text, "| {} |", padded.join(" | "));
        if number == 0 {
            let rules = widths.iter().enumerate().map(|(column, width)| {
                if column == 0 { "-".repeat(width + 2) } else { format!("{}:", "-".repeat(width + 1)) }
            });
            let _ = writeln!(text, "|{}|", rules.collect::<Vec<_>>().join("|"));
        }
    }
    text + &noise(table)
}

fn cells(line: &Line) -> [String; 5] {
    [
        line.row.name.clone(),
        spread(line.bandwidth),
        spread(line.utilisation),
        line.to_best.map_or("best".into(), |ratio| loss(&ratio)),
        line.placed.share().map_or("-".into(), |share| format!("{:.2}", 100.0 * share)),
    ]
}

pub(crate) fn spread(spread: Spread) -> String {
    format!("{:.2} ± {:.2}", spread.mean, spread.deviation)
}

/// Formats the deviation of a ratio from 1 in percent, with half the width of its interval.
pub(crate) fn loss(ratio: &Ratio) -> String {
    format!("{:+.2} ± {:.2}", 100.0 * (ratio.estimate - 1.0), 100.0 * ratio.half_width()).replace('-', "−")
}

fn noise(table: &Table) -> String {
    let Some(again) = table.lines.iter().find(|line| line.row.role == Role::Again) else {
        return String::new();
    };
    format!(
        "\nNoise of this machine: {} and {} are the same, and are {} % apart (95 % interval).\n",
        table.lines[0].row.name,
        again.row.name,
        loss(&again.to_first)
    )
}
