//! The CPUs of a machine: which thread has each CPU, and for how long.
//!
//! A thread that becomes ready gets an idle CPU of its mask, which is the set of CPUs on which the thread may run. A
//! thread *burns* while it uses its CPU for some time. A burning thread shares its CPU in time slices with the threads
//! that wait for this CPU. A thread with a *claim* gets a CPU before all threads without a claim, and immediately takes
//! the CPU of a burning thread without a claim.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::schedule::{Schedule, State, Tid, Timer};
use crate::policy::cpu_set::CpuSet;

impl Schedule {
    /// Returns all CPUs of the machine.
    pub(super) fn all(&self) -> CpuSet {
        (0..self.cpus.len()).collect()
    }

    /// Returns the CPUs on which threads may run: all CPUs that are not away.
    pub(super) fn present(&self) -> CpuSet {
        (0..self.cpus.len()).filter(|cpu| !self.away.contains(*cpu)).collect()
    }

    /// Returns the CPUs on which the thread may run at the moment, or `None` if the thread needs no CPU. If all CPUs to
    /// which the thread is bound are away, the thread may run on any CPU that is not away.
    pub(super) fn mask(&self, thread: Tid) -> Option<CpuSet> {
        let mask = self.threads[thread].mask.as_ref()?;
        if self.away.is_empty() {
            return Some(mask.clone());
        }
        let present = self.present();
        let left = mask.intersection(&present);
        Some(if left.is_empty() { present } else { left })
    }

    /// Sets the CPUs on which no thread may run from now on. The set must not contain all CPUs of the machine.
    pub(super) fn set_away(&mut self, away: CpuSet) {
        self.away = away;
        let left = self.present().first().expect("at least one CPU is left");
        for thread in self.threads.iter_mut().filter(|thread| thread.mask.is_none()) {
            if self.away.contains(thread.cpu) {
                thread.cpu = left;
            }
        }
        let taken: Vec<_> = self.away.iter().filter(|cpu| self.cpus[*cpu].is_some()).collect();
        taken.into_iter().for_each(|cpu| self.preempt(cpu));
        self.fill();
    }

    /// Returns the CPUs that no thread has.
    pub(super) fn idle(&self) -> CpuSet {
        (0..self.cpus.len()).filter(|cpu| self.cpus[*cpu].is_none()).collect()
    }

    /// Lets a thread of another process take this CPU for the given time. The other process's thread has a claim, and
    /// takes no steps.
    pub(super) fn take(&mut self, cpu: usize, time: Duration) {
        assert!(!time.is_zero(), "it would have to take a step");
        let thread = self.add("neighbour".to_owned(), Some(CpuSet::single(cpu)));
        self.threads[thread].is_foreign = true;
        self.threads[thread].left = time;
        self.claim(thread);
        self.make_ready(thread);
    }

    /// Gives the thread a claim. From now on, this thread gets a CPU before all threads without a claim.
    pub(super) fn claim(&mut self, thread: Tid) {
        self.threads[thread].claims = true;
    }

    pub(super) fn make_ready(&mut self, thread: Tid) {
        self.threads[thread].number += 1;
        if self.threads[thread].mask.is_none() {
            self.threads[thread].state = State::Runs;
            self.apart.push(thread);
        } else {
            self.threads[thread].state = State::Ready;
            let claims = |other: &Tid| self.threads[*other].claims;
            let place = self.ready.iter().position(|other| claims(&thread) && !claims(other));
            self.ready.insert(place.unwrap_or(self.ready.len()), thread);
            self.fill();
        }
    }

    /// Gives idle CPUs to threads that wait for a CPU.
    pub(super) fn fill(&mut self) {
        for at in 0.. {
            let Some(thread) = self.ready.get(at).copied() else { break };
            let may = self.mask(thread).unwrap_or_default();
            let idle = |cpu: &usize| may.contains(*cpu) && self.cpus[*cpu].is_none();
            // The thread prefers the CPU on which it ran last.
            let last = self.threads[thread].cpu;
            if let Some(cpu) = Some(last).into_iter().chain(0..self.cpus.len()).find(idle) {
                self.ready.remove(at);
                return self.give(cpu, thread);
            }
        }
        self.set_slices();
    }

    fn give(&mut self, cpu: usize, thread: Tid) {
        self.cpus[cpu] = Some(thread);
        self.threads[thread].cpu = cpu;
        self.threads[thread].state = State::Runs;
        if !self.threads[thread].left.is_zero() {
            self.go_on_burning(thread);
        } else if self.threads[thread].is_foreign {
            return self.end(thread);
        }
        self.fill();
    }

