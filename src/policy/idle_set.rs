//! The workers of one pool: the idle workers, the woken workers, and the worker that is being made.
//!
//! The idle set is a plain struct, which the pool's mutex protects. The idle set decides which worker gets a
//! *reservation* (the right to start), when another worker is made, and which idle workers leave. The counts in
//! [`Running`](super::concurrency::Running) say *whether* the pool wants a worker. The idle set says *which* worker the
//! pool gets.

#![forbid(unsafe_code)]

mod cpus;
mod limits;

use std::collections::VecDeque;

use super::concurrency::{PodId, Reserved};
use super::rescue::Distress;
use super::room::Shortage;
use super::time::Time;

pub(crate) use self::cpus::{free_cpu, must_take, should_shed};
pub(crate) use self::limits::{IdleLimits, MIN_IDLE};

/// The number of a worker in its pool. A new worker gets the lowest free number.
pub(crate) type WorkerId = u32;

/// The workers of a pool.
#[derive(Debug)]
pub(crate) struct IdleSet {
    /// The parked workers, in the order in which they became idle. The last worker in this order is woken first,
    /// because its cache is warm.
    idle: VecDeque<Idle>,
    /// Reservations given to woken workers that have not begun yet. The first worker to begin takes the oldest
    /// reservation.
    waking: VecDeque<Reserved>,
    /// Reservations that wait for a worker to be made or to become idle.
    owed: Vec<Reserved>,
    /// The number of workers that have arrived and have not left.
    alive: usize,
    /// Whether the manager was asked for a worker and has not delivered it. The manager may be waiting for its next
    /// attempt to make the worker.
    creating: bool,
    /// Whether the manager is making the worker that was asked for. The worker's thread has not arrived, and may not
    /// even have started.
    making: bool,
    /// The deadline at which idle workers leave. This deadline is set while too many workers are idle.
    cull_at: Option<Time>,
    /// Whether the pool is closed, so that workers leave instead of parking. The pool [opens](Self::open) again when
    /// an issuer pushes to it.
    closing: bool,
    /// The state of calls for help. A call begins when a reservation waits for a worker that cannot be made.
    distress: Distress,
    /// Whether the pool keeps a spare: an idle worker that takes over when another worker blocks.
    keeps_spare: bool,
    /// The number of workers that the pool is to have before it needs them. The value is 0 if no worker is to be made
    /// in advance.
    ahead: usize,
    limits: IdleLimits,
}

#[derive(Debug)]
struct Idle {
    id: WorkerId,
    since: Time,
    /// The CPU on which the worker ran last. The system wakes the worker on this CPU if no other CPU is idle.
    cpu: Option<usize>,
}

/// The way in which a reservation is served.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Unpark this worker, which then begins with a reservation.
    Unpark(WorkerId),
    /// Ask the manager for a worker, because no worker is idle.
    Create,
    /// No worker is idle, and the pool has already asked the manager for a worker.
    Wait,
}

/// The step that a worker takes for its pool before it begins.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepare {
    /// Do nothing. The pool needs no further worker, has already asked for one, or is closing.
    Ready,
    /// Ask the manager for a worker, because a reservation waits for one, or because the last idle worker begins. A
    /// worker that is made because the last idle worker begins is a spare. If the pool has a spare when a worker
    /// blocks, the pool wakes the spare, and need not wait for a new thread.
    CreateSpare,
}

/// The next step of a worker without work.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Park until woken.
    Park,
    /// Begin again with this reservation, which waits for a worker.
    Start(Reserved, Prepare),
    /// Leave, because the pool closes.
    Exit,
}

/// The manager's answer to a call for help at one of the pool's deadlines.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mayday {
    /// Do nothing, because no call is under way, or because the call's deadline has not come.
    Nothing,
    /// Drop these reservations. The call for help ends, because no work is left.
    StandDown(Vec<Reserved>),
    /// Call the rescuers. The call for help continues.
    Call,
}

