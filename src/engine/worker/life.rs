//! The main loop of a worker: the worker is woken, executes items, and becomes idle again or ends.

use crate::policy::budget::{AfterItem, Budget};
use crate::policy::concurrency::PodId;
use crate::policy::idle_set::{Prepare, Rest};
use crate::policy::parts::Stretch;
use crate::policy::search;
use crate::policy::worker::Phase;
use crate::sys::search::search;
use crate::sys::{clock, thread};

use crate::engine::pool::worker_pool::Pool;
use crate::engine::queue::route;

use super::worker_thread::WorkerThread;

/// The reason why a worker takes no further items.
#[must_use]
enum End {
    /// There is no item, or too many workers run. `counted` says whether the worker still counts as running.
    Rests { counted: bool },
    /// Another pool gets the worker's thread. The worker still counts as running.
    GivesWay,
}

/// The budget of the present run of a bh context, or `None` if the pool is not a bh context.
struct Run(Option<Budget>);

impl Run {
    /// Begins a run of this pool's worker.
    fn begin(pool: &Pool) -> Self {
        Self(pool.spec.is_bh().then(|| Budget::begin(clock::now(), pool.pending())))
    }

    /// Notes that an item has ended. If the budget of the run is used up, yields the CPU and begins a new run.
    /// `has_next` returns whether the worker already has its next item.
    #[inline]
    fn item_ended(&mut self, pool: &Pool, has_next: impl FnOnce() -> bool) {
        if let Some(budget) = &mut self.0 {
            match budget.item_ended(clock::now(), pool.pending() + usize::from(has_next())) {
                AfterItem::GoOn(rest) => *budget = rest,
                AfterItem::Yield => {
                    thread::yield_now();
                    *self = Self::begin(pool);
                }
            }
        }
    }
}

impl WorkerThread {
    pub(super) fn live(&self, mut rest: Rest) {
        loop {
            let (reserved, prepare) = match rest {
                Rest::Exit => return,
                Rest::Start(reserved, prepare) => (reserved, prepare),
                Rest::Park => {
                    // An item may have arrived while this worker still counted as running. The item may need another
                    // worker now.
                    self.pool.look();
                    // Another pool may need this worker's thread.
                    self.pool.core.threads.cell.rested(|| self.pool.give_up_one_to_another());
                    match self.park() {
                        Phase::Exiting => return,
                        _ => {
                            self.meter.wakes();
                            if let Some(brought_home) = self.shared.was_placed() {
                                self.pool.let_roam();
                                self.brought_back.set(brought_home);
                            }
                            self.pool.woken()
                        }
                    }
                }
            };
            // An item may block this worker soon. So the worker asks for a spare worker before it begins to take items.
            if prepare == Prepare::CreateSpare {
                self.pool.ask_for_worker();
            }
            self.pool.core.environment.active();
            let errand = reserved.errand();
            rest = if self.pool.running.start(reserved) {
                self.shared.cell.set_phase(Phase::Between);
                self.pool.started();
                let end = self.work(errand);
                self.stocktaking.rests();
                self.take_name_for(None);
                self.meter.rests();
                match end {
                    End::Rests { counted } => self.pool.rest(&self.shared, counted),
                    End::GivesWay => return self.pool.give_way(&self.shared),
                }
            } else {
                self.pool.end_errand(errand);
                self.pool.rest(&self.shared, false)
            };
        }
    }

    /// Waits until another thread takes the worker off the pool's idle stack. Unpark tokens that user code has left on
    /// this thread do no harm.
    fn park(&self) -> Phase {
        // If all workers of the pool share one CPU, a searching worker would keep the issuer from that CPU.
        if self.pool.has_several_cpus() && self.pool.search.begin(self.shared.id) {
            self.search();
        }
        loop {
            match self.shared.cell.load().phase() {
                Phase::Idle => thread::park(),
                woken => return woken,
            }
        }
    }

    /// Stays awake for a short time. During this time, a thread that wakes the worker needs no system call.
    fn search(&self) {
        let id = self.shared.id;
        let phase = || self.shared.cell.load().phase();
        let search = search(search::LIMIT, || phase() != Phase::Idle || !self.pool.search.is_by(id));
        self.meter.leaves_out(search.used);
        self.pool.search.end(id, phase() == Phase::Waking, search.used);
    }

    /// Executes items until no item is left, until too many workers run, or until another pool needs the thread more.
    /// `errand` is the sibling pool for whose work the worker was woken.
    fn work(&self, mut errand: Option<PodId>) -> End {
        let mut woken_just_now = true;
        let mut run = Run::begin(&self.pool);
        self.stretch.set(Stretch::default());
        loop {
            let Some(entry) = self.next().or_else(|| self.pool.take_elsewhere(errand)) else {
                self.pool.end_errand(errand);
                return End::Rests { counted: !self.pool.running.shed() };
            };
            if woken_just_now {
                // The reservation that was made for this worker's wake-up is used up. So an unmanaged pool wakes its
                // next worker. If a sibling's work was the reason for the wake-up, the sibling now offers more of its
                // surplus.
                woken_just_now = false;
                self.pool.end_errand(errand.take());
                self.pool.look();
            }
            self.execute(entry);
            run.item_ended(&self.pool, || self.has_next());
            self.count_in_stock();
            let end =
                if self.pool.running.load().too_many_running() && self.is_the_one_to_shed() && self.sheds() {
                    End::Rests { counted: false }
                } else if self.pool.core.threads.cell.is_asked() && self.gives_way() {
                    self.put_next_back();
                    End::GivesWay
                } else {
                    continue;
                };
            self.end_turn();
            self.give_up_local();
            return end;
        }
    }

    /// Takes the worker out of the pool's count of running workers, unless too few other workers run by now. Before
    /// that, the worker puts its next entry back. Putting the entry back may free a queue and so call a hook's
    /// destructor. If the destructor blocks, its guard takes the worker out of the count. So the worker must still be
    /// in the count at that time.
    fn sheds(&self) -> bool {
        self.put_next_back();
        self.pool.running.shed()
    }

    fn put_next_back(&self) {
        if let Some(entry) = self.next_entry.take() {
            route::put_back(entry);
        }
    }

    /// Returns whether this worker gives up its thread to another pool, which starves for lack of a thread.
    #[cold]
    fn gives_way(&self) -> bool {
        let others_run = self.pool.running.load().running() > 1;
        !self.pool.has_recovered() && self.pool.core.threads.cell.give_way(others_run)
    }
}
