//! A table of figures and their aims, at the end of a bench.
#![allow(dead_code, reason = "each bench uses its part")]

use std::cell::RefCell;
use std::time::Duration;

use criterion::Criterion;

/// Returns Criterion with the default measurement times of this crate's benches, which the command line may change.
pub(crate) fn criterion() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args()
}

/// An aim, in seconds or items per second.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    AtMost(f64),
    AtLeast(f64),
    /// A rate without an aim.
    Rate,
    Count(usize),
}

/// The medians of the measured figures, with their aims.
#[derive(Default)]
pub(crate) struct Figures(RefCell<Vec<Figure>>);

pub(crate) struct Figure {
    name: String,
    aim: Option<Aim>,
    /// The seconds per iteration of each of criterion's samples.
    samples: Vec<f64>,
}

impl Figures {
    pub(crate) fn add(&self, name: impl Into<String>, aim: Option<Aim>) -> usize {
        let mut figures = self.0.borrow_mut();
        figures.push(Figure { name: name.into(), aim, samples: Vec::new() });
        figures.len() - 1
    }

    /// Adds a sample of this many iterations, and returns its time for criterion.
    pub(crate) fn time(&self, figure: usize, spent: Duration, iterations: u64) -> Duration {
        self.0.borrow_mut()[figure].samples.push(spent.as_secs_f64() / iterations as f64);
        spent
    }

    /// Sets the only sample of a figure.
    pub(crate) fn set(&self, figure: usize, value: f64) {
        self.0.borrow_mut()[figure].samples = vec![value];
    }

    /// Prints the table. It leaves out figures that were not measured because they were not requested.
    pub(crate) fn print(&self) {
        let figures = self.0.borrow();
        let measured: Vec<_> = figures.iter().filter(|figure| !figure.samples.is_empty()).collect();
        if measured.is_empty() {
            return;
        }
        println!("{:<56} {:>15} {:>15}", "figure", "aim", "median");
        for figure in measured {
            let (aim, median, good) = figure.columns();
            println!("{:<56} {aim:>15} {median:>15}{}", figure.name, if good { "" } else { "  MISSED" });
        }
    }
}

impl Figure {
    /// Returns the aim, the median, and whether the aim is reached.
    fn columns(&self) -> (String, String, bool) {
        let median = self.median();
        let rate = |rate: f64| format!("{:.2} M/s", rate / 1e6);
        match self.aim {
            None => ("-".into(), seconds(median), true),
            Some(Aim::AtMost(aim)) => (format!("<= {}", seconds(aim)), seconds(median), median <= aim),
            Some(Aim::AtLeast(aim)) => (format!(">= {}", rate(aim)), rate(1.0 / median), 1.0 / median >= aim),
            Some(Aim::Rate) => ("-".into(), rate(1.0 / median), true),
            Some(Aim::Count(aim)) => (format!("<= {aim}"), format!("{median}"), median <= aim as f64),
        }
    }

    fn median(&self) -> f64 {
        let mut samples = self.samples.clone();
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    }
}

fn seconds(time: f64) -> String {
    match time {
        time if time < 1e-6 => format!("{:.1} ns", time * 1e9),
        time if time < 1e-3 => format!("{:.1} us", time * 1e6),
        time if time < 1.0 => format!("{:.2} ms", time * 1e3),
        time => format!("{time:.3} s"),
    }
}