impl IdleSet {
    pub(crate) fn new(limits: IdleLimits) -> Self {
        Self {
            idle: VecDeque::new(),
            waking: VecDeque::new(),
            owed: Vec::new(),
            alive: 0,
            creating: false,
            making: false,
            cull_at: None,
            closing: false,
            distress: Distress::default(),
            keeps_spare: true,
            ahead: 0,
            limits,
        }
    }

    /// Returns the idle set of a pool with only one worker. Such a pool makes one reservation at a time, and none while
    /// its worker runs. Because this idle set keeps no spare, it never asks for a second worker.
    pub(crate) fn of_one(limits: IdleLimits) -> Self {
        Self { keeps_spare: false, ..Self::new(limits) }
    }

    /// Gives a reservation to the most recently idle worker. If `near` is given, the worker should begin on that CPU.
    /// So if any idle workers ran last on that CPU, the most recently idle of them gets the reservation.
    ///
    /// The caller may be about to leave `near`. While the caller still runs, the system does not see that the CPU
    /// becomes idle. So if the woken worker ran last on another CPU, it would wait behind the thread that runs on that
    /// CPU now. Meanwhile, the CPU `near` would stay idle for milliseconds.
    pub(crate) fn kick(
        &mut self,
        reserved: Reserved,
        near: Option<usize>,
        now: impl FnOnce() -> Time,
    ) -> Wake {
        let neighbour = near.and_then(|cpu| self.idle.iter().rposition(|idle| idle.cpu == Some(cpu)));
        let best = neighbour.or(self.idle.len().checked_sub(1));
        if let Some(idle) = best.and_then(|at| self.idle.remove(at)) {
            self.waking.push_back(reserved);
            return Wake::Unpark(idle.id);
        }
        self.owed.push(reserved);
        match self.prepare() {
            Prepare::CreateSpare => Wake::Create,
            Prepare::Ready => {
                self.distress.call(now);
                Wake::Wait
            }
        }
    }

    /// Takes the oldest reservation for a woken worker. Returns the reservation, and the step that the worker takes
    /// before it begins.
    ///
    /// # Panics
    ///
    /// Panics if no worker was woken.
    pub(crate) fn woken(&mut self) -> (Reserved, Prepare) {
        let reserved = self.waking.pop_front().expect("a worker woke up without a reservation");
        (reserved, self.prepare())
    }

    /// Clears the errands of all reservations with which no worker has begun yet. (A worker with an errand is to take
    /// work of a sibling pod.) The caller uses this function when the woken workers get no CPU. Returns the pods whose
    /// work the workers were to take.
    pub(crate) fn hand_over_errands(&mut self) -> Vec<PodId> {
        self.waking.iter_mut().chain(&mut self.owed).filter_map(Reserved::take_errand).collect()
    }

    /// Notes that a new worker has arrived. Returns the worker's next step.
    pub(crate) fn arrived(&mut self, id: WorkerId, cpu: Option<usize>, now: Time) -> Rest {
        (self.creating, self.making) = (false, false);
        self.distress.served();
        self.alive += 1;
        self.rest(id, cpu, now)
    }

    /// Returns the next step of a worker without work. The worker has left the count of running workers in the same
    /// critical section.
    pub(crate) fn rest(&mut self, id: WorkerId, cpu: Option<usize>, now: Time) -> Rest {
        if let Some(reserved) = self.owed.pop() {
            if self.owed.is_empty() {
                self.distress.calm();
            }
            return Rest::Start(reserved, self.prepare());
        }
        if self.closing {
            self.alive -= 1;
            return Rest::Exit;
        }
        self.idle.push_back(Idle { id, since: now, cpu });
        if self.cull_at.is_none() {
            self.plan_cull();
        }
        Rest::Park
    }

    /// Returns whether the manager now begins to make a worker. The manager does so if the pool has asked for a worker
    /// that the manager is not making yet. A spare is made even if a worker has become idle since the request, because
    /// the next item would ask for a spare again. Each request leads to one worker, even if the manager has set several
    /// deadlines for the request.
    pub(crate) fn begin_making(&mut self) -> bool {
        let begins = self.awaits_worker();
        self.making |= begins;
        begins
    }

