//! The results of all rounds, and the figures that they are compared with.

use testkit::stats::Spread;

use crate::engine::{Kind, Name};
use crate::load::{Outcome, Route};
use crate::roundtrip::Roundtrip;
use crate::serve::Usage;
use crate::setup::WARM;

/// The bounds of the figures: milliseconds of `/health`, and two ratios of cmwq to another engine.
const MOST_HEALTH: f64 = 10.0;
const MOST_OF_OTHERS: f64 = 0.5;
const MOST_OF_AWAIT: f64 = 1.1;

/// The rounds of one engine.
pub(crate) struct Served {
    pub(crate) engine: Name,
    pub(crate) rounds: Vec<(Outcome, Usage)>,
}

/// The rounds in which one kind of item is awaited.
pub(crate) struct Awaited {
    pub(crate) kind: Kind,
    pub(crate) rounds: Vec<Roundtrip>,
}

pub(crate) struct Report {
    /// The engines, of which the one with the lowest p99 of `/health` is first.
    pub(crate) served: Vec<Served>,
    pub(crate) awaited: Vec<Awaited>,
    /// The p99 of `/health` in milliseconds, in each round, while the service has hardly any work.
    unloaded: Vec<f64>,
    /// The number of hashes that a request for `/compute` computes.
    pub(crate) hashes: u32,
    /// The number of requests for work per second.
    pub(crate) rate: u32,
}

/// A column of the table.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) decimals: usize,
    value: fn(&Outcome, &Usage, f64) -> Option<f64>,
}

/// The columns of the table. The third argument of a closure is the length of the measurement in seconds.
pub(crate) const COLUMNS: [Column; 13] = [
    Column { name: "/health p99, ms", decimals: 2, value: |load, _, _| Some(load.health.p99) },
    Column { name: "p50, ms", decimals: 2, value: |load, _, _| Some(load.health.p50) },
    Column { name: "max, ms", decimals: 1, value: |load, _, _| Some(load.health.max) },
    Column {
        name: "/compute, per s",
        decimals: 0,
        value: |load, _, time| Some(load.compute.done as f64 / time),
    },
    Column { name: "p50, ms", decimals: 1, value: |load, _, _| Some(load.compute.p50) },
    Column { name: "p99, ms", decimals: 1, value: |load, _, _| Some(load.compute.p99) },
    Column { name: "/block, per s", decimals: 0, value: |load, _, time| Some(load.block.done as f64 / time) },
    Column { name: "p99, ms", decimals: 1, value: |load, _, _| Some(load.block.p99) },
    Column {
        name: "sent, per s",
        decimals: 0,
        value: |load, _, time| {
            let route = |route: &Route| route.done + route.shed;
            Some((route(&load.compute) + route(&load.block)) as f64 / time)
        },
    },
    Column { name: "sent late p99, ms", decimals: 2, value: |load, _, _| Some(load.sent_late) },
    Column {
        name: "generator's CPUs",
        decimals: 2,
        value: |load, _, time| Some(load.cpu_seconds / (time + WARM.as_secs_f64())),
    },
    Column {
        name: "service's CPUs",
        decimals: 2,
        value: |_, used, time| Some(used.cpu_seconds / (time + WARM.as_secs_f64())),
    },
    Column { name: "threads", decimals: 0, value: |_, used, _| used.threads.map(|threads| threads as f64) },
];

/// A comparison with a figure.
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) ours: String,
    pub(crate) other: String,
    pub(crate) ratio: String,
    pub(crate) figure: String,
    pub(crate) is_reached: bool,
}

impl Served {
    pub(crate) fn new(engine: Name) -> Self {
        Self { engine, rounds: Vec::new() }
    }

    pub(crate) fn spread(&self, column: &Column, seconds: f64) -> Option<Spread> {
        let values = self.rounds.iter().filter_map(|(load, used)| (column.value)(load, used, seconds));
        Spread::of(&values.collect::<Vec<_>>())
    }

    fn health(&self) -> Vec<f64> {
        self.rounds.iter().map(|(load, _)| load.health.p99).collect()
    }

    fn median_health(&self) -> f64 {
        Spread::of(&self.health()).map_or(f64::INFINITY, |spread| spread.median)
    }

    pub(crate) fn errors(&self) -> u64 {
        self.rounds.iter().map(|(load, _)| load.errors).sum()
    }
}

impl Awaited {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, rounds: Vec::new() }
    }
}

impl Report {
    pub(crate) fn new(
        mut served: Vec<Served>,
        mut awaited: Vec<Awaited>,
        unloaded: Vec<f64>,
        hashes: u32,
        rate: u32,
    ) -> Self {
        served.sort_by(|one, other| one.median_health().total_cmp(&other.median_health()));
        awaited.sort_by_key(|awaited| awaited.kind != Kind::Cmwq);
        Self { served, awaited, unloaded, hashes, rate }
    }

