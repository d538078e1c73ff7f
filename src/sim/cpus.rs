//! The CPUs and their scheduler.
//!
//! There is one list of runnable threads. An idle CPU takes the first thread of the list that may run there. So a
//! thread finds every idle CPU of its mask, and moving costs nothing. A thread that burns for a slice while another one
//! wants its CPU goes to the end of the list. If no CPU is idle, a thread with a claim takes the CPU of a thread
//! without one. Threads with a claim are issuers, the manager, and processes of a higher priority.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::machine::{Machine, Timer};
use super::pool::{Thread, ThreadId};
use super::script::Op;
use crate::policy::deadlines::Deadline;
use crate::policy::time::Time;

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cpu {
    pub(super) thread: Option<ThreadId>,
    /// If its thread burns: when the burn ends, and when it began.
    burning: Option<(Deadline, Time)>,
    /// How long it has been used.
    pub(super) used: Duration,
}

impl Machine {
    /// Starts a thread at `at` that needs one of these CPUs for these steps.
    pub(super) fn comes(&mut self, at: Time, mask: u64, claims: bool, mut ops: Vec<Op>) {
        ops.reverse();
        self.timers.set(at, Timer::Comes(Thread { mask, claims, ..Thread::outsider(ops) }));
    }

    pub(super) fn has_free_step(&self, cpu: usize) -> bool {
        match self.cpus[cpu].thread {
            Some(_) => self.cpus[cpu].burning.is_none(),
            None => self.first_ready(cpu).is_some(),
        }
    }

    /// Performs the next step on this CPU.
    pub(super) fn use_cpu(&mut self, cpu: usize) {
        let Some(thread) = self.cpus[cpu].thread else { return self.switch_to_first_ready(cpu) };
        match self.threads[thread].todo.last() {
            Some(Op::Burn(_)) if self.is_put_off(thread, cpu) => {
                self.give_up_cpu(thread);
                self.make_runnable(thread);
            }
            Some(Op::Burn(left)) => self.burn(cpu, *left),
            Some(_) => self.advance(thread),
            // It is not a worker, and has no steps left.
            None => self.give_up_cpu(thread),
        }
    }

    /// Returns the place in the ready list of the first thread that may use this CPU.
    fn first_ready(&self, cpu: usize) -> Option<usize> {
        let may = |thread: &ThreadId| self.threads[*thread].mask & 1 << cpu != 0;
        let claims = |thread: &ThreadId| may(thread) && self.threads[*thread].claims;
        self.ready.iter().position(claims).or_else(|| self.ready.iter().position(may))
    }

    fn switch_to_first_ready(&mut self, cpu: usize) {
        let first = self.first_ready(cpu).and_then(|index| self.ready.remove(index));
        let thread = first.expect("the CPU was chosen because a thread wants it");
        self.cpus[cpu].thread = Some(thread);
        self.threads[thread].cpu = Some(cpu);
    }

    /// Returns whether this thread has no claim, and a thread with a claim waits for its CPU.
    fn is_put_off(&self, thread: ThreadId, cpu: usize) -> bool {
        let claimed = || self.first_ready(cpu).is_some_and(|index| self.threads[self.ready[index]].claims);
        !self.threads[thread].claims && claimed()
    }

    fn burn(&mut self, cpu: usize, left: Duration) {
        let spent = self.config.slice.map_or(left, |slice| slice.min(left));
        let end = self.timers.set(self.now + spent, Timer::Burnt { cpu, spent });
        self.cpus[cpu].burning = Some((end, self.now));
    }

    pub(super) fn burnt(&mut self, cpu: usize, spent: Duration) {
        let thread = self.stops_to_burn(cpu, spent);
        let goes_on = matches!(self.threads[thread].todo.last(), Some(Op::Burn(_)));
        if goes_on && self.first_ready(cpu).is_some() {
            self.give_up_cpu(thread);
            self.make_runnable(thread);
        }
    }

    fn stops_to_burn(&mut self, cpu: usize, spent: Duration) -> ThreadId {
        self.cpus[cpu].burning = None;
        self.cpus[cpu].used += spent;
        let thread = self.cpus[cpu].thread.expect("a burning CPU has a thread");
        self.threads[thread].used += spent;
        let Some(Op::Burn(left)) = self.threads[thread].todo.pop() else {
            unreachable!("thread {thread} burned for nothing");
        };
        if left > spent {
            self.then(thread, [Op::Burn(left - spent)]);
        }
        thread
    }

    /// Puts a thread at the tail of the run queue.
    pub(super) fn make_runnable(&mut self, thread: ThreadId) {
        if !self.threads[thread].needs_cpu() {
            return self.outsiders.push(thread);
        }
        self.ready.push_back(thread);
        if self.threads[thread].claims {
            self.claim(self.threads[thread].mask);
        }
    }

    /// If all of these CPUs burn, takes one away from a thread without a claim. A CPU that does not burn takes its next
    /// step anyway.
    fn claim(&mut self, mask: u64) {
        let of_mask = |cpu: &usize| mask & 1 << cpu != 0;
        let mut cpus = (0..self.cpus.len()).filter(of_mask);
        if cpus.clone().any(|cpu| self.cpus[cpu].burning.is_none()) {
            return;
        }
        let gives_way =
            |cpu: &usize| self.cpus[*cpu].thread.is_some_and(|thread| !self.threads[thread].claims);
        if let Some(cpu) = cpus.find(gives_way) {
            let (end, since) = self.cpus[cpu].burning.expect("all of them burn");
            self.timers.cancel(end);
            let thread = self.stops_to_burn(cpu, self.now.since(since));
            self.give_up_cpu(thread);
            self.ready.push_front(thread);
            self.seen.put_off += 1;
        }
    }

    pub(super) fn give_up_cpu(&mut self, thread: ThreadId) {
        let cpu = self.threads[thread].cpu.take().expect("only a thread on a CPU can give it up");
        self.cpus[cpu].thread = None;
    }

    /// Takes the thread off its CPU until `duration` is over.
    pub(super) fn sleep(&mut self, thread: ThreadId, duration: Duration) {
        match self.threads[thread].needs_cpu() {
            true => self.give_up_cpu(thread),
            false => self.outsiders.retain(|outsider| *outsider != thread),
        }
        self.timers.set(self.now + duration, Timer::Resume(thread));
        self.fell_asleep(thread);
    }

    /// Returns how much CPU time this thread has used until now.
    pub(super) fn cpu_time(&self, thread: ThreadId) -> Duration {
        let burning = self.threads[thread].cpu.and_then(|cpu| self.cpus[cpu].burning);
        self.threads[thread].used + burning.map_or(Duration::ZERO, |(_, since)| self.now.since(since))
    }
}