    /// Returns whether the pool waits for a worker that the manager is not making at the moment.
    fn awaits_worker(&self) -> bool {
        self.creating && !self.making && !self.closing
    }

    /// Returns whether the worker that could not be made is still wanted. If the worker is wanted, the pool's request
    /// for it remains in force.
    pub(crate) fn still_wanted(&mut self) -> bool {
        (self.creating, self.making) = (false, false);
        let wanted = self.prepare() == Prepare::CreateSpare;
        if !wanted {
            self.distress.served();
        }
        wanted
    }

    /// Notes that the executor is at its cap of threads. If a reservation waits for the worker that the pool has asked
    /// for, the request remains in force. Otherwise the request was only for a spare. The pool then withdraws the
    /// request, and the next worker that begins or blocks asks for a worker again.
    ///
    /// `is_idle` says whether no worker of the pool runs. `is_stuck` says whether the pool has begun no item for a long
    /// time. If the pool has no work any more, also returns its reservations, which the caller drops. Reservations for
    /// the work of siblings stay. For them alone, the pool starves only if it is stuck, because a sibling that calls
    /// for help runs items of its own, and may make progress.
    pub(crate) fn no_room(
        &mut self,
        has_work: bool,
        is_idle: bool,
        is_stuck: bool,
    ) -> (Shortage, Vec<Reserved>) {
        let stays = |reserved: &Reserved| has_work || reserved.errand().is_some();
        let (stay, dropped) = std::mem::take(&mut self.owed).into_iter().partition(stays);
        self.owed = stay;
        self.making = false;
        self.creating = !self.owed.is_empty();
        let shortage = match () {
            () if !self.creating => {
                self.ahead = 0;
                self.distress.served();
                Shortage::None
            }
            () if is_stuck || has_work && is_idle && self.waking.is_empty() => Shortage::Starves,
            () => Shortage::Waits,
        };
        (shortage, dropped)
    }

    /// Removes a worker that leaves between two items, because another pool needs its thread more.
    pub(crate) fn give_way(&mut self) {
        self.alive -= 1;
    }

    /// Notes that the manager cannot make the requested worker now. If a reservation waits for this worker, a call for
    /// help begins.
    pub(crate) fn unserved(&mut self, now: impl FnOnce() -> Time) {
        if self.awaits_worker() {
            self.distress.unserved();
            if !self.owed.is_empty() {
                self.distress.call(now);
            }
        }
    }

    /// Returns the manager's next step for a call for help whose deadline may have come. The caller determines
    /// `has_work` in the same critical section. So when this section ends, the call for help either has its next
    /// deadline or is over.
    pub(crate) fn mayday(&mut self, now: Time, has_work: bool) -> Mayday {
        if !self.distress.is_due(now) {
            Mayday::Nothing
        } else if !self.needs_help() {
            self.distress.calm();
            Mayday::Nothing
        } else if has_work {
            Mayday::Call
        } else {
            Mayday::StandDown(self.stand_down())
        }
    }

