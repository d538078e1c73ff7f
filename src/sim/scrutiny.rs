//! The manager's look at a watched pool, as in `engine/pool/scrutiny.rs`. The manager reads the workers' words, then
//! the facts about their threads, and carries out policy's findings.
//!
//! In a racy run other threads may run between these steps, and the manager may lose its CPU for a time. Then the words
//! and facts that it has read may be out of date. That must do no harm.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::machine::{Machine, Timer};
use super::pool::{PoolId, Thread, ThreadId};
use super::random::micros;
use super::script::Op;
use crate::policy::crew::WorkerId;
use crate::policy::suspect::Found;
use crate::policy::watch::{Look, Verdict, Watch};
use crate::policy::worker::{Finding, WorkerState};

/// A step of the manager's look at a watched pool.
#[derive(Debug)]
pub(super) enum LookStep {
    /// Read the facts, and ask policy.
    Judge(PoolId, Watch, Look, Seen),
    /// Change the worker's word, if it is still the one that was seen.
    CarryOut(PoolId, Found, Subject),
    /// Take the worker out of the running count.
    TakeOut(PoolId, ThreadId),
    /// Put the worker back into the running count, before its word changes. If the word changed first, the worker could
    /// go idle and leave a count that it has not joined.
    PutBack(PoolId, Found, Subject),
    /// Carry out the verdict on the pool.
    Settle(PoolId, Verdict),
}

/// The workers that were seen.
pub(super) type Seen = BTreeMap<WorkerId, Subject>;

/// The worker that a finding is about. Checkers only: its stretch at the look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    pub(super) thread: ThreadId,
    stretch: u64,
}

impl Machine {
    /// Begins a look.
    pub(super) fn look(&mut self, pool: PoolId, watch: Watch) {
        self.seen.looks += 1;
        let of_pool = &self.pools[pool];
        let word_of = |(id, thread): (&WorkerId, &ThreadId)| (*id, self.worker(*thread).state);
        let workers: Vec<_> = of_pool.workers.iter().map(word_of).collect();
        let look = Look {
            pending: of_pool.has_work(),
            help_coming: of_pool.crew.is_help_coming(),
            cpus: of_pool.word.target().map(|target| target as usize),
            per_cpu: of_pool.is_per_cpu(),
            // The simulator does not use the watchdog's reports.
            stalled_since: None,
            pace: of_pool.pace,
            given: 0,
            workers,
        };
        let subject = |(id, thread): (&WorkerId, &ThreadId)| {
            (*id, Subject { thread: *thread, stretch: self.worker(*thread).stretch })
        };
        let seen = of_pool.workers.iter().map(subject).collect();
        self.costs(self.config.look_cost);
        self.then_look([LookStep::Judge(pool, watch, look, seen)]);
    }

    /// Uses this much CPU time for the manager, which takes a CPU from other threads.
    fn costs(&mut self, cost: Duration) {
        if !cost.is_zero() {
            let mask = (1 << self.config.cpus) - 1;
            let burns = vec![Op::Burn(cost)];
            self.threads.push(Thread { mask, claims: true, ..Thread::outsider(burns) });
            self.make_runnable(self.threads.len() - 1);
        }
    }

    fn then_look<const N: usize>(&mut self, steps: [LookStep; N]) {
        steps.into_iter().rev().for_each(|step| self.look.push_front(step));
        if !self.config.racy {
            return while let Some(step) = self.look.pop_front() {
                self.go_on_looking(step);
            };
        }
        let Some(prng) = &mut self.config.prng else { return };
        if prng.chance(self.config.held_up) {
            let length = prng.pick(&[micros(20), micros(300), micros(2000)]);
            self.manager_busy = true;
            self.timers.set(self.now + length, Timer::GoesOn);
        }
    }

