//! Who wakes? The workers of one pool: idle ones, those on their way, and the one that is being made.
//!
//! A plain struct inside the pool's mutex. It decides which worker a reservation goes to, when another worker is
//! made, and which idle ones leave. The counts in [`Running`](super::concurrency::Running) say *whether* a worker
//! is wanted; this says *which*.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::Duration;

use super::concurrency::{PodId, Reserved, Running};
use super::cpu_set::CpuSet;
use super::rescue::{Call, Distress};
use super::room::Shortage;
use super::time::Time;

/// The number of a worker in its pool; the lowest free one is given to a new worker.
pub(crate) type WorkerId = u32;

/// When idle workers leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrewLimits {
    /// How long a worker must have been idle.
    pub(crate) idle_timeout: Duration,
    /// One idle worker is kept for so many busy ones, beyond the two that always stay.
    pub(crate) idle_ratio: usize,
}

/// The workers of a pool.
#[derive(Debug)]
pub(crate) struct Crew {
    /// Parked workers, the most recently idle last: it is woken first, its cache is warm.
    idle: VecDeque<Idle>,
    /// Reservations given to woken workers that have not begun yet. Who comes first takes the oldest.
    waking: VecDeque<Reserved>,
    /// Reservations that wait for a worker to be made or to become idle.
    owed: Vec<Reserved>,
    /// Workers that have arrived and not left.
    alive: usize,
    /// The manager was asked for a worker and has not delivered (it may be waiting to try again).
    creating: bool,
    /// It is at it: the thread was begun and has not arrived.
    making: bool,
    /// The manager has a deadline at which it culls.
    culling: bool,
    /// Nobody will push again: workers leave instead of parking.
    closing: bool,
    /// What follows if a worker that is owed cannot be made.
    distress: Distress,
    /// Whether an idle worker is kept in reserve for when one blocks.
    keeps_spare: bool,
    limits: CrewLimits,
}

#[derive(Debug)]
struct Idle {
    id: WorkerId,
    since: Time,
    /// Where it ran last; the system wakes it there, if no other CPU is idle.
    cpu: Option<usize>,
}

/// How a reservation is served.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Unpark this worker: the reservation is its own.
    Unpark(WorkerId),
    /// Nobody is idle: ask the manager for a worker.
    Create,
    /// Nobody is idle and one is being made already.
    Wait,
    /// Nobody is idle, and the one that was asked for cannot be made: tell the manager of this call for help.
    Call(Call),
}

/// What a worker that is about to begin owes its pool.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepare {
    /// An idle worker remains, or is being made.
    Ready,
    /// It was the last idle one: ask the manager for another, so that a block costs a wake-up and not a thread.
    CreateSpare,
}

/// What a worker does that has nothing to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Park until woken. With a time: ask the manager to cull at that time.
    Park(Option<Time>),
    /// Somebody waits for a worker: begin again with this reservation.
    Start(Reserved, Prepare),
    /// The pool closes: leave.
    Exit,
}

/// What the deadline of a call for help leads to.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mayday {
    /// The call is over.
    Lapsed,
    /// It ends here: there is no work to wait with. The reservations are to be dropped.
    StandDown(Vec<Reserved>),
    /// Call the rescuers; the call goes on.
    Call,
}

/// What culling decided.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cull {
    /// These workers leave.
    pub(crate) leaving: Vec<WorkerId>,
    /// When to cull again.
    pub(crate) again_at: Option<Time>,
}

impl Crew {
    pub(crate) fn new(limits: CrewLimits) -> Self {
        Self {
            idle: VecDeque::new(),
            waking: VecDeque::new(),
            owed: Vec::new(),
            alive: 0,
            creating: false,
            making: false,
            culling: false,
            closing: false,
            distress: Distress::default(),
            keeps_spare: true,
            limits,
        }
    }

    /// A crew of one worker. Its pool reserves one at a time, and none while that one runs, so with no spare nobody is
    /// ever asked for beside it.
    pub(crate) fn of_one(limits: CrewLimits) -> Self {
        Self { keeps_spare: false, ..Self::new(limits) }
    }

