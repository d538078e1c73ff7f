//! The workers of one pool: idle ones, woken ones, and the one that is being made.
//!
//! A plain struct inside the pool's mutex. It decides which worker gets a reservation, when another worker is
//! made, and which idle workers leave. The counts in [`Running`](super::concurrency::Running) say *whether*
//! the pool wants a worker; the idle set says *which*.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use super::concurrency::{PodId, Reserved, Running};
use super::cpu_set::CpuSet;
use super::rescue::Distress;
use super::room::Shortage;
use super::time::Time;

/// The number of a worker in its pool; a new worker gets the lowest free one.
pub(crate) type WorkerId = u32;

/// When idle workers leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleLimits {
    /// How long a worker must have been idle.
    pub(crate) idle_timeout: Duration,
    /// Beyond the two that always stay, one idle worker is kept for this many busy ones.
    pub(crate) idle_ratio: usize,
}

/// The workers of a pool.
#[derive(Debug)]
pub(crate) struct IdleSet {
    /// Parked workers, the most recently idle last: it is woken first, because its cache is warm.
    idle: VecDeque<Idle>,
    /// Reservations given to woken workers that have not begun yet. The first worker to begin takes the
    /// oldest.
    waking: VecDeque<Reserved>,
    /// Reservations that wait for a worker to be made or to become idle.
    owed: Vec<Reserved>,
    /// Workers that have arrived and not left.
    alive: usize,
    /// The manager was asked for a worker and has not delivered it. It may be waiting to try again.
    creating: bool,
    /// The manager is making the worker: its thread was started and has not arrived.
    making: bool,
    /// The deadline at which idle workers leave. It is set while too many workers are idle.
    cull_at: Option<Time>,
    /// No issuer will push again: workers leave instead of parking.
    closing: bool,
    /// The state of calls for help, which begin when an owed worker cannot be made.
    distress: Distress,
    /// Whether an idle worker is kept in reserve for when one blocks.
    keeps_spare: bool,
    limits: IdleLimits,
}

#[derive(Debug)]
struct Idle {
    id: WorkerId,
    since: Time,
    /// The CPU where it ran last. The system wakes it there if no other CPU is idle.
    cpu: Option<usize>,
}

/// How a reservation is served.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Unpark this worker: the reservation is its own.
    Unpark(WorkerId),
    /// No worker is idle: ask the manager for one.
    Create,
    /// No worker is idle, and the manager was asked for one before.
    Wait,
}

/// What a worker does for its pool before it begins.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepare {
    /// An idle worker remains, or is being made.
    Ready,
    /// It was the last idle worker: ask the manager for a spare, so that a block costs a wake-up instead of a
    /// new thread.
    CreateSpare,
}

/// What a worker without work does.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Park until woken.
    Park,
    /// A reservation waits for a worker: begin again with it.
    Start(Reserved, Prepare),
    /// The pool closes: leave.
    Exit,
}