    pub(super) fn go_on_looking(&mut self, step: LookStep) {
        match step {
            LookStep::Judge(pool, watch, look, seen) => self.judge(pool, watch, &look, &seen),
            LookStep::CarryOut(pool, found, subject) => {
                // If a worker was put back and its word has changed meanwhile, it is taken out again.
                if self.change_word(found, subject) == found.finding.takes_out() {
                    self.then_look([LookStep::TakeOut(pool, subject.thread)]);
                }
            }
            LookStep::TakeOut(pool, thread) => {
                self.leave(thread);
                self.outsider(vec![Op::Look(pool)]);
            }
            LookStep::PutBack(pool, found, subject) => {
                self.count_again(subject.thread);
                self.then_look([LookStep::CarryOut(pool, found, subject)]);
            }
            LookStep::Settle(pool, verdict) => self.settle(pool, verdict),
        }
    }

    fn judge(&mut self, pool: PoolId, watch: Watch, look: &Look, seen: &Seen) {
        let threads: BTreeMap<_, _> = seen.iter().map(|(id, subject)| (*id, subject.thread)).collect();
        let mut facts = self.facts(&threads);
        let outcome = self.manager.looked(pool, watch, look, &mut facts, self.now);
        self.check_finds(pool, look, &outcome.found, seen);
        self.pools[pool].pace = outcome.pace;
        if self.config.trace {
            eprintln!("{:>9} ns  look       {pool} {look:?} {outcome:?}", self.now.as_nanos());
        }
        let steps = outcome.found.into_iter().map(|found| (found, seen[&found.worker]));
        for (found, subject) in steps {
            if found.finding.takes_out() {
                self.look.push_back(LookStep::CarryOut(pool, found, subject));
            } else {
                self.look.push_back(LookStep::PutBack(pool, found, subject));
            }
        }
        self.look.push_back(LookStep::Settle(pool, outcome.verdict));
        self.then_look([]);
    }

    /// Returns how many workers are in the running count although their words do not count, because the manager is
    /// between two steps.
    pub(super) fn out_of_step(&self, pool: PoolId) -> u64 {
        let is = |step: &&LookStep| match step {
            LookStep::TakeOut(of, _) => *of == pool,
            LookStep::CarryOut(of, found, _) => *of == pool && !found.finding.takes_out(),
            LookStep::Judge(..) | LookStep::PutBack(..) | LookStep::Settle(..) => false,
        };
        self.look.iter().filter(is).count() as u64
    }

    /// Changes the worker's word. Returns false if the word has changed since it was seen.
    fn change_word(&mut self, found: Found, subject: Subject) -> bool {
        let worker = self.worker(subject.thread);
        let (word, stretch) = (worker.state, worker.stretch);
        let Some(next) = word.found(found.finding).filter(|_| word == found.seen) else {
            self.seen.stale += 1;
            return false;
        };
        assert_eq!(stretch, subject.stretch, "{found:?} is carried out on another stretch");
        self.carried_out(found.finding, subject.thread, next);
        true
    }

    fn carried_out(&mut self, finding: Finding, thread: ThreadId, next: WorkerState) {
        self.worker_mut(thread).state = next;
        self.worker_mut(thread).stretch += u64::from(finding == Finding::Runs);
        *match finding {
            Finding::Asleep => &mut self.seen.found_asleep,
            Finding::Blocks => &mut self.seen.found_blocked,
            Finding::Hog => &mut self.seen.found_hogs,
            Finding::Runs => &mut self.seen.found_running,
        } += 1;
    }

    fn settle(&mut self, pool: PoolId, verdict: Verdict) {
        match verdict {
            Verdict::Watching | Verdict::Stalled(_) => {}
            Verdict::Unwatch => {
                self.seen.unwatched += 1;
                self.pools[pool].word = self.pools[pool].word.unwatch();
                self.pools[pool].looked_at = false;
                self.outsider(vec![Op::Look(pool)]);
            }
            Verdict::Stuck(since) => panic!("pool {pool} has had work and no worker on it for {since:?}"),
        }
    }
}
