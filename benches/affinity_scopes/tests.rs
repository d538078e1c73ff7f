//! Tests of the parts of this bench whose errors would go unnoticed: its statistics, plan, command line and tables.
//! This file is the root of a test program of its own, because a bench without a harness has no tests.
#![allow(dead_code, reason = "the bench uses the rest")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests stand in for a user")]

mod args;
mod block;
mod csv;
mod figures;
mod machine;
mod placement;
mod plan;
mod report;
mod stats;
mod svg;
mod table;

use std::collections::BTreeSet;
use std::time::Duration;

use cmwq::AffinityScope;
use fastrand::Rng;

use args::{Args, Command};
use block::{Block, Digests};
use placement::{Placed, Pods};
use report::{Measured, Slice, Table};
use stats::{Ratio, Spread};

// Statistics.

#[test]
fn a_spread_is_mean_and_sample_deviation() {
    let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
    assert!((spread.mean - 5.0).abs() < 1e-12);
    assert!((spread.deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    assert_eq!(Spread::of(&[3.0]), Spread { mean: 3.0, deviation: 0.0 });
}

#[test]
fn a_ratio_compares_pairs_even_if_both_drift() {
    // The machine becomes five times as fast during the measurement. The two values of each pair differ by 2 %.
    let to: Vec<f64> = (0..50).map(|slice| 100.0 + 8.0 * f64::from(slice)).collect();
    let of: Vec<f64> = to.iter().map(|value| 0.98 * value).collect();
    let ratio = Ratio::of_pairs(&of, &to);
    assert!((ratio.estimate - 0.98).abs() < 1e-9 && ratio.half_width() < 1e-9, "{ratio:?}");
    // The geometric mean of the ratios does not depend on which side is the reference.
    let (one, other) = (Ratio::of_pairs(&[1.0, 4.0], &[2.0, 1.0]), Ratio::of_pairs(&[2.0, 1.0], &[1.0, 4.0]));
    assert!((one.estimate * other.estimate - 1.0).abs() < 1e-12);
}

#[test]
fn an_interval_holds_the_truth_nineteen_times_in_twenty() {
    let mut random = Rng::with_seed(1);
    // The noise is nearly normal, with a deviation of 5 %: the sum of 12 numbers between 0 and 1 has a variance of 1.
    let mut noisy = |mean: f64| {
        let sum: f64 = (0..12).map(|_| random.f64()).sum();
        mean * (1.0 + 0.05 * (sum - 6.0))
    };
    let (mut held, mut width) = (0, 0.0);
    for _ in 0..60 {
        let to: Vec<f64> = (0..40).map(|_| noisy(100.0)).collect();
        let of: Vec<f64> = (0..40).map(|_| noisy(99.0)).collect();
        let ratio = Ratio::of_pairs(&of, &to);
        held += usize::from((ratio.low..=ratio.high).contains(&0.99));
        width += ratio.half_width() / 60.0;
    }
    assert!((52..=60).contains(&held), "{held} of 60");
    // The expected half-width is 1.96 × 5 % × √2 / √40, and a little more, because half of the pairs serve only to find
    // the middle.
    assert!((0.018..0.028).contains(&width), "{width}");
}

#[test]
fn a_single_mishap_does_not_change_a_ratio() {
    let to = vec![100.0; 20];
    let of: Vec<f64> = (0..20).map(|slice| if slice % 5 == 0 { 30.0 } else { 101.0 }).collect();
    let ratio = Ratio::of_pairs(&of, &to);
    assert!((ratio.estimate - 1.01).abs() < 1e-9, "{ratio:?}");
    // The expected value is computed by hand. Of three sorted values, the middle one counts fully and each of the other
    // two counts a quarter, so the sum is divided by 1.5.
    let ratio = Ratio::of_pairs(&[1.0, 2.0, 8.0], &[1.0, 1.0, 1.0]);
    assert!((ratio.estimate.log2() - (0.25 * 0.0 + 1.0 + 0.25 * 3.0) / 1.5).abs() < 1e-9, "{ratio:?}");
}

// The plan.

#[test]
fn scenarios_keep_their_meaning_on_any_number_of_cpus() {
    let load = |cpus| plan::scenarios(cpus).map(|scenario| (scenario.issuers, scenario.window));
    assert_eq!(load(24), [(24, 64), (8, 64), (4, 6)], "the machine of the kernel's documentation");
    assert_eq!(load(2), [(2, 64), (1, 64), (1, 2)]);
    assert_eq!(load(1), [(1, 64), (1, 64), (1, 1)]);
    for cpus in 1..300 {
        let [all, third, sixth] = plan::scenarios(cpus);
        assert_eq!(all.issuers, cpus);
        assert!(third.issuers <= cpus && third.issuers * third.window >= 12 * cpus, "{cpus} CPUs: saturated");
        assert!(sixth.issuers * sixth.window <= cpus, "{cpus} CPUs: the CPUs are not saturated");
    }
}

#[test]
fn each_cpu_takes_its_turn_as_an_issuers_cpu() {
    for cpus in [1, 2, 6, 24] {
        for scenario in plan::scenarios(cpus) {
            let cycle = cpus / scenario.issuers;
            let mut issued = vec![0; cpus];
            for round in 0..3 * cycle {
                let order = scenario.cpus_of_round(round);
                assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), cpus, "all CPUs, once");
                order[..scenario.issuers].iter().for_each(|cpu| issued[*cpu] += 1);
            }
            assert_eq!(issued, vec![3; cpus], "{scenario:?}");
        }
    }
}