    fn go_on_burning(&mut self, thread: Tid) {
        self.threads[thread].state = State::Burns(self.now);
        self.threads[thread].number += 1;
        let end = self.now + self.threads[thread].left;
        self.set_timer(end, Timer::Burnt(thread, self.threads[thread].number));
        self.set_slices();
    }

    /// Makes each thread that *burns* (uses its CPU for some time) share this CPU with the threads that wait for it. A
    /// waiting thread with a claim gets the CPU immediately.
    fn set_slices(&mut self) {
        for cpu in 0..self.cpus.len() {
            let Some(thread) = self.burner(cpu) else { continue };
            let Some(waits) = self.waits_for(cpu) else { continue };
            if self.threads[waits].claims && !self.threads[thread].claims {
                return self.preempt(cpu);
            }
            if !self.slices[cpu] {
                self.slices[cpu] = true;
                self.set_timer(self.now + self.config.slice, Timer::Slice(cpu));
            }
        }
    }

    fn burner(&self, cpu: usize) -> Option<Tid> {
        self.cpus[cpu].filter(|thread| matches!(self.threads[*thread].state, State::Burns(_)))
    }

    /// Makes the thread stop burning, because the time for which it was to burn is over. The thread keeps its CPU,
    /// unless it belongs to another process.
    pub(super) fn burn_ends(&mut self, thread: Tid) {
        self.account(thread);
        self.threads[thread].left = Duration::ZERO;
        self.threads[thread].state = State::Runs;
        if self.threads[thread].is_foreign {
            self.end(thread);
        }
    }

    /// Ends the time slice of the thread that uses this CPU.
    pub(super) fn slice_ends(&mut self, cpu: usize) {
        self.slices[cpu] = false;
        if self.burner(cpu).is_some() && self.waits_for(cpu).is_some() {
            self.preempt(cpu);
        }
    }

    /// Returns whether another thread waits for the CPU of this thread.
    #[cfg(test)]
    pub(super) fn is_wanted(&self, thread: Tid) -> bool {
        self.waits_for(self.threads[thread].cpu).is_some()
    }

    /// Returns the first thread that waits for this CPU.
    fn waits_for(&self, cpu: usize) -> Option<Tid> {
        let may = |thread: &Tid| {
            let mask = if self.away.is_empty() { None } else { self.mask(*thread) };
            mask.as_ref().or(self.threads[*thread].mask.as_ref()).is_some_and(|mask| mask.contains(cpu))
        };
        self.ready.iter().copied().find(may)
    }

    /// Takes the CPU away from the thread.
    pub(super) fn leave_cpu(&mut self, thread: Tid) {
        match self.cpus.iter().position(|on| *on == Some(thread)) {
            Some(cpu) => self.cpus[cpu] = None,
            None => self.apart.retain(|other| *other != thread),
        }
    }

    /// Makes the thread burn, which means that it uses its CPU for this time.
    pub(super) fn burn(&mut self, thread: Tid, time: Duration) {
        if self.threads[thread].mask.is_none() {
            return self.sleep(thread, Some(self.now + time));
        }
        self.threads[thread].left = time;
        if !time.is_zero() {
            self.go_on_burning(thread);
        }
    }

    /// Binds the thread to these CPUs. Does nothing if the thread needs no CPU.
    pub(super) fn bind(&mut self, thread: Tid, cpus: CpuSet) {
        if self.threads[thread].mask.is_none() {
            return;
        }
        let at = self.threads[thread].cpu;
        let stays = cpus.contains(at);
        self.threads[thread].mask = Some(cpus);
        if stays {
            return self.fill();
        }
        match self.threads[thread].state {
            State::Runs => {
                self.leave_cpu(thread);
                self.make_ready(thread);
            }
            State::Burns(_) => self.preempt(at),
            State::Ready => self.fill(),
            State::Sleeps | State::Wakes | State::Ended => {}
        }
    }

    /// Takes this CPU from the thread that has it, and makes that thread wait for a CPU again.
    pub(super) fn preempt(&mut self, cpu: usize) {
        let Some(thread) = self.cpus[cpu] else { return };
        self.account(thread);
        self.leave_cpu(thread);
        self.make_ready(thread);
    }

    /// Updates a thread's CPU time: adds the time for which the thread has burned since the last update.
    pub(super) fn account(&mut self, thread: Tid) {
        let burner = &mut self.threads[thread];
        if let State::Burns(since) = burner.state {
            let used = self.now.since(since);
            burner.cpu_time += used;
            burner.left = burner.left.saturating_sub(used);
            burner.state = State::Burns(self.now);
        }
    }

    /// Returns the CPU time that the thread has used.
    pub(super) fn cpu_time(&mut self, thread: Tid) -> Duration {
        self.account(thread);
        self.threads[thread].cpu_time
    }
}
