//! The steps of a worker: it wakes, runs its items, and goes idle again.

#![forbid(unsafe_code)]

use super::machine::Machine;
use super::pool::{Notice, ThreadId};
use super::script::{Guard, ItemId, Op, Step, What};
use crate::policy::concurrency::{Next, Reserved};
use crate::policy::crew::{Prepare, Rest};
use crate::policy::worker::Phase;

impl Machine {
    pub(super) fn perform(&mut self, me: ThreadId, op: Op) {
        match op {
            Op::Arrive => self.arrive(me),
            Op::Woken => self.woken(me),
            Op::Start(reserved) => self.start(me, reserved),
            Op::Take => self.take(me),
            Op::Begin(item) => self.begin(me, item),
            Op::Script(step) => self.follow_script(me, step),
            Op::Burn(_) => unreachable!("burning takes time, so it is not a step"),
            Op::Yield => {
                self.give_up_cpu(me);
                self.make_runnable(me);
            }
            Op::Guard(guard) => self.guard(me, guard),
            Op::EndGuards => self.end_guards(me),
            Op::Sleep(duration) if self.threads[me].worker.is_some() => {
                self.record_own(me, What::Sleeps);
                self.sleep(me, duration);
            }
            Op::Awake => self.record_own(me, What::Wakes),
            Op::Await(_) | Op::Spin(_) | Op::Set(_) => self.use_flag(me, op),
            Op::Leave => self.leave(me),
            Op::ComeBack => self.count_again(me),
            Op::Finish => self.finish(me),
            Op::Between { work } => self.between_items(me, work),
            Op::Retire => {
                self.leave(me);
                let rest = self.rest(me);
                self.then(me, [Op::Rested(rest)]);
            }
            Op::GoIdle => {
                let rest = self.rest(me);
                self.then(me, [Op::Rested(rest)]);
            }
            Op::Rested(rest) => self.rested(me, rest),
            Op::Park => self.park(me),
            Op::Exit => {
                let (pool, id) = (self.worker(me).pool, self.worker(me).id);
                self.give_up_cpu(me);
                self.pools[pool].workers.remove(&id);
                self.thread_left();
            }
            Op::GiveWay => self.give_way(me),
            Op::Rests => self.rests(me),
            Op::Called => self.called(me),
            Op::Rescue => self.rescue(me),
            Op::Relieve => self.relieve(me),
            other => self.perform_issue(me, other),
        }
    }

    fn arrive(&mut self, me: ThreadId) {
        let (pool, id) = (self.worker(me).pool, self.worker(me).id);
        self.pools[pool].word = self.pools[pool].word.unshort();
        let rest = self.pools[pool].crew.arrived(id, None, self.now);
        self.pools[pool].asked_for -= 1;
        self.resting(me, &rest);
        self.then(me, [Op::Rested(rest)]);
    }

    fn woken(&mut self, me: ThreadId) {
        let pool = self.worker(me).pool;
        self.came(pool);
        let (reserved, prepare) = self.pools[pool].crew.woken();
        self.prepare(me, prepare);
        self.then(me, [Op::Start(reserved)]);
    }

    fn prepare(&mut self, me: ThreadId, prepare: Prepare) {
        match prepare {
            Prepare::Ready => {}
            Prepare::CreateSpare => self.ask_to_create(self.worker(me).pool),
        }
    }

    fn start(&mut self, me: ThreadId, reserved: Reserved) {
        let pool = self.worker(me).pool;
        let errand = reserved.errand();
        drop(reserved);
        self.errand_ends(pool, errand);
        let worker = self.worker_mut(me);
        (worker.errand, worker.on_its_way) = (errand, None);
        let (word, started) = self.pools[pool].word.start();
        self.pools[pool].word = word;
        if started {
            self.check_permission(pool);
            self.worker_mut(me).counted += 1;
            self.worker_mut(me).set_phase(Phase::Between);
            self.worker_mut(me).just_woken = true;
            self.then(me, [Op::Take]);
        } else {
            self.seen.refused += 1;
            self.worker_mut(me).set_phase(Phase::Idle);
            self.then(me, [Op::GoIdle]);
            self.end_errand(me);
        }
    }