#[test]
fn the_smallest_divided_scope_stands_in_for_a_cache_that_is_one_pod() {
    let names = |pods: fn(AffinityScope) -> usize| -> Vec<String> {
        plan::rows(pods).into_iter().map(|row| row.name).collect()
    };
    let usual = ["system", "cache", "cache (strict)", "system, again", "static partition"];
    assert_eq!(names(|scope| if scope == AffinityScope::System { 1 } else { 4 }), usual);
    assert_eq!(names(|_| 1), usual, "a single CPU cannot be divided");
    let one_cache = names(|scope| match scope {
        AffinityScope::Cpu => 8,
        AffinityScope::Smt => 4,
        _ => 1,
    });
    assert_eq!(one_cache[3..5], ["cpu", "cpu (strict)"]);
}

// The workload.

#[test]
fn a_block_that_was_not_hashed_is_noticed() {
    let digests = Digests::new();
    let mut block = Block::new();
    for number in [0, 63, 64, 1000] {
        block.fill(number);
        block.hash();
        block.compare(&digests);
    }
    block.fill(5);
    let missed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| block.compare(&digests)));
    assert!(missed.is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn placement_counts_items_whose_pod_had_room() {
    // This thread runs in pod 0, which has the CPUs 0 to 4095. Pod 1 has only CPU 5000.
    let cpus: Vec<usize> = (0..4096).collect();
    let pods = Pods::new(&[cpus, vec![5000]]);
    assert_eq!(pods.here(), 0);
    let at_home = pods.started(pods.queued(0));
    assert_eq!(at_home.placed, Placed { home: 1, away: 0, crowded_out: 0 });
    let (away, crowded) = (pods.queued(1), pods.queued(1));
    assert_eq!(
        pods.started(crowded).placed,
        Placed::default(),
        "the pod had no room when the item was queued"
    );
    assert_eq!(pods.started(away).placed, Placed { home: 0, away: 1, crowded_out: 0 }, "the pod was empty");
    let away = pods.queued(1);
    pods.wakes(1);
    assert_eq!(
        pods.started(away).placed,
        Placed { home: 0, away: 0, crowded_out: 1 },
        "the issuer was in the pod"
    );
    pods.sleeps(1);
    pods.ended(&at_home);
}

// The command line.

fn parse(line: &[&str]) -> Result<Args, String> {
    match Command::parse(lexopt::Parser::from_args(line)) {
        Ok(Command::Run(args)) => Ok(args),
        Ok(Command::Print(text)) => Err(text),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn the_command_line_is_parsed_and_can_be_typed_again() {
    let args =
        parse(&["--quick", "--topology=l3:2 core:1 pu:1", "--scenario", "3", "--slice", "50", "--bench"]);
    let args = args.unwrap();
    assert_eq!((args.rounds, args.runs, args.smoke), (6, 5, false));
    assert_eq!((args.scenarios, args.slice), (vec![3], Duration::from_millis(50)));
    let line = "cargo bench --bench affinity_scopes -- --quick --topology 'l3:2 core:1 pu:1' --scenario 3 --slice 50";
    assert_eq!(args.line, line);
    let plain = parse(&["--bench"]).unwrap();
    assert_eq!((plain.rounds, plain.scenarios, plain.csv), (60, vec![1, 2, 3], false));
    assert_eq!(plain.line, "cargo bench --bench affinity_scopes");
    let smoke = parse(&[]).unwrap();
    assert!(smoke.smoke && smoke.runs == 1, "`cargo test --benches` runs each bench once");
}

#[test]
fn errors_of_wrong_arguments_say_what_is_permitted() {
    for (line, says) in [
        (&["--runs", "0"][..], "--runs is a number from 1 to 1000, not '0'"),
        (&["--scenario", "4"], "--scenario is a number from 1 to 3, not '4'"),
        (&["--slice", "short"], "--slice is a number from 1 to 10000, not 'short'"),
        (&["--topology"], "missing argument for option '--topology'"),
        (&["--sample-size", "20"], "invalid option '--sample-size'"),
        (&["cache"], "unexpected argument \"cache\""),
    ] {
        assert_eq!(parse(line).unwrap_err(), says);
    }
    assert!(parse(&["--help"]).unwrap_err().starts_with("Usage: "));
}

// Output.

/// Two runs of three rounds on two CPUs. Each row is slower than the one before it.
fn measured(number: usize) -> Measured {
    let scenario = plan::scenarios(2)[number - 1].clone();
    let rows = plan::rows(|scope| if scope == AffinityScope::Cpu { 2 } else { 1 });
    let slices = |place: usize| {
        (0..6).map(move |round| Slice {
            blocks: 3200,
            seconds: 0.1 * (1.0 + place as f64 / 100.0) * (1.0 + f64::from(round) / 1000.0),
            utilisation: 0.9,
            placed: Placed { home: 99, away: 1, crowded_out: 5 },
        })
    };
    let rows = rows.into_iter().enumerate().map(|(place, row)| (row, slices(place).collect())).collect();
    Measured { scenario, rounds: 3, rows }
}

#[test]
fn tables_show_runs_ratios_and_noise() {
    let table = Table::new(&measured(2));
    assert_eq!(table.runs, 2);
    let text = table::markdown(&[table]);
    let says = |line: &str| assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    says("Scenario 2: fewer issuers, enough work to saturate (1 issuer on 2 CPUs, 64 blocks)");
    says("| affinity         |         MiB/s | CPU util (%) | to the best (%) | at home (%) |");
    says("|------------------|--------------:|-------------:|----------------:|------------:|");
    says("| system           | 997.51 ± 2.11 | 90.00 ± 0.00 |            best |       99.00 |");
    says("| cache            | 987.63 ± 2.09 | 90.00 ± 0.00 |    −0.99 ± 0.00 |       99.00 |");
    says(
        "Noise of this machine: system and system, again are the same, and are −4.76 ± 0.00 % apart (95 % interval).",
    );
}

#[test]
fn figures_mark_missed_aims() {
    let tables: Vec<Table> = (1..=3).map(|number| Table::new(&measured(number))).collect();
    let text = figures::text(&tables);
    let line =
        |begins: &str| text.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{text}"));
    assert!(
        line("scenario 1: cpu against the best row").ends_with("−2.91 ± 0.00 % (97.09 to 97.09)  MISSED")
    );
    assert!(line("scenario 1: cpu against the static partition").ends_with("102.91 ± 0.00 %"));
    assert!(line("scenario 3: cpu (strict) against the best row").ends_with("−3.85 ± 0.00 %"));
    assert!(line("scenario 3: cpu, items that start at home").ends_with("99.00 % of 600"));
}

#[test]
fn csv_has_as_many_fields_in_every_line() {
    let tables = [Table::new(&measured(3))];
    let fields = |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>();
    for text in [csv::summary(&tables), csv::slices(&[measured(3)])] {
        let counts: BTreeSet<usize> = text.lines().map(fields).collect();
        assert_eq!(counts.len(), 1, "{text}");
    }
    assert_eq!(csv::summary(&tables).lines().count(), 1 + 7);
    assert_eq!(csv::slices(&[measured(3)]).lines().count(), 1 + 7 * 6);
}

#[test]
fn the_picture_has_a_bar_for_each_row() {
    let tables: Vec<Table> = (1..=3).map(|number| Table::new(&measured(number))).collect();
    let picture = svg::picture(&tables);
    assert_eq!(
        picture.matches("<rect class=\"orange\"").count(),
        3 * 2 + 1,
        "each bar, and one entry of the legend"
    );
    assert_eq!(picture.matches("<rect class=\"grey\"").count(), 3 * 2 + 1);
    assert_eq!(picture.matches("class=\"mark\"").count(), 3 * 7 * 3);
    assert!(!picture.contains("NaN") && picture.ends_with("</svg>\n"));
}