/// What the deadline of a call for help leads to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mayday {
    /// It is not time yet, or no call lasts.
    Nothing,
    /// The call ends, because no work is left. Drop these reservations.
    StandDown(Vec<Reserved>),
    /// Call the rescuers. The call goes on.
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
            limits,
        }
    }

    /// An idle set of one worker. Its pool reserves one worker at a time, and none while that one runs. Without a
    /// spare, a second worker is never asked for.
    pub(crate) fn of_one(limits: IdleLimits) -> Self {
        Self { keeps_spare: false, ..Self::new(limits) }
    }

    /// Gives a reservation to a worker: to the most recently idle one. If the caller is about to leave the
    /// CPU `near`, it gets the most recently idle one of those that ran there.
    ///
    /// While the caller still runs, the system sees no idle CPU. It would put a worker that ran elsewhere
    /// behind the thread that runs there now, and leave this CPU idle for milliseconds.
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

    /// Takes the oldest reservation for a woken worker. Returns it, and what the worker does before it
    /// begins.
    ///
    /// # Panics
    ///
    /// If no worker was woken.
    pub(crate) fn woken(&mut self) -> (Reserved, Prepare) {
        let reserved = self.waking.pop_front().expect("a worker woke up without a reservation");
        (reserved, self.prepare())
    }

    /// Takes the errands from the reservations of workers that are on their way, because these do not get a CPU.
    /// Returns the sibling pods for whose work the workers were woken.
    pub(crate) fn hand_over_errands(&mut self) -> Vec<PodId> {
        self.waking.iter_mut().chain(&mut self.owed).filter_map(Reserved::take_errand).collect()
    }

    /// Notes that a new worker has arrived. Returns what it does.
    pub(crate) fn arrived(&mut self, id: WorkerId, cpu: Option<usize>, now: Time) -> Rest {
        (self.creating, self.making) = (false, false);
        self.distress.served();
        self.alive += 1;
        self.rest(id, cpu, now)
    }

    /// Returns what a worker does that has no work. It left the count of running workers in the same critical
    /// section.
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

    /// Returns whether the manager begins to make a worker: it was asked for one, and does not make it
    /// already. A spare is made even if an idle worker has come back meanwhile, because the next item would
    /// ask for it again. One request makes one worker, however many deadlines the request leaves behind.
    pub(crate) fn begin_making(&mut self) -> bool {
        let begins = self.awaits_worker();
        self.making |= begins;
        begins
    }

    /// Returns whether a worker was asked for that is not being made at the moment.
    fn awaits_worker(&self) -> bool {
        self.creating && !self.making && !self.closing
    }

    /// Returns whether the worker that could not be made is still wanted. If so, it stays asked for.
    pub(crate) fn still_wanted(&mut self) -> bool {
        (self.creating, self.making) = (false, false);
        let wanted = self.prepare() == Prepare::CreateSpare;
        if !wanted {
            self.distress.served();
        }
        wanted
    }

    /// Notes that the executor is at its cap of threads. The worker stays asked for if a reservation waits for it.
    /// A mere spare is not worth waiting for: the next worker that begins or blocks asks again.
    /// `is_idle`: no worker of the pool runs. `is_stuck`: the pool has begun no item for long.
    pub(crate) fn no_room(&mut self, is_idle: bool, is_stuck: bool) -> Shortage {
        self.making = false;
        self.creating = !self.owed.is_empty();
        if !self.creating {
            self.distress.served();
            return Shortage::None;
        }
        if is_stuck || is_idle && self.waking.is_empty() { Shortage::Starves } else { Shortage::Waits }
    }

    /// Removes a worker that leaves between two items, because another pool needs its thread more.
    pub(crate) fn give_way(&mut self) {
        self.alive -= 1;
    }

    /// Notes that the worker cannot be made now. If a reservation waits for it, a call for help begins.
    pub(crate) fn unserved(&mut self, now: impl FnOnce() -> Time) {
        if self.awaits_worker() {
            self.distress.unserved();
            if !self.owed.is_empty() {
                self.distress.call(now);
            }
        }
    }

    /// Returns what the deadline of a call leads to, if that has come. The pool's current call has a deadline until it
    /// ends, so `has_work` is determined in the same critical section.
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

    /// Returns when the manager is next to [cull](Self::cull) or to [call rescuers](Self::mayday).
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.cull_at.into_iter().chain(self.distress.mayday_at()).min()
    }

    /// Returns whether a reservation waits for a worker that cannot be made.
    pub(crate) fn needs_help(&self) -> bool {
        self.distress.is_unserved() && !self.owed.is_empty() && !self.closing
    }

    /// Notes that a rescuer leaves. If no work is left, returns the reservations, to be dropped.
    pub(crate) fn relieved(&mut self, has_work: bool) -> Vec<Reserved> {
        if self.needs_help() && !has_work { self.stand_down() } else { Vec::new() }
    }

    /// Ends the call and returns the reservations. The worker stays asked for.
    fn stand_down(&mut self) -> Vec<Reserved> {
        self.distress.calm();
        std::mem::take(&mut self.owed)
    }

    /// Returns the reservations, to be dropped: no thread exists that could make a worker.
    pub(crate) fn nobody_comes(&mut self) -> Vec<Reserved> {
        self.creating = false;
        self.distress.served();
        std::mem::take(&mut self.owed)
    }

    /// Removes idle workers beyond the limits that have been idle long enough, if the time has come. Returns the workers
    /// that leave.
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

    /// Gives the oldest idle worker up, because another pool needs a thread more.
    pub(crate) fn give_up_one(&mut self) -> Option<WorkerId> {
        let idle = self.idle.pop_front()?;
        self.alive -= 1;
        Some(idle.id)
    }

    /// Closes the idle set: no issuer will push again. The idle workers leave now, the others when they are done.
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
                // A worker that was asked for, and not begun, is not made while the pool closes. It is asked
                // for anew.
                self.creating = false;
                self.distress.served();
            }
        }
    }

    /// After the pool was opened: asks for a worker if a reservation waits for one that was not asked for.
    pub(crate) fn attend(&mut self) -> Prepare {
        if self.owed.is_empty() { Prepare::Ready } else { self.prepare() }
    }

    /// Returns whether a worker is on its way or asked for. If not, and none runs, pending work would wait
    /// forever.
    pub(crate) fn is_help_coming(&self) -> bool {
        self.creating || !self.waking.is_empty() || !self.owed.is_empty()
    }

    /// Returns whether, beyond two, more workers are idle than one for each `idle_ratio` busy ones.
    pub(crate) fn too_many_workers(&self) -> bool {
        let busy = self.alive - self.idle.len();
        self.idle.len() > 2 && (self.idle.len() - 2).saturating_mul(self.limits.idle_ratio) >= busy
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

    /// Asks for a worker if a reservation waits or the last idle worker begins. So whenever a worker begins,
    /// an idle one remains or is asked for.
    fn prepare(&mut self) -> Prepare {
        // A pool whose last worker was given up to another one needs no spare.
        let spare = self.keeps_spare && self.alive > 0 && self.idle.is_empty();
        let wanted = spare || !self.owed.is_empty();
        if wanted && !self.creating && !self.closing {
            self.creating = true;
            Prepare::CreateSpare
        } else {
            Prepare::Ready
        }
    }

    /// Returns when the oldest idle worker has been idle for the idle timeout.
    fn oldest_expires(&self) -> Option<Time> {
        Some(self.idle.front()?.since + self.limits.idle_timeout)
    }
}