    fn take(&mut self, me: ThreadId) {
        let pool = self.worker(me).pool;
        match self.pools[pool].pop() {
            Some(item) => self.found(me, item),
            None if self.pools[pool].seat.is_some() => self.take_elsewhere(me),
            None => self.then(me, [Op::Between { work: false }]),
        }
    }

    /// Lets the worker begin an item that it has taken, from its own pool or from a sibling.
    pub(super) fn found(&mut self, me: ThreadId, item: ItemId) {
        let pool = self.worker(me).pool;
        self.check_order(item);
        self.then(me, [Op::Begin(item)]);
        if std::mem::take(&mut self.worker_mut(me).just_woken) {
            // The wake chain: in an unmanaged pool each started worker wakes the next.
            self.then(me, [Op::Look(pool)]);
            if let Some(pod) = self.worker(me).errand.filter(|_| self.gates[self.gate_of(item)].pool == pool)
            {
                self.is_diverted(self.sibling(pool, pod));
            }
            self.end_errand(me);
        }
    }

    fn begin(&mut self, me: ThreadId, item: ItemId) {
        let pool = self.worker(me).pool;
        let intensive = self.gates[self.gate_of(item)].cpu_intensive;
        let managed = self.pools[pool].word.target().is_some();
        let rescuer = self.worker(me).rescues.is_some();
        if !rescuer {
            self.check_begin(pool, item);
        }
        let phase = if managed && !intensive && !rescuer { Phase::Running } else { Phase::Uncounted };
        let cpu_time = self.cpu_time(me);
        let worker = self.worker_mut(me);
        worker.awake_from = cpu_time;
        worker.state = worker.state.begin_item(phase);
        worker.item = Some(item);
        worker.stretch += 1;
        self.record(item, What::Starts);
        self.then(me, [Op::Script(0)]);
        if managed && intensive && !rescuer {
            self.seen.left_uncounted += 1;
            self.then(me, [Op::Leave, Op::Look(pool)]);
        }
    }

    fn follow_script(&mut self, me: ThreadId, number: usize) {
        let item = self.worker(me).item.expect("a script belongs to an item");
        let Some(step) = self.items[item].script.get(number).copied() else {
            return self.then(me, [Op::EndGuards, Op::Finish]);
        };
        self.then(me, [Op::Script(number + 1)]);
        match step {
            Step::Burn(duration) if self.config.yield_before_burn => {
                self.then(me, [Op::Yield, Op::Burn(duration)]);
            }
            Step::Burn(duration) => self.then(me, [Op::Burn(duration)]),
            Step::Sleep(duration) => {
                let (block, unblock) = (Op::Guard(Guard::Block), Op::Guard(Guard::Unblock));
                self.then(me, [block, Op::Sleep(duration), Op::Awake, unblock]);
            }
            Step::Nap(duration) => self.then(me, [Op::Sleep(duration), Op::Awake]),
            Step::Guard(guard) => self.then(me, [Op::Guard(guard)]),
            Step::Await(flag) => self.then(me, [Op::Await(flag)]),
            Step::Spin(flag) => self.then(me, [Op::Spin(flag)]),
            Step::Set(flag) => self.then(me, [Op::Set(flag)]),
            Step::Hash => self.hash(me, item),
            Step::Queue(other) => self.then(me, [Op::Admit(other)]),
        }
    }

