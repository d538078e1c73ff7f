//! The plan of the faults that happen in a run.

#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The faults that happen in a run. All times count from the start of the run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Plan {
    /// The seed of the random numbers. The random numbers decide which submissions `refusal_rates` refuses, and how
    /// late each timer is.
    pub(crate) seed: u64,
    /// Pairs of a number and a time. All attempts to make a thread fail for this time, beginning with the attempt that
    /// has this number.
    pub(crate) no_threads_from: Vec<(u64, Duration)>,
    /// During these times, all attempts to make a thread fail.
    pub(crate) no_threads_during: Vec<Range<Duration>>,
    /// The submissions that find their queue full.
    pub(crate) refusals: Vec<Chosen>,
    /// For queues whose names contain this text, the number of submissions out of a thousand that find the queue full.
    pub(crate) refusal_rates: Vec<(String, u32)>,
    /// The longest time by which a timer is late.
    pub(crate) late: Duration,
    pub(crate) absences: Vec<Absence>,
    /// The items that panic.
    pub(crate) panics: Vec<Chosen>,
    /// The number of the step at which a thread shuts the executors down, and the timeout of the shutdown.
    pub(crate) shutdown: Option<(u64, Duration)>,
}

/// An event that the plan has chosen. Only the events whose description contains `text` are numbered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chosen {
    pub(crate) text: String,
    /// The number of the chosen event. The first event whose description contains `text` has the number 1.
    pub(crate) nth: u64,
}

/// The times at which the process may not use this CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Absence {
    pub(crate) cpu: usize,
    pub(crate) times: Range<Duration>,
}

impl Plan {
    /// Returns the CPUs that the process may not use at this time.
    pub(crate) fn away(&self, at: Duration) -> impl Iterator<Item = usize> {
        self.absences.iter().filter(move |absence| absence.times.contains(&at)).map(|absence| absence.cpu)
    }

    /// Returns the times at which a CPU goes away or comes back.
    pub(crate) fn changes(&self) -> impl Iterator<Item = Duration> {
        self.absences.iter().flat_map(|absence| [absence.times.start, absence.times.end])
    }
}

/// Writes a duration. [`Duration::MAX`] is written as "for ever".
struct For(Duration);

impl fmt::Display for For {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Duration::MAX { f.write_str("for ever") } else { write!(f, "for {:?}", self.0) }
    }
}

/// Writes the times of a fault. The end [`Duration::MAX`] is written as "for ever".
struct During<'a>(&'a Range<Duration>);

impl fmt::Display for During<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.0;
        if *end == Duration::MAX {
            write!(f, "from {start:?} on, for ever")
        } else {
            write!(f, "from {start:?} to {end:?}")
        }
    }
}

impl fmt::Display for Plan {
    /// Writes the faults in one line, such as `timers are up to 3ms late, CPU 1 is away from 1s to 2s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |text: &str, what: &str| match text {
            "" => format!("of any {what}"),
            text => format!("of a {what} with {text:?} in its name"),
        };
        let mut all = Vec::new();
        for (nth, time) in &self.no_threads_from {
            all.push(format!("no thread can be made from number {nth} on, {}", For(*time)));
        }
        for times in &self.no_threads_during {
            all.push(format!("no thread can be made {}", During(times)));
        }
        for Chosen { text, nth } in &self.refusals {
            all.push(format!("submission {nth} {} is refused", any(text, "queue")));
        }
        for (text, rate) in &self.refusal_rates {
            all.push(format!("{rate} of 1000 submissions {} are refused", any(text, "queue")));
        }
        if !self.late.is_zero() {
            all.push(format!("timers are up to {:?} late", self.late));
        }
        for Absence { cpu, times } in &self.absences {
            all.push(format!("CPU {cpu} is away {}", During(times)));
        }
        for Chosen { text, nth } in &self.panics {
            all.push(format!("run {nth} {} panics", any(text, "item or queue")));
        }
        if let Some((step, timeout)) = self.shutdown {
            all.push(format!("step {step} shuts the executors down, with a timeout of {timeout:?}"));
        }
        f.write_str(if all.is_empty() { "none" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}
