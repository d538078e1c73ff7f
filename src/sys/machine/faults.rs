//! Carries out the [`Plan`] of a run's faults.
//!
//! The faults have their own generator of random numbers, so that their draws do not change the draws of the schedule.

#![forbid(unsafe_code)]

use std::time::Duration;

use fastrand::Rng;

use super::plan::{Chosen, Plan};
use super::schedule::{Schedule, Tid, Timer};
use crate::policy::cpu_set::CpuSet;
use crate::policy::time::Time;

/// The plan of the faults of a run that has begun, and the counts that the plan needs.
#[derive(Debug)]
pub(super) struct Faults {
    plan: Plan,
    random: Rng,
    /// The number of attempts to make a thread so far.
    threads: u64,
    /// For each entry of `no_threads_from` in the plan, the time at which this entry first refused a thread.
    refused_since: Vec<Option<Time>>,
    /// For each planned refusal, the number of matching submissions so far.
    submissions: Vec<u64>,
    /// For each planned panic, the number of matching runs of items so far.
    runs: Vec<u64>,
    steps: u64,
    /// The thread that shuts the executors down.
    pub(super) shuts_down: Option<Tid>,
    /// Whether the test is over. After the test, no fault happens.
    pub(super) is_over: bool,
    /// A change of the CPUs that is not yet noted as an event.
    changed: Option<String>,
}

impl Faults {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            random: Rng::with_seed(plan.seed),
            threads: 0,
            refused_since: vec![None; plan.no_threads_from.len()],
            submissions: vec![0; plan.refusals.len()],
            runs: vec![0; plan.panics.len()],
            steps: 0,
            shuts_down: None,
            is_over: false,
            changed: None,
            plan,
        }
    }

    /// Counts an attempt to make a thread. Returns whether the attempt fails.
    pub(super) fn refuses_thread(&mut self, now: Time) -> bool {
        self.threads += 1;
        let numbered = self.plan.no_threads_from.iter().zip(&mut self.refused_since);
        let by_number = numbered.filter(|((nth, time), since)| {
            let lasts = |since: Time| now.since(since) < *time;
            self.threads >= *nth && since.is_none_or(lasts)
        });
        let by_number = by_number.map(|(_, since)| _ = since.get_or_insert(now)).count() > 0;
        let at = now.since(Time::default());
        by_number || self.plan.no_threads_during.iter().any(|times| times.contains(&at))
    }

    /// Returns the latest end of a period without new threads. Considers only periods that have begun and that end
    /// before [`Time::NEVER`]. A period of `no_threads_from` has begun if it has refused a thread. The returned time
    /// may lie in the future. If there is no such period, returns the start of the run.
    pub(super) fn threads_since(&self, now: Time) -> Time {
        let begin = Time::default();
        let ranges = self.plan.no_threads_during.iter().map(|times| (begin + times.start, begin + times.end));
        let numbered = self.plan.no_threads_from.iter().zip(&self.refused_since);
        let numbered = numbered.filter_map(|((_, time), since)| since.map(|since| (since, since + *time)));
        let begun = ranges.chain(numbered).filter(|(begin, end)| *begin <= now && *end < Time::NEVER);
        begun.map(|(_, end)| end).max().unwrap_or(begin)
    }

    pub(super) fn refuses_submission(&mut self, queue: &str) -> bool {
        let chosen = is_chosen(&self.plan.refusals, &mut self.submissions, queue);
        let rates = self.plan.refusal_rates.iter().filter(|(text, _)| queue.contains(&**text));
        // Each rate draws a number even if the submission is refused already, so that later draws do not depend on the
        // refusal.
        chosen | (rates.filter(|(_, rate)| self.random.u32(0..1000) < *rate).count() > 0)
    }

    /// Returns whether the plan makes this run of an item panic. The text of `item` contains the names of the item and
    /// of its queue.
    pub(super) fn panics(&mut self, item: &impl ToString) -> bool {
        !self.plan.panics.is_empty() && is_chosen(&self.plan.panics, &mut self.runs, &item.to_string())
    }

    pub(super) fn lateness(&mut self) -> Duration {
        let longest = u64::try_from(self.plan.late.as_nanos()).unwrap_or(u64::MAX);
        if longest == 0 { Duration::ZERO } else { Duration::from_nanos(self.random.u64(0..=longest)) }
    }

    /// Counts a step. If the plan shuts the executors down at this step, returns the thread that shuts them down.
    pub(super) fn step(&mut self) -> Option<Tid> {
        let (at, _) = self.plan.shutdown?;
        self.steps += 1;
        self.shuts_down.take_if(|_| self.steps == at)
    }

    pub(super) fn take_change(&mut self) -> Option<String> {
        self.changed.take()
    }
}

/// Counts an event with this description. Returns whether the plan has chosen this event.
fn is_chosen(all: &[Chosen], seen: &mut [u64], description: &str) -> bool {
    let candidates = all.iter().zip(seen).filter(|(chosen, _)| description.contains(&chosen.text));
    let counted = candidates.map(|(chosen, seen)| {
        *seen += 1;
        *seen == chosen.nth
    });
    counted.filter(|is_it| *is_it).count() > 0
}

impl Schedule {
    /// Takes CPUs away and gives them back, as planned for the present time.
    pub(super) fn change_cpus(&mut self) {
        let away: CpuSet = self.faults.plan.away(self.now.since(Time::default())).collect();
        if away == self.away {
            return;
        }
        self.faults.changed = Some(match away.is_empty() {
            true => "fault: all CPUs are back".to_owned(),
            false => format!("fault: CPUs that are away: {away}"),
        });
        self.set_away(away);
    }

    /// Lets the faults of this plan happen from now on.
    pub(super) fn carry_out(&mut self, plan: Plan) {
        let shuts_down = self.faults.shuts_down;
        let begin = self.now;
        plan.changes().for_each(|at| self.set_timer(begin + at, Timer::Cpus));
        self.faults = Faults { shuts_down, ..Faults::new(plan) };
        self.change_cpus();
    }

    /// Ends all faults, because the test is over.
    pub(super) fn no_more_faults(&mut self) {
        self.faults = Faults { is_over: true, ..Faults::new(Plan::default()) };
        self.change_cpus();
    }
}
