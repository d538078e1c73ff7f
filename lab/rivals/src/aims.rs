//! The aims of cmwq on each workload, and the rows that it is compared with.
//!
//! Users that choose no kind of queue get the default queue. So each aim is about the row of the default queue, and the
//! tables only show the other kinds of queues.

use crate::report::{CaseReport, Row};
use crate::rival::{Entry, Part};
use crate::unit::{Better, Measure, Unit};
use testkit::stats::Spread;

struct Aim {
    /// The name of a case, or of a workload with several cases.
    workload: &'static str,
    /// The row of cmwq that the aim is about.
    ours: &'static str,
    measure: &'static str,
    bound: Bound,
}

enum Bound {
    /// Cmwq's row is at least this many times as good as the best row of a rival.
    Best(f64),
    /// The same bound without the row of the channel. The channel is threads that manage nothing, and has a bound of
    /// its own.
    BestPool(f64),
    /// Cmwq's row is at least this many times as good as the best pool whose workers may run on any CPU.
    Unpinned(f64),
    /// Cmwq's row is at least this many times as good as the best pool of which each user can have one of its own.
    OwnPool(f64),
    /// Cmwq's row is at least this many times as good as the channel.
    Floor(f64),
    /// Cmwq's row is at least this many times as good as the default queue with guards.
    Declared(f64),
    /// Cmwq's value is at most this one, in the unit of the measure.
    AtMost(f64),
    /// There are at most `per_cpu` threads for each CPU, plus `more`, plus one for each sleeping item if `asleep` is
    /// set.
    Threads { per_cpu: f64, more: f64, asleep: bool },
}

