//! The comparison in README agrees with `docs/benchmarks.md`: it has the same commit and the same values.

use std::collections::HashMap;
use std::fs;

use super::promises::read;
use super::root;

/// A row of README: its title, the case and the column of the page that it comes from, its unit, and cmwq's row.
struct Row {
    title: &'static str,
    case: &'static str,
    column: &'static str,
    unit: &'static str,
    cmwq: &'static str,
}

const fn row(title: &'static str, case: &'static str, column: &'static str, unit: &'static str) -> Row {
    Row { title, case, column, unit, cmwq: "cmwq" }
}

const fn undeclared(row: Row) -> Row {
    Row { cmwq: "cmwq-undeclared", ..row }
}

/// The unit of rates, which the page gives in thousands.
const RATE: &str = "million/s";

const ROWS: &[Row] = &[
    row(
        "4000 items of 0.5 ms CPU time, every fourth then sleeps 5 ms (ideal: 1 ×)",
        "mixed",
        "of the ideal, ×",
        "×",
    ),
    row("the same: threads", "mixed", "threads", ""),
    row("4000 items of 0.5 ms CPU time (ideal: 1 ×)", "cpu", "of the ideal, ×", "×"),
    row("as many items as CPUs wait for a later one, p50", "dep", "p50, ms", "ms"),
    row("2000 sleeps of 10 ms, 512 at a time", "block/512", "time, ms", "ms"),
    undeclared(row("the same, in cmwq without guards", "block/512", "time, ms", "ms")),
    row("short items beside items of 50 ms, p99 (1)", "hog", "p99, ms", "ms"),
    undeclared(row("the same, in cmwq on one default queue", "hog", "p99, ms", "ms")),
    row("urgent items behind a backlog, p99 (2)", "priority", "p99, ms", "ms"),
    row("100 libraries with a queue or pool each: threads", "tenants", "threads", ""),
    row("queue an item on an idle machine: until it starts, p50", "latency", "p50, µs", "µs"),
    row("queue an item, and wait for its result, again and again, p50 (3)", "roundtrip", "p50, µs", "µs"),
    row("items that do nothing, one producer", "empty/1", "items, k/s", RATE),
    row("items that each queue ten others", "fanout", "items, k/s", RATE),
    row("one issuer per CPU queues an item and waits, again and again", "issuers", "items, k/s", RATE),
];

const RIVALS: [&str; 3] = ["threadpool", "rayon", "tokio-blocking"];

const HEAD: &str = "|---|---|---|---|---|\n";

/// Returns the medians of the page, by case, rival and column.
fn medians(page: &str) -> HashMap<(&str, &str, &str), &str> {
    let mut medians = HashMap::new();
    for section in page.split("\n## ").skip(1) {
        let (case, lines) = section.split_once('\n').expect("a section has a table");
        let mut heads = Vec::new();
        for line in lines.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = line.split('|').map(|cell| cell.trim().trim_matches('*')).collect();
            if cells[1] == "rival" {
                heads = cells;
                continue;
            }
            for (head, cell) in heads.iter().zip(&cells).skip(2) {
                let median = cell.split(" ±").next().unwrap_or_default();
                medians.entry((case, cells[1], *head)).or_insert(median);
            }
        }
    }
    medians
}

/// Returns a cell of README. Also returns its value if the rival has finished.
fn cell(medians: &HashMap<(&str, &str, &str), &str>, row: &Row, rival: &str) -> (String, Option<f64>) {
    let is_stuck = medians
        .iter()
        .any(|((case, name, _), text)| (*case, *name) == (row.case, rival) && text.starts_with("stuck"));
    if is_stuck {
        return ("stuck".into(), None);
    }
    let text = medians.get(&(row.case, rival, row.column)).copied();
    let text = text.unwrap_or_else(|| panic!("{} has no {} of {rival}", row.case, row.column));
    let value: f64 = text.parse().unwrap_or_else(|_| panic!("{} of {rival}: {text}", row.case));
    let shown = match row.unit {
        RATE if value < 1000.0 => format!("{:.2}", value / 1000.0),
        RATE => format!("{:.1}", value / 1000.0),
        _ => text.into(),
    };
    (format!("{shown} {}", row.unit).trim_end().into(), Some(value))
}

/// Returns a line of README. Its worst cells are bold.
fn line(medians: &HashMap<(&str, &str, &str), &str>, row: &Row) -> String {
    let rivals = [row.cmwq].into_iter().chain(RIVALS);
    let cells: Vec<_> = rivals.map(|rival| cell(medians, row, rival)).collect();
    let badness = |value: &Option<f64>| match value {
        None => f64::INFINITY,
        Some(value) if row.unit == RATE => -value,
        Some(value) => *value,
    };
    let worst = cells.iter().max_by(|one, other| badness(&one.1).total_cmp(&badness(&other.1)));
    let worst = worst.map(|(text, _)| text.as_str()).unwrap_or_default();
    let shown =
        cells.iter().map(|(text, _)| if text == worst { format!("**{text}**") } else { text.clone() });
    format!("| {} | {} |\n", row.title, shown.collect::<Vec<_>>().join(" | "))
}

/// Returns the text between two marks.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("README has {begin:?}"));
    rest.split_once(end).unwrap_or_else(|| panic!("README has {end:?} after it")).0
}

/// With `CMWQ_BLESS=1`, this test writes the table anew. It does not write the sentences beside the table.
#[test]
fn readme_shows_the_values_of_the_page_of_all_tables() {
    let (page, readme) = (read("docs/benchmarks.md"), read("README.md"));
    let medians = medians(&page);
    let expected: String = ROWS.iter().map(|row| line(&medians, row)).collect();
    let commit = between(&page, "\n| commit | ", " |");
    let named = between(&readme, "Measured at ", " by `make rivals`");
    let (_, table) = between(&readme, "## Compared with other pools", "\n\nMeasured at")
        .split_once(HEAD)
        .expect("README has the table");
    let table = format!("{table}\n");
    if table == expected && commit.starts_with(named) {
        return;
    }
    if std::env::var_os("CMWQ_BLESS").is_some() {
        let blessed = readme.replace(&table, &expected);
        let blessed = blessed.replace(
            &format!("Measured at {named} by `make rivals`"),
            &format!("Measured at {} by `make rivals`", &commit[..8]),
        );
        fs::write(root().join("README.md"), blessed).expect("README can be written");
        return;
    }
    panic!("README's table is not that of docs/benchmarks.md at {commit}:\n{table}\ninstead of\n{expected}");
}