    /// Somebody reserved a worker: whom does it get? The most recently idle one; if the caller is about to leave the
    /// CPU `near`, the most recently idle one of those that ran there.
    ///
    /// While the caller still runs, the system sees no idle CPU. It would put a worker that ran elsewhere behind the
    /// one that runs there, and leave this CPU idle for milliseconds.
    pub(crate) fn kick(&mut self, reserved: Reserved, near: Option<usize>) -> Wake {
        let neighbour = near.and_then(|cpu| self.idle.iter().rposition(|idle| idle.cpu == Some(cpu)));
        let best = neighbour.or(self.idle.len().checked_sub(1));
        if let Some(idle) = best.and_then(|at| self.idle.remove(at)) {
            self.waking.push_back(reserved);
            return Wake::Unpark(idle.id);
        }
        self.owed.push(reserved);
        match self.prepare() {
            Prepare::CreateSpare => Wake::Create,
            Prepare::Ready => self.distress.call().map_or(Wake::Wait, Wake::Call),
        }
    }

    /// A woken worker takes its reservation, and learns what it must see to before it begins.
    ///
    /// # Panics
    ///
    /// If nobody was woken.
    pub(crate) fn woken(&mut self) -> (Reserved, Prepare) {
        let reserved = self.waking.pop_front().expect("a worker woke up without a reservation");
        (reserved, self.prepare())
    }

    /// Those who are on their way do not get a CPU: their errands are somebody else's now.
    pub(crate) fn hand_over_errands(&mut self) -> Vec<PodId> {
        self.waking.iter_mut().chain(&mut self.owed).filter_map(Reserved::take_errand).collect()
    }

    /// A new worker has arrived.
    pub(crate) fn arrived(&mut self, id: WorkerId, cpu: Option<usize>, now: Time) -> Rest {
        (self.creating, self.making) = (false, false);
        self.distress.served();
        self.alive += 1;
        self.rest(id, cpu, now)
    }