    /// Returns the p99 of `/health` while the service has hardly any work.
    pub(crate) fn unloaded(&self) -> String {
        interval(&self.unloaded, 2, " ms")
    }

    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let ours = self.best(|name| name.kind == Kind::Cmwq).map(|ours| Verdict {
            what: "/health p99".into(),
            ours: told(ours),
            other: "-".into(),
            ratio: "-".into(),
            figure: format!("≤ {MOST_HEALTH} ms"),
            is_reached: ours.median_health() <= MOST_HEALTH,
        });
        let pairs = [
            self.health("the best of each", |_| true),
            self.health("no nice levels", |name| !name.nice),
            self.health("nice levels", |name| name.nice),
            self.awaiting("p50", |trip| trip.p50),
            self.awaiting("p99", |trip| trip.p99),
        ];
        ours.into_iter().chain(pairs.into_iter().flatten()).collect()
    }

    /// Returns the figures that were not reached.
    pub(crate) fn missed(&self) -> Vec<String> {
        let missed = self.verdicts().into_iter().filter(|verdict| !verdict.is_reached);
        missed
            .map(|Verdict { what, ours, ratio, figure, .. }| format!("{what}: {ours}, {ratio}, {figure}"))
            .collect()
    }

    /// Returns the best engine of those that `of` accepts.
    fn best(&self, of: impl Fn(&Name) -> bool) -> Option<&Served> {
        self.served.iter().find(|served| of(&served.engine))
    }

    /// Compares the best row of cmwq with the best row of another engine, among the engines that `of` accepts.
    fn health(&self, what: &str, of: fn(&Name) -> bool) -> Option<Verdict> {
        let ours = self.best(|name| of(name) && name.kind == Kind::Cmwq)?;
        let other = self.best(|name| of(name) && name.kind != Kind::Cmwq)?;
        let (one, two) = (ours.health(), other.health());
        let what = format!("/health p99, {what}");
        Some(compared(what, (told(ours), &one), (told(other), &two), MOST_OF_OTHERS))
    }

    fn awaiting(&self, what: &str, of: fn(&Roundtrip) -> f64) -> Option<Verdict> {
        let [ours, other] = &self.awaited[..] else { return None };
        let values = |awaited: &Awaited| awaited.rounds.iter().map(of).collect::<Vec<f64>>();
        let (one, two) = (values(ours), values(other));
        let (first, second) = (interval(&one, 1, " µs"), interval(&two, 1, " µs"));
        let what = format!("await round trip, {what}");
        let second = format!("{second} (spawn_blocking)");
        Some(compared(what, (first, &one), (second, &two), MOST_OF_AWAIT))
    }
}

/// Returns the p99 of `/health` of an engine, and the engine's name.
fn told(served: &Served) -> String {
    format!("{} ({})", interval(&served.health(), 2, " ms"), served.engine)
}

/// Compares each round of one engine with the same round of the other, because a disturbance mostly affects both.
fn compared(what: String, ours: (String, &[f64]), other: (String, &[f64]), most: f64) -> Verdict {
    let ratios: Vec<f64> = ours.1.iter().zip(other.1).map(|(one, two)| one / two).collect();
    let spread = Spread::of(&ratios);
    let ratio = spread.map_or("-".into(), |spread| with_interval(spread, 2, ""));
    let is_reached = spread.is_some_and(|spread| spread.median <= most);
    Verdict { what, ours: ours.0, other: other.0, ratio, figure: format!("≤ {most} ×"), is_reached }
}

fn interval(values: &[f64], decimals: usize, unit: &str) -> String {
    Spread::of(values).map_or("-".into(), |spread| with_interval(spread, decimals, unit))
}

/// Returns the median, and the middle half of the rounds.
pub(crate) fn with_interval(spread: Spread, decimals: usize, unit: &str) -> String {
    let Spread { median, low, high } = spread;
    if low < high {
        format!("{median:.decimals$}{unit} ({low:.decimals$}–{high:.decimals$})")
    } else {
        format!("{median:.decimals$}{unit}")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Awaited, Report, Served};
    use crate::engine::{Kind, Name};
    use crate::load::{Outcome, Route};
    use crate::roundtrip::Roundtrip;
    use crate::serve::Usage;

    fn route(p99: f64) -> Route {
        Route { done: 100, shed: 300, p50: p99 / 2.0, p99, max: 2.0 * p99 }
    }

    fn outcome(p99: f64) -> (Outcome, Usage) {
        let load = Outcome {
            health: route(p99),
            compute: route(30.0),
            block: route(25.0),
            sent_late: 0.1,
            cpu_seconds: 5.0,
            errors: 0,
            raised: true,
        };
        (load, Usage { cpu_seconds: 18.0, threads: Some(20) })
    }

    /// Makes a report of engines that have these p99 of `/health` in two rounds.
    pub(crate) fn report(engines: &[(&str, [f64; 2])]) -> Report {
        let served = engines.iter().map(|(name, rounds)| Served {
            engine: Name::parse(name).unwrap(),
            rounds: rounds.map(outcome).into(),
        });
        let awaited = |kind, p50| Awaited { kind, rounds: vec![Roundtrip { p50, p99: 2.0 * p50 }] };
        let awaited = vec![awaited(Kind::Tokio, 10.0), awaited(Kind::Cmwq, 8.0)];
        Report::new(served.collect(), awaited, vec![0.125, 0.125], 100, 8000)
    }

    #[test]
    fn the_best_rows_are_compared_in_pairs_of_rounds() {
        let report = report(&[("tokio", [8.0, 8.0]), ("cmwq", [2.0, 3.0]), ("cmwq-nice", [1.0, 1.0])]);
        assert_eq!(report.served[0].engine.to_string(), "cmwq-nice");
        let verdicts = report.verdicts();
        let told: Vec<_> =
            verdicts.iter().map(|verdict| (verdict.is_reached, verdict.ratio.as_str())).collect();
        assert_eq!(
            told,
            [(true, "-"), (true, "0.12"), (true, "0.31 (0.28–0.34)"), (true, "0.80"), (true, "0.80")]
        );
    }

    #[test]
    fn a_missed_figure_is_told() {
        let report = report(&[("tokio", [16.0, 16.0]), ("cmwq", [12.0, 12.0])]);
        assert_eq!(report.missed()[0], "/health p99: 12.00 ms (cmwq), -, \u{2264} 10 ms");
        let verdicts = report.verdicts();
        assert!(verdicts[..3].iter().all(|verdict| !verdict.is_reached));
        assert!(verdicts[3..].iter().all(|verdict| verdict.is_reached));
    }
}