/// Returns whether the worker on the CPU `mine` leaves, when more workers run than should. It stays while it
/// has its CPU to itself and two of the others share one, because the system would take milliseconds to
/// spread these. The others decide by the same rule, so one of them leaves.
pub(crate) fn should_shed(mine: usize, others: impl Iterator<Item = usize> + Clone) -> bool {
    let two_share = |(at, cpu)| others.clone().skip(at + 1).any(|other| other == cpu);
    others.clone().any(|cpu| cpu == mine) || !others.clone().enumerate().any(two_share)
}

/// Returns whether a woken worker has to begin on the CPU `left`, which its waker is about to leave. The
/// woken worker ran on the CPU `ran_on` last. `running` includes the reservation.
///
/// On `ran_on`, the system would put it behind the thread that runs there now, and leave the other CPU idle
/// for milliseconds. If the pool needs more workers, it has another CPU to spare, and the system may use
/// that.
///
/// If the guard returns at once, its worker stays on the CPU after all. The woken worker then waits there for
/// the end of one time slice, while another CPU may become idle: 0.7 ms, or commonly 3 ms before Linux 6.12.
pub(crate) fn must_take(left: usize, ran_on: usize, running: Running) -> bool {
    ran_on != left && !running.need_more_worker()
}

/// Returns a CPU where a woken worker may begin: `preferred` if it is free, another free one, or `None`.
/// A CPU is free if it is not `taken`. Of the pool's `present` CPUs, only those of its `home` are considered, if
/// there are any: a woken worker begins in its pod.
pub(crate) fn free_cpu(
    present: &CpuSet,
    home: Option<&CpuSet>,
    taken: &CpuSet,
    preferred: usize,
) -> Option<usize> {
    let at_home = home.map(|home| present.intersection(home)).filter(|at_home| !at_home.is_empty());
    let free = |cpu: &usize| !taken.contains(*cpu);
    let among = at_home.as_ref().unwrap_or(present);
    Some(preferred).filter(|cpu| among.contains(*cpu) && free(cpu)).or_else(|| among.iter().find(free))
}

#[cfg(test)]
mod tests;
