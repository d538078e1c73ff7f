//! All figures, in the order of the table.

mod block;
mod compute;
mod crowd;
mod dependency;
mod hog;
mod idle;
mod makespan;
mod mixed;
mod service;
mod sleepers;

use std::error::Error;

use crate::effort::Effort;
use crate::figure::Outcome;
use crate::mode::Mode;

pub(crate) struct Figure {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// The modes in which the figure is meaningful.
    pub(crate) modes: &'static [Mode],
    pub(crate) measure: fn(Mode, Effort) -> Result<Outcome, Box<dyn Error>>,
}

pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        name: "block",
        title: "an item blocks: until the next one starts",
        modes: &Mode::ALL,
        measure: block::measure,
    },
    Figure {
        name: "mixed",
        title: "items of 0.5 ms CPU, every 4th sleeps 5 ms",
        modes: &Mode::ALL,
        measure: mixed::measure,
    },
    Figure {
        name: "sleepers",
        title: "2000 items sleep 10 ms each, 256 at a time",
        modes: &[Mode::Sampling, Mode::Switches, Mode::Guards],
        measure: sleepers::measure,
    },
    Figure {
        name: "dependency",
        title: "as many items as CPUs wait for a later one",
        modes: &Mode::ALL,
        measure: dependency::measure,
    },
    Figure {
        name: "compute",
        title: "nothing blocks: the manager's CPU time, of the work's",
        modes: &Mode::UNGUARDED,
        measure: compute::measure,
    },
    Figure {
        name: "idle",
        title: "an idle executor: wake-ups of all its threads",
        modes: &Mode::UNGUARDED,
        measure: idle::measure,
    },
    Figure {
        name: "crowd",
        title: "200 items spin until one behind them runs",
        modes: &Mode::UNGUARDED,
        measure: crowd::measure,
    },
    Figure {
        name: "hog",
        title: "an item computes for 100 ms: until the next one starts",
        modes: &Mode::UNGUARDED,
        measure: hog::measure,
    },
    Figure {
        name: "service",
        title: "a service: the latency of requests that do not block",
        modes: &Mode::ALL,
        measure: service::measure,
    },
];
