//! The steps of the manager: it makes workers, lets idle ones go, and looks at saturated pools.

#![forbid(unsafe_code)]

use super::machine::{Machine, Timer};
use super::pool::{Notice, PoolId, Thread, Worker};
use super::script::Op;
use crate::policy::manager::{CREATION_COOLDOWN, Duty};
use crate::policy::worker::Phase;

impl Machine {
    /// Continues the current look, or else does one duty that is due, if there is one.
    pub(super) fn manage(&mut self) {
        match self.look.pop_front() {
            Some(step) => self.go_on_looking(step),
            None => self.do_duty(),
        }
    }

    fn do_duty(&mut self) {
        let Some(duty) = self.manager.take_due(self.now) else { return };
        if self.config.trace {
            eprintln!("{:>9} ns  manager    {duty:?}", self.now.as_nanos());
        }
        match duty {
            Duty::Create(pool) => {
                if !self.pools[pool].crew.begin_making() {
                    return self.needs_no_room(pool);
                }
                if !self.manager.is_next(|known| *known == pool) {
                    return self.wait_its_turn(pool);
                }
                let (word, comes) = self.word.worker_comes(self.max_threads);
                self.word = word;
                if !comes {
                    return self.make_room(pool);
                }
                self.finds_room(pool);
                assert!(self.now >= self.cooling_until, "a thread was tried too soon after a failure");
                let latency = self.up_to(self.config.creation_latency);
                if latency.is_zero() {
                    self.tried_to_create(pool);
                } else {
                    self.manager_busy = true;
                    self.timers.set(self.now + latency, Timer::Tried(pool));
                }
            }
            Duty::Unserved(pool) => {
                if let Some(call) = self.pools[pool].crew.unserved() {
                    self.manager.call(pool, call, self.now);
                }
            }
            Duty::Mayday(pool, call) => self.mayday(pool, call),
            Duty::Cull(pool) => {
                let cull = self.pools[pool].crew.cull(self.now);
                self.seen.culled += cull.leaving.len();
                for id in cull.leaving {
                    self.check_cull(pool, id);
                    self.tell_to_leave(pool, id);
                }
                if let Some(at) = cull.again_at {
                    self.manager.cull(pool, at);
                }
            }
            Duty::Look(pool, watch) => self.look(pool, watch),
            Duty::Stall(pool) => self.look_for_stall(pool),
            Duty::Clean => unreachable!("the simulator has no values of users to drop"),
            Duty::Hurry => self.hurry(),
            Duty::TryLine => unreachable!("`Manager` answers this duty itself"),
        }
    }

    /// Tells the manager that a pool wants a worker.
    pub(super) fn ask_to_create(&mut self, pool: PoolId) {
        self.pools[pool].asked_for += 1;
        self.manager.create(pool, self.now);
    }

    pub(super) fn tried_to_create(&mut self, pool: PoolId) {
        let percent = self.config.failing_creations;
        let fails = self.config.prng.as_mut().is_some_and(|prng| prng.chance(percent));
        if fails || self.pools[pool].has_no_threads {
            self.seen.failed_creations += 1;
            self.thread_left();
            self.cooling_until = self.now + CREATION_COOLDOWN;
            let still_wanted = self.pools[pool].crew.still_wanted();
            self.pools[pool].asked_for -= i64::from(!still_wanted);
            self.manager.creation_failed(still_wanted.then_some(pool), self.now);
            return;
        }
        let id = self.pools[pool].free_id();
        let thread = self.threads.len();
        self.pools[pool].workers.insert(id, thread);
        let cpus = self.pools[pool].cpus;
        self.threads.push(Thread::worker(vec![Op::Arrive], cpus, Worker::new(pool, id)));
        self.make_runnable(thread);
    }

    pub(super) fn tell_to_leave(&mut self, pool: PoolId, id: u32) {
        let thread = self.pools[pool].workers[&id];
        self.worker_mut(thread).set_phase(Phase::Exiting);
        self.unpark(pool, id, Notice::Leave);
    }
}
