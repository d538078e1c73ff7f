//! The tables and the slices (measurements of one row) as CSV. Only the names of rows need quotes.

use std::fmt::Write;

use super::report::{Measured, Table};
use super::stats::Ratio;

/// Returns a line for each row of each table. Ratios and shares are fractions of 1, and missing values are empty.
pub(crate) fn summary(tables: &[Table]) -> String {
    let mut text = String::from(
        "scenario,issuers,window,cpus,runs,affinity,mib_per_s,mib_per_s_sd,cpu_percent,cpu_percent_sd,\
         to_best,to_best_low,to_best_high,to_static,to_static_low,to_static_high,\
         items_home,items_away,items_crowded_out\n",
    );
    for table in tables {
        let of = &table.scenario;
        for line in &table.lines {
            let (bandwidth, cpu, placed) = (line.bandwidth, line.utilisation, line.placed);
            // Writing to a string cannot fail, so the result is ignored.
            let _ = writeln!(
                text,
                "{},{},{},{},{},\"{}\",{:.3},{:.3},{:.3},{:.3},{},{},{},{},{}",
                of.number,
                of.issuers,
                of.window,
                of.cpus,
                table.runs,
                line.row.name,
                bandwidth.mean,
                bandwidth.deviation,
                cpu.mean,
                cpu.deviation,
                ratio(line.to_best),
                ratio(line.to_limit),
                placed.home,
                placed.away,
                placed.crowded_out
            );
        }
    }
    text
}

/// Returns a line for each slice, in the order of rounds.
pub(crate) fn slices(measured: &[Measured]) -> String {
    let mut text = String::from("scenario,affinity,run,round,blocks,seconds,mib_per_s,cpu_percent\n");
    for of in measured {
        for (row, slices) in &of.rows {
            for (place, slice) in slices.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "{},\"{}\",{},{},{},{:.6},{:.3},{:.3}",
                    of.scenario.number,
                    row.name,
                    place / of.rounds + 1,
                    place % of.rounds + 1,
                    slice.blocks,
                    slice.seconds,
                    slice.bandwidth(),
                    100.0 * slice.utilisation
                );
            }
        }
    }
    text
}

fn ratio(ratio: Option<Ratio>) -> String {
    ratio.map_or(",,".into(), |ratio| format!("{:.5},{:.5},{:.5}", ratio.estimate, ratio.low, ratio.high))
}