    /// A worker has nothing to do, and has left the count of running ones in the same critical section.
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
        let arm = !self.culling && self.too_many_workers();
        self.culling |= arm;
        Rest::Park(if arm { self.next_cull() } else { None })
    }

    /// The manager is about to make a worker: is one asked for, and somebody there who wants it? A spare is made also
    /// if an idle worker has come back meanwhile: it would be asked for again at the next item. Asked for once, it is
    /// made once, however many deadlines that leaves behind.
    pub(crate) fn begin_making(&mut self) -> bool {
        let begins = self.awaits_worker();
        self.making |= begins;
        begins
    }

    /// Is a worker asked for that nobody is making at the moment?
    fn awaits_worker(&self) -> bool {
        self.creating && !self.making && !self.closing
    }

    /// The worker that was asked for could not be made: is it still wanted? If so, it stays asked for.
    pub(crate) fn still_wanted(&mut self) -> bool {
        (self.creating, self.making) = (false, false);
        let wanted = self.prepare() == Prepare::CreateSpare;
        if !wanted {
            self.distress.served();
        }
        wanted
    }

    /// There are as many threads as may be. If a reservation waits for one, the worker stays asked for. A mere spare is
    /// not worth waiting for: the next worker that begins, or blocks, asks again. `is_idle`: no worker of the pool runs;
    /// `is_stuck`: it has begun no item for long.
    pub(crate) fn no_room(&mut self, is_idle: bool, is_stuck: bool) -> Shortage {
        self.making = false;
        self.creating = !self.owed.is_empty();
        if !self.creating {
            self.distress.served();
            return Shortage::None;
        }
        if is_stuck || is_idle && self.waking.is_empty() { Shortage::Starves } else { Shortage::Waits }
    }

    /// A worker leaves between two items, since another pool needs its thread more.
    pub(crate) fn give_way(&mut self) {
        self.alive -= 1;
    }

    /// The worker that was asked for cannot be made now. If somebody waits for it: the call for help that begins.
    pub(crate) fn unserved(&mut self) -> Option<Call> {
        if !self.awaits_worker() {
            return None;
        }
        self.distress.unserved();
        if self.owed.is_empty() { None } else { self.distress.call() }
    }

    /// The deadline of a call has come. A call that is the pool's has a deadline until it ends: so whether there is work
    /// is seen in the same critical section.
    pub(crate) fn mayday(&mut self, call: Call, has_work: bool) -> Mayday {
        match self.still_calls(call) {
            false => Mayday::Lapsed,
            true if has_work => Mayday::Call,
            true => Mayday::StandDown(self.stand_down()),
        }
    }

    /// Does somebody still wait, for whom this call was made?
    pub(crate) fn still_calls(&self, call: Call) -> bool {
        self.needs_help() && self.distress.is_calling(call)
    }

    /// Does somebody wait for a worker that cannot be made?
    pub(crate) fn needs_help(&self) -> bool {
        self.distress.is_unserved() && !self.owed.is_empty() && !self.closing
    }

    /// A rescuer leaves. If there is no work left to wait with: hands the reservations back, to be dropped.
    pub(crate) fn relieved(&mut self, has_work: bool) -> Vec<Reserved> {
        if self.needs_help() && !has_work { self.stand_down() } else { Vec::new() }
    }

    /// The worker stays asked for.
    fn stand_down(&mut self) -> Vec<Reserved> {
        self.distress.calm();
        std::mem::take(&mut self.owed)
    }

    /// There is nobody who could make a worker: hands the reservations back, to be dropped.
    pub(crate) fn nobody_comes(&mut self) -> Vec<Reserved> {
        self.creating = false;
        self.distress.served();
        std::mem::take(&mut self.owed)
    }

    /// Idle workers beyond the limits leave once they were idle long enough.
    pub(crate) fn cull(&mut self, now: Time) -> Cull {
        let mut leaving = Vec::new();
        while self.too_many_workers() && self.next_cull().is_some_and(|at| at <= now) {
            leaving.extend(self.idle.pop_front().map(|idle| idle.id));
            self.alive -= 1;
        }
        self.culling = self.too_many_workers();
        Cull { leaving, again_at: if self.culling { self.next_cull() } else { None } }
    }

    /// Another pool needs a thread more than this one needs its oldest idle worker.
    pub(crate) fn give_up_one(&mut self) -> Option<WorkerId> {
        let idle = self.idle.pop_front()?;
        self.alive -= 1;
        Some(idle.id)
    }

    /// Nobody will push again. The idle workers leave now, the others when they are done.
    pub(crate) fn close(&mut self) -> Vec<WorkerId> {
        self.closing = true;
        self.alive -= self.idle.len();
        self.idle.drain(..).map(|idle| idle.id).collect()
    }

    /// Somebody pushes again, and asks next who is [owed](Self::attend).
    pub(crate) fn open(&mut self) {
        if self.closing {
            self.closing = false;
            if !self.making {
                // Who was asked for, and not begun, is not made while the pool closes: asked for anew.
                self.creating = false;
                self.distress.served();
            }
        }
    }

    /// The pool was opened: does a reservation wait for a worker that nobody was asked for?
    pub(crate) fn attend(&mut self) -> Prepare {
        if self.owed.is_empty() { Prepare::Ready } else { self.prepare() }
    }

    /// Is some worker on its way, or being made? If not, and none runs, pending work would wait forever.
    pub(crate) fn is_help_coming(&self) -> bool {
        self.creating || !self.waking.is_empty() || !self.owed.is_empty()
    }

    /// Does a reservation wait for a thread that does not exist yet?
    #[cfg(test)]
    pub(crate) fn is_starving(&self) -> bool {
        !self.owed.is_empty()
    }

    /// More idle workers than one for `idle_ratio` busy ones, beyond two?
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

    /// Keeps the promise that an idle worker remains, or is being made, whenever one begins to work.
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

    fn next_cull(&self) -> Option<Time> {
        Some(self.idle.front()?.since + self.limits.idle_timeout)
    }
}

/// More workers run than should: does the one on the CPU `mine` leave? Not while it has its CPU to itself and two of
/// the others share one: the system would take milliseconds to spread these. They see the same, and one leaves.
pub(crate) fn should_shed(mine: usize, others: impl Iterator<Item = usize> + Clone) -> bool {
    let two_share = |(at, cpu)| others.clone().skip(at + 1).any(|other| other == cpu);
    others.clone().any(|cpu| cpu == mine) || !others.clone().enumerate().any(two_share)
}

/// A worker that ran on the CPU `ran_on` last is woken by one that is about to leave the CPU `left`: does it have to begin
/// there? `running`: with the reservation in it.
///
/// Where it ran last, the system would put it behind whoever runs there now, and leave the other CPU idle for milliseconds.
/// Where more workers are needed, the pool has another CPU to spare, and the system may use that.
///
/// If the guard returns at once, the CPU is not left after all. The woken worker then waits there for the end of one time
/// slice, while another CPU may become idle: 0.7 ms, or commonly 3 ms before Linux 6.12.
pub(crate) fn must_take(left: usize, ran_on: usize, running: Running) -> bool {
    ran_on != left && !running.need_more_worker()
}

/// Where a worker may begin beside those who run on the CPUs that are `taken`: on the CPU `preferred`, if that is free.
/// `None` if none is. Of what a pool has `present`, only its home, if it has one there: who is woken begins in its pod.
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
