//! The aims of cmwq on each workload, and the rows that it is compared with.

use crate::report::{CaseReport, Row};
use crate::rival::{Entry, Part};
use crate::unit::{Better, Measure, Unit};
use testkit::stats::Spread;

/// The row of cmwq that an aim is about.
#[derive(Clone, Copy)]
enum Ours {
    Named(&'static str),
    /// The best row of this part.
    Best(Part),
}

struct Aim {
    workload: &'static str,
    ours: Ours,
    measure: &'static str,
    bound: Bound,
}

enum Bound {
    /// At least this many times as good as the best row that is not cmwq's.
    Best(f64),
    /// The same without the channel with threads behind it, which manages nothing and has a bound of its own.
    BestPool(f64),
    /// The same for rivals of which each user has one of its own.
    OwnPool(f64),
    /// At least this many times as good as the channel.
    Floor(f64),
    /// At most this value, in the unit of the measure.
    AtMost(f64),
    /// At most this many for each CPU, plus `more`, plus one for each sleeping item.
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
    /// The same for the default queue, if cmwq's row is the best of several. Users who choose no queue get that one.
    pub(crate) default: Option<(String, f64)>,
    pub(crate) standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Standing {
    Reached,
    /// Missed by less than the difference between runs: another run may reach it.
    Close,
    Missed,
}

impl Standing {
    /// Judges a ratio. `could_be`: whether it would be reached with good runs of cmwq and bad ones of the others.
    fn of(is_reached: bool, could_be: bool) -> Self {
        match (is_reached, could_be) {
            (true, _) => Self::Reached,
            (false, true) => Self::Close,
            (false, false) => Self::Missed,
        }
    }
}

const fn aim(workload: &'static str, ours: Ours, measure: &'static str, bound: Bound) -> Aim {
    Aim { workload, ours, measure, bound }
}

const DEFAULT: Ours = Ours::Named("cmwq");
const UNDECLARED: Ours = Ours::Named("cmwq-undeclared");
/// The queues whose items enter guards and set flags.
const TELLS: Ours = Ours::Best(Part::Cmwq);

static AIMS: &[Aim] = &[
    aim("empty", TELLS, "items", Bound::BestPool(1.3)),
    aim("empty", TELLS, "items", Bound::Floor(0.9)),
    aim("reuse", Ours::Best(Part::Reusable), "items", Bound::BestPool(1.5)),
    aim("batch", TELLS, "items", Bound::BestPool(1.5)),
    aim("latency", TELLS, "p50", Bound::Best(1.0)),
    aim("latency", TELLS, "p99", Bound::Best(1.0)),
    aim("roundtrip", TELLS, "p50", Bound::Best(1.0)),
    aim("roundtrip", TELLS, "p99", Bound::Best(1.0)),
    aim("cpu", DEFAULT, "of the ideal", Bound::AtMost(1.02)),
    aim("cpu", DEFAULT, "threads", Bound::Threads { per_cpu: 1.0, more: 3.0, asleep: false }),
    aim("cpu", DEFAULT, "sleeper p99", Bound::AtMost(0.5e-3)),
    aim("mixed", DEFAULT, "of the ideal", Bound::AtMost(1.05)),
    aim("mixed", UNDECLARED, "of the ideal", Bound::AtMost(1.15)),
    aim("mixed", DEFAULT, "threads", Bound::AtMost(12.0)),
    aim("mixed", UNDECLARED, "threads", Bound::AtMost(16.0)),
    aim("block", TELLS, "time", Bound::Best(1.0)),
    aim("dep", DEFAULT, "p50", Bound::AtMost(1e-3)),
    aim("dep", UNDECLARED, "p50", Bound::AtMost(5e-3)),
    aim("tenants", DEFAULT, "threads", Bound::Threads { per_cpu: 3.0, more: 0.0, asleep: true }),
    // Some megabytes belong to the program itself, whichever rival runs in it.
    aim("tenants", DEFAULT, "memory grown", Bound::OwnPool(3.0)),
    aim("hog", TELLS, "p99", Bound::Best(5.0)),
    aim("priority", TELLS, "p99", Bound::Best(5.0)),
    aim("chain", TELLS, "items", Bound::Best(1.0)),
    aim("fanout", TELLS, "items", Bound::Best(1.0)),
];

/// Returns the verdicts on these reports.
pub(crate) fn verdicts(reports: &[CaseReport], cpus: usize) -> Vec<Verdict> {
    let of_case = |report| AIMS.iter().filter_map(move |aim| verdict(report, aim, cpus));
    reports.iter().flat_map(of_case).collect()
}

fn verdict(report: &CaseReport, aim: &Aim, cpus: usize) -> Option<Verdict> {
    if report.case.workload != aim.workload {
        return None;
    }
    let measure = report.measures().find(|measure| measure.name == aim.measure)?;
    let (row, ours) = report.best(aim.measure, |rival| match aim.ours {
        Ours::Named(name) => rival.name == name,
        Ours::Best(part) => rival.can.part == part,
    })?;
    let against = |times: f64, whom: &str, of: fn(&Entry) -> bool| {
        let (other, best) = report.best(aim.measure, of)?;
        let ratio = measure.better.ratio(ours.median, best.median);
        let at_best = measure.better.ratio(good_end(measure, ours), bad_end(measure, best));
        let other = (other.rival.name, measure.unit.full(best.median), ratio);
        Some((times_text(times, whom), Some(other), Standing::of(ratio >= times, at_best >= times)))
    };
    let at_most = |most: f64| (None, Standing::of(ours.median <= most, ours.low <= most));
    let (aimed_at, other, standing) = match aim.bound {
        Bound::Best(times) => against(times, "the best rival", is_rival)?,
        Bound::BestPool(times) => against(times, "the best pool", is_pool)?,
        Bound::OwnPool(times) => {
            against(times, "the best pool that users own", |rival| is_pool(rival) && rival.can.tenants)?
        }
        Bound::Floor(times) => against(times, "the channel", |rival| rival.can.part == Part::Floor)?,
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
    let default = other.as_ref().zip(default_of(aim, report)).map(|((_, _, ratio), default)| {
        (measure.unit.full(default.median), ratio * measure.better.ratio(default.median, ours.median))
    });
    Some(Verdict {
        case: report.case.name(),
        measure: aim.measure,
        aim: aimed_at,
        ours: (row.rival.name, measure.unit.full(ours.median)),
        other,
        default,
        standing,
    })
}

fn default_of<'r>(aim: &Aim, report: &'r CaseReport) -> Option<&'r Spread> {
    let (Ours::Best(Part::Cmwq), Ours::Named(default)) = (aim.ours, DEFAULT) else { return None };
    report.best(aim.measure, |rival| rival.name == default).map(|(_, spread)| spread)
}

fn good_end(measure: &Measure, spread: &Spread) -> f64 {
    if measure.better == Better::More { spread.high } else { spread.low }
}

fn bad_end(measure: &Measure, spread: &Spread) -> f64 {
    if measure.better == Better::More { spread.low } else { spread.high }
}

/// Returns whether the row is an alternative to cmwq. A thread for each item and a second pool are alternatives as
/// well: the system's scheduler then shares the CPUs. Where items must not wait for long ones, that is hard to beat,
/// and it needs no priorities.
fn is_rival(rival: &Entry) -> bool {
    !rival.can.part.is_cmwq()
}

fn is_pool(rival: &Entry) -> bool {
    is_rival(rival) && rival.can.part != Part::Floor
}

/// Returns how many items of this row slept at once.
fn sleepers(report: &CaseReport, row: &Row) -> Option<f64> {
    let column = report.measures().position(|measure| measure.name == "asleep at once")?;
    Some(row.cells.get(column)?.as_ref()?.median)
}

fn times_text(times: f64, whom: &str) -> String {
    if times == 1.0 { format!("no worse than {whom}") } else { format!("≥ {times} × as good as {whom}") }
}

#[cfg(test)]
mod tests {
    use super::{AIMS, Standing, verdicts};
    use crate::report::tests::report;
    use crate::workload::CASES;

