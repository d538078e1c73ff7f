//! Measures all rows of a scenario, which take turns.

use std::error::Error;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::Args;
use super::machine::Machine;
use super::plan::{self, Row, Scenario};
use super::report::Measured;
use super::slice::{Bed, Workload};

/// The pause between slices, so that the remaining work of one row's executor does not slow the next row.
const PAUSE: Duration = Duration::from_millis(2);

/// Measures the requested scenarios.
pub(crate) fn all(machine: &Machine, args: &Args) -> Result<Vec<Measured>, Box<dyn Error>> {
    let rows = plan::rows(|scope| machine.pods(scope).len());
    let scenarios = plan::scenarios(machine.cpus.len());
    let chosen: Vec<Scenario> =
        scenarios.into_iter().filter(|s| args.scenarios.contains(&s.number)).collect();
    let slices = chosen.len() * (args.runs * args.rounds + 1) * rows.len();
    let progress = progress(slices as u64);
    let measured = chosen.into_iter().map(|scenario| measure(machine, args, scenario, &rows, &progress));
    let measured = measured.collect();
    progress.finish_and_clear();
    measured
}

fn measure(
    machine: &Machine,
    args: &Args,
    scenario: Scenario,
    rows: &[Row],
    progress: &ProgressBar,
) -> Result<Measured, Box<dyn Error>> {
    progress.set_message(format!("scenario {}", scenario.number));
    let beds = rows.iter().map(|row| Bed::new(row, machine)).collect::<Result<Vec<_>, _>>()?;
    let mut workload = Workload::new(&scenario, args.slice);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let mut random = Rng::with_seed(scenario.number as u64);
    let mut slices = vec![Vec::new(); rows.len()];
    let warm_up = std::iter::once(None);
    for round in warm_up.chain((0..args.runs).flat_map(|_| (0..args.rounds).map(Some))) {
        let cpus = scenario.cpus_of_round(round.unwrap_or(0));
        let cpus: Vec<usize> = cpus.into_iter().map(|place| machine.cpus[place]).collect();
        random.shuffle(&mut order);
        for row in order.iter().copied() {
            let slice = workload.slice(&beds[row], &cpus);
            if round.is_some() {
                slices[row].push(slice);
            }
            progress.inc(1);
            thread::sleep(PAUSE);
        }
    }
    Ok(Measured { scenario, rounds: args.rounds, rows: rows.iter().cloned().zip(slices).collect() })
}

/// Makes a progress bar, which is hidden if standard error is no terminal. It is drawn only between slices.
fn progress(slices: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(slices), ProgressDrawTarget::stderr());
    let template = "{msg} {wide_bar} {percent}%, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
    bar
}