    fn finish(&mut self, me: ThreadId) {
        self.record_own(me, What::Finishes);
        let pool = self.worker(me).pool;
        let managed = self.pools[pool].word.target().is_some();
        let rescuer = self.worker(me).rescues.is_some();
        let worker = self.worker_mut(me);
        worker.stretch += 1;
        let item = worker.item.take().expect("a worker finishes an item that it has begun");
        let (state, was_out) = worker.state.end_item();
        worker.state = state;
        let comes_back = managed && !rescuer && was_out;
        self.block_is_done(item);
        let gate = self.gate_of(item);
        self.then(me, [if rescuer { Op::Rescue } else { Op::Between { work: true } }]);
        if self.config.yield_after_item {
            self.then(me, [Op::Yield]);
        }
        self.then(me, [Op::Complete(gate)]);
        if comes_back {
            self.then(me, [Op::ComeBack]);
        }
    }

    fn between_items(&mut self, me: ThreadId, work: bool) {
        let pool = self.worker(me).pool;
        let (word, next) = self.pools[pool].word.between_items(work);
        self.pools[pool].word = word;
        match next {
            Next::Keep if self.gives_way(pool) => self.then(me, [Op::GiveWay]),
            Next::Keep => {
                self.check_permission(pool);
                self.then(me, [Op::Take]);
            }
            Next::Shed => {
                self.seen.shed += 1;
                self.worker_mut(me).counted -= 1;
                self.then(me, [Op::GoIdle]);
            }
            Next::Rest => {
                self.check_rest(pool);
                self.then(me, [Op::Retire]);
            }
        }
    }

    pub(super) fn count_again(&mut self, me: ThreadId) {
        let pool = self.worker(me).pool;
        self.pools[pool].word = self.pools[pool].word.come_back();
        self.worker_mut(me).counted += 1;
    }

    pub(super) fn leave(&mut self, me: ThreadId) {
        let pool = self.worker(me).pool;
        self.pools[pool].word = self.pools[pool].word.leave();
        self.worker_mut(me).counted -= 1;
    }

    fn rest(&mut self, me: ThreadId) -> Rest {
        let (pool, id) = (self.worker(me).pool, self.worker(me).id);
        let rest = self.pools[pool].crew.rest(id, None, self.now);
        self.resting(me, &rest);
        rest
    }

    /// Notes what the crew decided, in the same step: other threads may act on the decision before this worker does.
    fn resting(&mut self, me: ThreadId, rest: &Rest) {
        let pool = self.worker(me).pool;
        let phase = match rest {
            Rest::Park(_) => Phase::Idle,
            Rest::Start(..) => {
                self.seen.started_from_rest += 1;
                self.worker_mut(me).on_its_way = self.pools[pool].owed.pop();
                self.came(pool);
                Phase::Waking
            }
            Rest::Exit => Phase::Exiting,
        };
        let now = self.now;
        self.worker_mut(me).set_phase(phase);
        self.worker_mut(me).idle_since = now;
    }

    fn rested(&mut self, me: ThreadId, rest: Rest) {
        match rest {
            Rest::Park(cull_at) => {
                if let Some(at) = cull_at {
                    self.manager.cull(self.worker(me).pool, at);
                }
                // An item that was pushed meanwhile may need a worker in its place.
                self.then(me, [Op::Look(self.worker(me).pool), Op::Rests, Op::Park]);
            }
            Rest::Start(reserved, prepare) => {
                self.prepare(me, prepare);
                self.then(me, [Op::Start(reserved)]);
            }
            Rest::Exit => self.then(me, [Op::Exit]),
        }
    }

    fn park(&mut self, me: ThreadId) {
        match self.worker_mut(me).notice.take() {
            Some(Notice::Begin) => self.then(me, [Op::Woken]),
            Some(Notice::Leave) => self.then(me, [Op::Exit]),
            None => {
                self.worker_mut(me).parked = true;
                self.threads[me].slept += 1;
                self.give_up_cpu(me);
            }
        }
    }

    pub(super) fn record_own(&mut self, me: ThreadId, what: What) {
        let item = self.worker(me).item.expect("this happens inside an item");
        self.record(item, what);
    }
}