    /// Returns the time at which the manager must next [cull](Self::cull) or [call rescuers](Self::mayday).
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.cull_at.into_iter().chain(self.distress.mayday_at()).min()
    }

    /// Returns whether a reservation waits for a worker that cannot be made.
    pub(crate) fn needs_help(&self) -> bool {
        self.distress.is_unserved() && !self.owed.is_empty() && !self.closing
    }

    /// Notes that a rescuer leaves. If no work is left, returns the reservations, which the caller drops.
    pub(crate) fn relieved(&mut self, has_work: bool) -> Vec<Reserved> {
        if self.needs_help() && !has_work { self.stand_down() } else { Vec::new() }
    }

    /// Ends the call for help and returns the reservations. The request for a worker remains in force.
    fn stand_down(&mut self) -> Vec<Reserved> {
        self.distress.calm();
        std::mem::take(&mut self.owed)
    }

    /// Returns the reservations, which the caller drops because there is no manager that could make a worker.
    pub(crate) fn no_worker_comes(&mut self) -> Vec<Reserved> {
        self.creating = false;
        self.distress.served();
        std::mem::take(&mut self.owed)
    }

    /// If the deadline for culling has come, removes surplus workers that have been idle for the idle timeout. Returns
    /// the workers that leave.
    pub(crate) fn cull(&mut self, now: Time) -> Vec<WorkerId> {
        let mut leaving = Vec::new();
        if self.cull_at.is_none_or(|at| now < at) {
            return leaving;
        }
        while self.too_many_workers() && self.oldest_expires().is_some_and(|at| at <= now) {
            leaving.extend(self.idle.pop_front().map(|idle| idle.id));
            self.alive -= 1;
        }
        self.plan_cull();
        leaving
    }

    fn plan_cull(&mut self) {
        self.cull_at = if self.too_many_workers() { self.oldest_expires() } else { None };
    }

    /// Gives up the worker that has been idle longest, because another pool needs its thread more.
    pub(crate) fn give_up_one(&mut self) -> Option<WorkerId> {
        let idle = self.idle.pop_front()?;
        self.alive -= 1;
        Some(idle.id)
    }

    /// Closes the idle set until an issuer [opens](Self::open) it again. Returns the idle workers, which leave now.
    /// The other workers leave when they have no more work.
    pub(crate) fn close(&mut self) -> Vec<WorkerId> {
        self.closing = true;
        self.alive -= self.idle.len();
        self.idle.drain(..).map(|idle| idle.id).collect()
    }

    /// Opens the idle set again for an issuer that pushes. The issuer calls [`attend`](Self::attend) next.
    pub(crate) fn open(&mut self) {
        if self.closing {
            self.closing = false;
            if !self.making {
                // The manager may have refused to make the worker, because the pool was closing. So the pool must ask
                // for a worker again.
                self.creating = false;
                self.distress.served();
            }
        }
    }

    /// Asks for a worker if a reservation waits and no worker was asked for. The issuer calls this function after it
    /// has opened the pool.
    pub(crate) fn attend(&mut self) -> Prepare {
        if self.owed.is_empty() { Prepare::Ready } else { self.prepare() }
    }

    /// Returns whether a worker is on its way or was asked for. If there is no such worker, and no worker runs, pending
    /// work would wait for ever.
    pub(crate) fn is_help_coming(&self) -> bool {
        self.creating || !self.waking.is_empty() || !self.owed.is_empty()
    }

    /// Returns whether more workers are idle than the limits allow. The limits always allow `min_idle` idle workers,
    /// and `n` more only while more than `n * idle_ratio` workers are busy.
    pub(crate) fn too_many_workers(&self) -> bool {
        let busy = self.alive - self.idle.len();
        let surplus = self.idle.len().saturating_sub(self.limits.min_idle);
        surplus > 0 && surplus.saturating_mul(self.limits.idle_ratio) >= busy
    }

    pub(crate) fn alive(&self) -> usize {
        self.alive
    }

    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }

    pub(crate) fn is_creating(&self) -> bool {
        self.creating
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Asks for a worker if a reservation waits or the last idle worker begins. So whenever a worker begins, another
    /// worker remains idle or is asked for.
    fn prepare(&mut self) -> Prepare {
        // A pool that has given its last worker's thread to another pool needs no spare.
        let spare = self.keeps_spare && self.alive > 0 && self.idle.is_empty();
        let wanted = spare || !self.owed.is_empty();
        if wanted && !self.creating && !self.closing {
            self.creating = true;
            Prepare::CreateSpare
        } else {
            Prepare::Ready
        }
    }

    /// Returns the time at which the longest-idle worker will have been idle for the idle timeout.
    fn oldest_expires(&self) -> Option<Time> {
        Some(self.idle.front()?.since + self.limits.idle_timeout)
    }
}

#[cfg(test)]
mod tests;