    #[test]
    fn every_aim_belongs_to_a_case_that_measures_it() {
        for aim in AIMS {
            let cases: Vec<_> = CASES.iter().filter(|case| case.workload == aim.workload).collect();
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
    fn the_best_queue_is_compared_with_the_best_pool_and_the_floor() {
        let rows = [
            ("rayon", Some(2e6)),
            ("threadpool", None),
            ("channel", Some(3.5e6)),
            ("cmwq", Some(3e6)),
            ("cmwq-unbound", Some(1e6)),
        ];
        let verdicts = verdicts(&[report("empty/1", &rows)], 2);
        let told: Vec<_> = verdicts
            .iter()
            .map(|verdict| (verdict.ours.0, verdict.other.as_ref().unwrap().0, verdict.standing))
            .collect();
        assert_eq!(told, [("cmwq", "rayon", Standing::Reached), ("cmwq", "channel", Standing::Close)]);
        assert_eq!(verdicts[0].other.as_ref().unwrap().2, 1.5);
        assert_eq!(verdicts[0].default, Some(("3000 k/s".to_owned(), 1.5)));
    }

    #[test]
    fn the_default_queue_is_shown_beside_a_better_one() {
        let rows = [("rayon", Some(2e6)), ("cmwq", Some(1e6)), ("cmwq-per-cpu", Some(3e6))];
        let verdict = &verdicts(&[report("chain", &rows)], 2)[0];
        assert_eq!((verdict.ours.0, &verdict.default), ("cmwq-per-cpu", &Some(("1000 k/s".to_owned(), 0.5))));
    }

    #[test]
    fn an_absolute_bound_needs_no_rival() {
        let verdicts =
            verdicts(&[report("dep", &[("cmwq", Some(2e-3)), ("cmwq-undeclared", Some(2e-3))])], 2);
        let told: Vec<_> = verdicts.iter().map(|verdict| (verdict.aim.as_str(), verdict.standing)).collect();
        assert_eq!(told, [("≤ 1.00 ms", Standing::Missed), ("≤ 5.00 ms", Standing::Reached)]);
    }
}
