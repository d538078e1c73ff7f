//! The rounds of a case. In each round every rival runs once, and the order of the rivals changes.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::args::Args;
use crate::bed::COMMON;
use crate::child::{Outcome, Task};
use crate::effort::Effort;
use crate::report::{CaseReport, Row};
use crate::rival::Entry;
use crate::workload::Case;
use testkit::stats::Spread;

/// Measures all requested cases.
pub(crate) fn measure(args: &Args) -> Vec<CaseReport> {
    let plans: Vec<_> =
        args.cases.iter().map(|case| (*case, rivals_of(case, args), rounds_of(case, args))).collect();
    let steps = plans.iter().map(|(_, rivals, rounds)| rivals.len() * rounds).sum::<usize>();
    let progress = progress(steps as u64);
    let mut random = Rng::with_seed(args.seed);
    let measured = plans.into_iter().filter(|(_, rivals, _)| !rivals.is_empty());
    let reports = measured
        .map(|(case, rivals, rounds)| {
            let begin = Instant::now();
            let report = measure_case(case, &rivals, rounds, args.effort, &mut random, &progress);
            // If no bar can be drawn, a line reports the progress.
            if progress.is_hidden() {
                let (done, name, seconds) = (progress.position(), case.name(), begin.elapsed().as_secs());
                eprintln!("{done}/{steps}: {name}, {} rivals, {rounds} rounds, {seconds} s", rivals.len());
            }
            report
        })
        .collect();
    progress.finish_and_clear();
    reports
}

fn rivals_of(case: &Case, args: &Args) -> Vec<&'static Entry> {
    args.rivals.iter().copied().filter(|rival| (case.takes)(&rival.can)).collect()
}

fn rounds_of(case: &Case, args: &Args) -> usize {
    let usual = if args.effort == Effort::Full { case.rounds } else { 1 };
    args.rounds.unwrap_or(usual)
}

fn measure_case(
    case: &'static Case,
    rivals: &[&'static Entry],
    rounds: usize,
    effort: Effort,
    random: &mut Rng,
    progress: &ProgressBar,
) -> CaseReport {
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); rivals.len()];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..rivals.len()).collect();
        random.shuffle(&mut order);
        for number in order {
            let rival = rivals[number];
            progress.set_message(format!("{}, {}", case.name(), rival.name));
            // A rival that was stuck once is not run again.
            if outcomes[number].iter().all(|outcome| matches!(outcome, Outcome::Done(_))) {
                let settles = case.settles && round == 0 && effort == Effort::Full;
                outcomes[number].push(Task { case, rival, effort, settles }.measure());
            }
            progress.inc(1);
        }
    }
    let rows = rivals.iter().zip(outcomes).map(|(rival, outcomes)| row(case, rival, outcomes)).collect();
    CaseReport::new(case, rounds, rows)
}

fn row(case: &Case, rival: &'static Entry, outcomes: Vec<Outcome>) -> Row {
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); case.measures.len() + COMMON.len()];
    let mut trouble = None;
    for outcome in outcomes {
        match outcome {
            Outcome::Done(values) => {
                let known = columns.iter_mut().zip(values);
                known.for_each(|(column, value)| column.extend(value));
            }
            Outcome::Stuck(seconds) => trouble = Some(format!("stuck after {seconds} s")),
            Outcome::Failed(reason) => trouble = Some(format!("failed: {reason}")),
        }
    }
    let cells = columns.iter().map(|values| Spread::of(values)).collect();
    Row { rival, cells, trouble }
}

/// A progress bar on standard error, if that is a terminal. It moves only once a second, because drawing takes CPU
/// time.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}: {msg}, {elapsed}");
    let bar = ProgressBar::new(steps).with_style(style.expect("the template is well-formed"));
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_secs(1));
    }
    bar
}
