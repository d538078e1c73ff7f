//! A picture of the tables, with a bar and its standard deviation for each row.

use super::plan::Role;
use super::report::{Line, Table};
use super::table;
use testkit::picture::{Picture, WIDTH};

const LEFT: f64 = 150.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 84.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
/// The space above the bars of each scenario.
const TITLE: f64 = 44.0;
/// The number of grid lines on each scale.
const STEPS: u32 = 4;

/// Returns the whole picture.
pub(crate) fn picture(tables: &[Table]) -> String {
    let height = TOP + tables.iter().map(height_of).sum::<f64>() + 8.0;
    let mut picture = Picture::begin("Affinity scopes: SHA-512 of 32 KiB blocks", height);
    let runs = tables.first().map_or(0, |table| table.runs);
    let summary =
        format!("MiB/s, mean and standard deviation of {runs} runs; CPU utilisation; against the best row");
    picture.label("small", (16.0, 50.0), "start", &summary);
    picture.legend(
        60.0,
        &[
            ("blue", "not strict", WIDTH - 320.0),
            ("orange", "strict", WIDTH - 220.0),
            ("grey", "for comparison", WIDTH - 145.0),
        ],
    );
    let mut top = TOP;
    for table in tables {
        scenario(&mut picture, table, top);
        top += height_of(table);
    }
    picture.end()
}

fn height_of(table: &Table) -> f64 {
    TITLE + ROW * table.lines.len() as f64 + 32.0
}

/// Returns a round number that no bar exceeds.
fn scale(table: &Table) -> f64 {
    let most = table.lines.iter().map(|line| line.bandwidth.mean + line.bandwidth.deviation);
    let most = most.fold(1.0, f64::max);
    let step = 10_f64.powf(most.log10().floor()) / 2.5;
    (most / step).ceil() * step
}

fn class_of(line: &Line) -> &'static str {
    match line.row.role {
        Role::Competes if line.row.strict => "orange",
        Role::Competes => "blue",
        Role::Again | Role::Limit => "grey",
    }
}

fn scenario(picture: &mut Picture, table: &Table, top: f64) {
    let scenario = &table.scenario;
    let title = format!("Scenario {}: {}", scenario.number, scenario.title);
    picture.label("strong", (16.0, top + 18.0), "start", &title);
    picture.label("small", (16.0, top + 34.0), "start", &scenario.load());
    let (scale, first) = (scale(table), top + TITLE);
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value / scale;
    let bottom = first + ROW * table.lines.len() as f64;
    for step in 0..=STEPS {
        let value = scale * f64::from(step) / f64::from(STEPS);
        picture.line("grid", (x(value), first), (x(value), bottom + 4.0));
        picture.label("small", (x(value), bottom + 18.0), "middle", &format!("{value:.0}"));
    }
    for (number, line) in table.lines.iter().enumerate() {
        bar(picture, line, first + ROW * number as f64, x);
    }
}

fn bar(picture: &mut Picture, line: &Line, top: f64, x: impl Fn(f64) -> f64) {
    let (y, middle) = (top + (ROW - BAR) / 2.0, top + ROW / 2.0);
    let spread = line.bandwidth;
    picture.label("name", (LEFT - 10.0, middle + 4.5), "end", &line.row.name);
    picture.bar(class_of(line), (x(0.0), y), (x(spread.mean) - x(0.0), BAR));
    picture.range(middle, x((spread.mean - spread.deviation).max(0.0)), x(spread.mean + spread.deviation));
    let best = line.to_best.map_or("best".into(), |ratio| format!("{} %", table::loss(&ratio)));
    let text = format!("{:.0} MiB/s, {:.1} % CPU, {best}", spread.mean, line.utilisation.mean);
    picture.label("small", (WIDTH - RIGHT + 14.0, middle + 4.5), "start", &text);
}