/// An aim, and its result.
pub(crate) struct Verdict {
    pub(crate) case: String,
    pub(crate) measure: &'static str,
    pub(crate) aim: String,
    /// The name of cmwq's row, and its value.
    pub(crate) ours: (&'static str, String),
    /// The other row, its value, and how many times as good cmwq's row is.
    pub(crate) other: Option<(&'static str, String, f64)>,
    /// The best kind of queue, its value, and how many times as good as the other row that kind is. `None` if cmwq's
    /// row is not that of the default queue, or if there is no other row.
    pub(crate) best_kind: Option<(&'static str, String, f64)>,
    pub(crate) standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Standing {
    /// The aim holds even with bad runs of cmwq and good runs of the rivals.
    Reached,
    /// The aim holds only with good runs of cmwq and bad runs of the rivals.
    Close,
    /// The aim does not hold even with good runs of cmwq and bad runs of the rivals.
    Missed,
}

impl Standing {
    /// `at_worst` says whether bad runs of cmwq reach the aim, and `at_best` whether good runs do.
    fn of(at_worst: bool, at_best: bool) -> Self {
        match (at_worst, at_best) {
            (true, _) => Self::Reached,
            (false, true) => Self::Close,
            (false, false) => Self::Missed,
        }
    }
}

const fn aim(workload: &'static str, ours: &'static str, measure: &'static str, bound: Bound) -> Aim {
    Aim { workload, ours, measure, bound }
}

const DEFAULT: &str = "cmwq";
/// The default queue with reusable items.
const REUSABLE: &str = "cmwq-reusable";
/// The default queue with items that enter no guards and set no flags.
const UNDECLARED: &str = "cmwq-undeclared";

static AIMS: &[Aim] = &[
    aim("empty/1", DEFAULT, "items", Bound::BestPool(1.5)),
    aim("empty/2", DEFAULT, "items", Bound::BestPool(1.3)),
    aim("empty/4", DEFAULT, "items", Bound::BestPool(1.2)),
    aim("empty", DEFAULT, "items", Bound::Floor(0.9)),
    aim("reuse", REUSABLE, "items", Bound::BestPool(1.5)),
    aim("batch", DEFAULT, "items", Bound::BestPool(1.7)),
    aim("latency", DEFAULT, "p50", Bound::Unpinned(1.0)),
    aim("latency", DEFAULT, "p50", Bound::BestPool(0.8)),
    aim("latency", DEFAULT, "p99", Bound::Unpinned(1.0)),
    aim("latency", DEFAULT, "p99", Bound::BestPool(0.8)),
    aim("roundtrip", DEFAULT, "p50", Bound::Unpinned(1.0)),
    aim("roundtrip", DEFAULT, "p50", Bound::BestPool(0.8)),
    aim("roundtrip", DEFAULT, "p99", Bound::Unpinned(1.0)),
    aim("roundtrip", DEFAULT, "p99", Bound::BestPool(0.8)),
    aim("cpu", DEFAULT, "of the ideal", Bound::AtMost(1.02)),
    aim("cpu", DEFAULT, "of the ideal", Bound::BestPool(0.99)),
    aim("cpu", DEFAULT, "threads", Bound::Threads { per_cpu: 1.0, more: 3.0, asleep: false }),
    aim("cpu", DEFAULT, "sleeper p99", Bound::AtMost(0.5e-3)),
    aim("mixed", DEFAULT, "of the ideal", Bound::AtMost(1.04)),
    aim("mixed", UNDECLARED, "of the ideal", Bound::AtMost(1.1)),
    aim("mixed", DEFAULT, "threads", Bound::AtMost(12.0)),
    aim("mixed", UNDECLARED, "threads", Bound::AtMost(16.0)),
    aim("block", DEFAULT, "time", Bound::BestPool(1.0)),
    aim("block/256", UNDECLARED, "time", Bound::Declared(1.0 / 3.0)),
    aim("block/256", UNDECLARED, "threads", Bound::AtMost(280.0)),
    aim("block/256", UNDECLARED, "sleeper p99", Bound::AtMost(2e-3)),
    aim("dep", DEFAULT, "p50", Bound::AtMost(1e-3)),
    aim("dep", UNDECLARED, "p50", Bound::AtMost(5e-3)),
    aim("burst", DEFAULT, "p50", Bound::BestPool(1.1)),
    aim("tenants", DEFAULT, "threads", Bound::Threads { per_cpu: 3.0, more: 0.0, asleep: true }),
    // Some megabytes belong to the program itself, whichever rival runs in it.
    aim("tenants", DEFAULT, "memory grown", Bound::OwnPool(3.0)),
    aim("hog", DEFAULT, "p99", Bound::Best(5.0)),
    aim("priority", DEFAULT, "p99", Bound::Best(5.0)),
    aim("chain", DEFAULT, "items", Bound::BestPool(1.1)),
    aim("fanout", DEFAULT, "items", Bound::BestPool(1.1)),
    aim("forks", DEFAULT, "items", Bound::BestPool(0.8)),
    // The workers of all CPUs, one spare, and the manager.
    aim("forks", DEFAULT, "threads", Bound::Threads { per_cpu: 1.0, more: 2.0, asleep: false }),
    aim("issuers", DEFAULT, "items", Bound::BestPool(1.0)),
];

/// Returns the verdicts on these reports.
pub(crate) fn verdicts(reports: &[CaseReport], cpus: usize) -> Vec<Verdict> {
    let of_case = |report| AIMS.iter().filter_map(move |aim| verdict(report, aim, cpus));
    reports.iter().flat_map(of_case).collect()
}

fn verdict(report: &CaseReport, aim: &Aim, cpus: usize) -> Option<Verdict> {
    if !report.case.is_meant_by(aim.workload) {
        return None;
    }
    let measure = report.measures().find(|measure| measure.name == aim.measure)?;
    let (row, ours) = report.best(aim.measure, |rival| rival.name == aim.ours)?;
    let (worst, best) = (bad_end(measure, ours), good_end(measure, ours));
    let against = |times: f64, whom: &str, of: fn(&Entry) -> bool| {
        let (row, other) = report.best(aim.measure, of)?;
        let at_worst = measure.better.ratio(worst, good_end(measure, other)) >= times;
        let at_best = measure.better.ratio(best, bad_end(measure, other)) >= times;
        Some((times_text(times, whom), Some((row, other)), Standing::of(at_worst, at_best)))
    };
    // For all measures with such a bound, a smaller value is better.
    let at_most = |most: f64| (None, Standing::of(worst <= most, best <= most));
    let (aimed_at, other, standing) = match aim.bound {
        Bound::Best(times) => against(times, "the best rival", is_rival)?,
        Bound::BestPool(times) => against(times, "the best pool", is_pool)?,
        Bound::Unpinned(times) => {
            against(times, "the best pool that does not pin", |rival| is_pool(rival) && !rival.can.pins)?
        }
        Bound::OwnPool(times) => {
            against(times, "the best pool that users own", |rival| is_pool(rival) && rival.can.tenants)?
        }
        Bound::Floor(times) => against(times, "the channel", |rival| rival.can.part == Part::Floor)?,
        Bound::Declared(times) => against(times, "with guards", |rival| rival.name == DEFAULT)?,
        Bound::AtMost(most) => {
            let (other, standing) = at_most(most);
            (format!("≤ {}", measure.unit.full(most)), other, standing)
        }
        Bound::Threads { per_cpu, more, asleep } => {
            let most = per_cpu * cpus as f64 + more + if asleep { sleepers(report, row)? } else { 0.0 };
            let (other, standing) = at_most(most);
            (format!("≤ {}", Unit::Count.text(most)), other, standing)
        }
    };
    let told = |(row, spread): (&Row, &Spread), to: &Spread| {
        (row.rival.name, measure.unit.full(spread.median), measure.better.ratio(spread.median, to.median))
    };
    let best_kind = other.filter(|_| aim.ours == DEFAULT).and_then(|(_, other)| {
        let best = report.best(aim.measure, |rival| rival.can.part == Part::Cmwq)?;
        Some(told(best, other))
    });
    Some(Verdict {
        case: report.case.name(),
        measure: aim.measure,
        aim: aimed_at,
        ours: (row.rival.name, measure.unit.full(ours.median)),
        other: other.map(|(row, other)| {
            let (name, value, _) = told((row, other), other);
            (name, value, measure.better.ratio(ours.median, other.median))
        }),
        best_kind,
        standing,
    })
}

fn good_end(measure: &Measure, spread: &Spread) -> f64 {
    if measure.better == Better::More { spread.high } else { spread.low }
}

fn bad_end(measure: &Measure, spread: &Spread) -> f64 {
    if measure.better == Better::More { spread.low } else { spread.high }
}

/// Returns whether the row is an alternative to cmwq. A thread for each item and a second pool are alternatives, too:
/// the system's scheduler shares the CPUs among their threads. Such sharing needs no priorities, and is hard to beat in
/// workloads whose items must not wait for long ones.
fn is_rival(rival: &Entry) -> bool {
    !rival.can.part.is_cmwq()
}

fn is_pool(rival: &Entry) -> bool {
    is_rival(rival) && rival.can.part != Part::Floor
}

/// Returns how many items of this row slept at the same time.
fn sleepers(report: &CaseReport, row: &Row) -> Option<f64> {
    let column = report.measures().position(|measure| measure.name == "asleep at once")?;
    Some(row.cells.get(column)?.as_ref()?.median)
}

fn times_text(times: f64, whom: &str) -> String {
    if times == 1.0 {
        format!("no worse than {whom}")
    } else {
        format!("≥ {times:.2} × as good as {whom}")
    }
}

#[cfg(test)]
mod tests {
    use super::{AIMS, Standing, verdicts};
    use crate::report::tests::report;
    use crate::workload::CASES;

    #[test]
    fn every_aim_belongs_to_a_case_that_measures_it() {
        for aim in AIMS {
            let cases: Vec<_> = CASES.iter().filter(|case| case.is_meant_by(aim.workload)).collect();
            assert!(!cases.is_empty(), "{}", aim.workload);
            let common = &crate::bed::COMMON;
            for case in cases {
                let mut measures = case.measures.iter().chain(common);
                assert!(
                    measures.any(|measure| measure.name == aim.measure),
                    "{} {}",
                    aim.workload,
                    aim.measure
                );
            }
        }
    }

    #[test]
    fn the_default_queue_is_compared_with_the_best_pool_and_the_floor() {
        let rows = [
            ("rayon", Some(1.5e6)),
            ("threadpool", None),
            ("channel", Some(3.5e6)),
            ("cmwq", Some(3e6)),
            ("cmwq-per-cpu", Some(4.5e6)),
        ];
        let verdicts = verdicts(&[report("empty/1", &rows)], 2);
        let told: Vec<_> = verdicts
            .iter()
            .map(|verdict| (verdict.ours.0, verdict.other.as_ref().unwrap().0, verdict.standing))
            .collect();
        assert_eq!(told, [("cmwq", "rayon", Standing::Reached), ("cmwq", "channel", Standing::Close)]);
        assert_eq!(verdicts[0].other.as_ref().unwrap().2, 2.0);
        assert_eq!(verdicts[0].best_kind, Some(("cmwq-per-cpu", "4500 k/s".to_owned(), 3.0)));
    }

    #[test]
    fn a_better_kind_of_queue_does_not_reach_an_aim() {
        let rows = [("rayon", Some(2e6)), ("cmwq", Some(1e6)), ("cmwq-per-cpu", Some(9e6))];
        let verdict = &verdicts(&[report("chain", &rows)], 2)[0];
        assert_eq!((verdict.ours.0, verdict.standing), ("cmwq", Standing::Missed));
        assert_eq!(verdict.other.as_ref().unwrap().2, 0.5);
    }

    #[test]
    fn an_aim_that_some_runs_miss_is_not_reached() {
        let rows = [("rayon", Some(1e6)), ("cmwq", Some(1.2e6))];
        assert_eq!(verdicts(&[report("chain", &rows)], 2)[0].standing, Standing::Close);
        let rows = [("rayon", Some(1e6)), ("cmwq", Some(1.4e6))];
        assert_eq!(verdicts(&[report("chain", &rows)], 2)[0].standing, Standing::Reached);
    }

    #[test]
    fn latency_is_compared_with_pools_that_pin_and_others() {
        let rows = [("vicinal", Some(1e-6)), ("rayon", Some(2e-6)), ("cmwq", Some(1.5e-6))];
        let verdicts = verdicts(&[report("latency", &rows)], 2);
        let told: Vec<_> = verdicts[..2].iter().map(|verdict| verdict.other.as_ref().unwrap().0).collect();
        assert_eq!(told, ["rayon", "vicinal"]);
    }

    #[test]
    fn an_absolute_bound_needs_no_rival() {
        let verdicts =
            verdicts(&[report("dep", &[("cmwq", Some(2e-3)), ("cmwq-undeclared", Some(2e-3))])], 2);
        let told: Vec<_> = verdicts.iter().map(|verdict| (verdict.aim.as_str(), verdict.standing)).collect();
        assert_eq!(told, [("≤ 1.00 ms", Standing::Missed), ("≤ 5.00 ms", Standing::Reached)]);
    }
}
