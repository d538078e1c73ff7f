//! Checks how long an item waits in managed queues whose items go to other pods, on machines of several caches.
//!
//! | file | what |
//! |---|---|
//! | this one | the setup: an executor, a queue, and the records of the queue's items |
//! | `conserve` | how long an item may wait while a CPU is free, checked whenever time is about to pass |
//! | `adversaries` | loads that are designed to break work conservation |
//! | `brisk` | pods whose items are short |
//! | `random` | random loads |

mod adversaries;
mod brisk;
mod conserve;
mod random;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use self::conserve::{Ledger, MANY, PAUSE, SOON, Waits};
use super::setup::executor;
use crate::policy::time::Time;
use crate::sys::clock;
use crate::sys::machine::Mutex;
use crate::sys::machine::{self, Config, Tid, pause, stand_on, take_cpu};
use crate::sys::thread::spawn;
use crate::{AffinityScope, Attrs, CpuSet, Executor, WorkQueue};

pub(super) type ItemId = usize;
pub(super) type Pod = usize;

/// The number of caches of a machine, of cores for each cache, and of threads for each core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caches {
    pub(super) caches: usize,
    pub(super) cores: usize,
    pub(super) threads: usize,
}

/// The machine of the kernel documentation.
pub(super) const DOCUMENTED: Caches = Caches { caches: 4, cores: 3, threads: 2 };

impl Caches {
    pub(super) fn cpus(self) -> usize {
        self.caches * self.of_cache()
    }

    pub(super) fn of_cache(self) -> usize {
        self.cores * self.threads
    }

    pub(super) fn description(self) -> String {
        format!("l3:{} core:{} pu:{}", self.caches, self.cores, self.threads)
    }
}

/// The known facts about an item.
#[derive(Clone, Copy, Debug)]
struct Item {
    home: Pod,
    queued: Time,
    /// The time at which the item began, and the pod in which it began.
    begun: Option<(Time, Pod)>,
    /// The value of [`Log::in_steps`] when the item was queued.
    in_steps_before: Duration,
    /// The increase of [`Log::in_steps`] from the queueing of the item until it began.
    in_steps: Duration,
}

/// The records of the items.
#[derive(Default)]
pub(super) struct Log {
    items: Vec<Item>,
    /// The items that have not begun and may go to other pods.
    waiting: BTreeMap<ItemId, Waits>,
    /// For each worker, the times at which its last [`MANY`] items began.
    begun: HashMap<Tid, VecDeque<Time>>,
    /// For each pod, the last time at which one of its workers had begun [`MANY`] items within [`SOON`].
    many: BTreeMap<Pod, Time>,
    /// For each pod, how many times one of its workers began an item of this pod after a sleep.
    began_at_home: Vec<u32>,
    /// For each pod, how many times its workers were woken or made.
    wakes: BTreeMap<Pod, usize>,
    /// The workers that were woken or made and have begun no item since, by name, with the time of the wake-up.
    woken: BTreeMap<String, Time>,
    /// The longest time for which an item waited while a pod had room.
    longest: Duration,
    /// The total time during which a thread waited for a CPU, or for a lock, in the middle of a step.
    in_steps: Duration,
    /// For each worker, how many times it had slept when it began its last item.
    sleeps: HashMap<Tid, u64>,
}

impl Log {
    fn queued(&mut self, home: Pod, now: Time, may_leave: bool) -> ItemId {
        let item = self.items.len();
        let (in_steps_before, in_steps) = (self.in_steps, Duration::ZERO);
        self.items.push(Item { home, queued: now, begun: None, in_steps_before, in_steps });
        // Of the threads that queue items, only workers have a slash in their names.
        let by_item = std::thread::current().name().is_some_and(|name| name.contains('/'));
        if may_leave {
            self.waiting.insert(item, Waits::new(home, now, self.diversions(home), by_item));
        }
        item
    }

    fn begins(&mut self, item: ItemId, now: Time, pod: Pod) {
        let in_steps = self.in_steps - self.items[item].in_steps_before;
        self.items[item] = Item { begun: Some((now, pod)), in_steps, ..self.items[item] };
        self.waiting.remove(&item);
        self.woken.remove(std::thread::current().name().unwrap_or_default());
        let own = machine::current().expect("a worker of the machine");
        let last = self.begun.entry(own).or_default();
        last.push_back(now);
        if last.len() > MANY {
            last.pop_front();
        }
        if last.len() == MANY && now.since(last[0]) <= SOON {
            self.many.insert(pod, now);
        }
        let sleeps = machine::sleeps_so_far(own).unwrap_or_default();
        let has_slept = self.sleeps.insert(own, sleeps) != Some(sleeps);
        self.began_at_home[pod] += u32::from(has_slept && self.items[item].home == pod);
    }

    /// Returns whether a worker of this pod has lately begun many items within a short time.
    fn begins_many(&self, pod: Pod, now: Time) -> bool {
        self.many.get(&pod).is_some_and(|at| now.since(*at) <= PAUSE)
    }

    /// Returns how many workers of other pods have begun items of their own pods, although they may have been called
    /// for work of `home`.
    fn diversions(&self, home: Pod) -> u32 {
        let others = self.began_at_home.iter().enumerate().filter(|(pod, _)| *pod != home);
        others.map(|(_, count)| count).sum()
    }
}

/// An executor on a machine of several caches, and a managed queue. The thread that makes a setup occupies no CPU of
/// the machine. This thread is the director, which decides what happens next.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) executor: Executor,
    pub(super) queue: WorkQueue,
    pod_size: usize,
    log: Arc<Mutex<Log>>,
    /// Whether the machine never interrupts one thread for another. If so, a worker that begins a stolen item finds the
    /// pools as they were when it took the item.
    is_calm: bool,
}

impl Setup {
    /// Makes a setup in which [conservation](conserve) is checked from now on. `config` is the configuration of the
    /// machine.
    pub(super) fn new(caches: Caches, scope: AffinityScope, config: &Config) -> Self {
        let executor = executor(&caches.description(), |builder| builder);
        let queue = WorkQueue::builder("q").attrs(Attrs::new().scope(scope)).build_on(&executor).unwrap();
        let pod_size = if scope == AffinityScope::Cpu { 1 } else { caches.of_cache() };
        let pods = caches.cpus() / pod_size;
        let log = Arc::new(Mutex::new(Log { began_at_home: vec![0; pods], ..Log::default() }));
        conserve::watch(&executor, &log, Ledger::new(config, pod_size));
        Self { executor, queue, pod_size, log, is_calm: config.switches == 0 }
    }

    pub(super) fn pod_of(&self, cpu: usize) -> Pod {
        cpu / self.pod_size
    }

    /// Returns the pod of the calling thread's CPU.
    pub(super) fn own_pod(&self) -> Pod {
        self.pod_of(machine::current_cpu().expect("the thread has a CPU"))
    }

    pub(super) fn cpus_of(&self, pod: Pod) -> Range<usize> {
        pod * self.pod_size..(pod + 1) * self.pod_size
    }

    /// Waits until this time.
    pub(super) fn at(&self, time: Duration) {
        pause((Time::default() + time).since(clock::now()));
    }

    /// Records a new item of this pod. Returns the item's number and its body.
    fn item(
        &self,
        pod: Pod,
        may_leave: bool,
        body: impl FnOnce() + Send + 'static,
    ) -> (ItemId, impl FnOnce() + Send + 'static) {
        let setup = self.clone();
        let item = self.log.lock().queued(pod, clock::now(), may_leave);
        let body = move || {
            let at = setup.own_pod();
            if at != pod {
                assert!(may_leave, "item {item} has left pod {pod}");
                conserve::check_theft(&setup, pod);
            }
            setup.log.lock().begins(item, clock::now(), at);
            body();
        };
        (item, body)
    }

    /// Queues items from a CPU of this pod.
    pub(super) fn queue(
        &self,
        pod: Pod,
        count: usize,
        body: impl Fn() + Clone + Send + 'static,
    ) -> Vec<ItemId> {
        stand_on(self.cpus_of(pod).start);
        (0..count).map(|_| self.queue_here(pod, body.clone())).collect()
    }

    /// Queues an item from the calling thread's CPU, which belongs to this pod.
    pub(super) fn queue_here(&self, pod: Pod, body: impl FnOnce() + Send + 'static) -> ItemId {
        let (item, body) = self.item(pod, true, body);
        assert!(self.queue.spawn_detached(body).is_ok());
        item
    }

    /// Queues items in one batch.
    pub(super) fn queue_batch(
        &self,
        pod: Pod,
        count: usize,
        body: impl Fn() + Clone + Send + 'static,
    ) -> Vec<ItemId> {
        stand_on(self.cpus_of(pod).start);
        let (items, bodies): (Vec<_>, Vec<_>) =
            (0..count).map(|_| self.item(pod, true, body.clone())).unzip();
        assert!(self.queue.items(bodies).spawn_detached().is_ok());
        items
    }

    /// Queues items that are bound to this pod.
    pub(super) fn queue_bound(
        &self,
        pod: Pod,
        count: usize,
        body: impl Fn() + Clone + Send + 'static,
    ) -> Vec<ItemId> {
        (0..count).map(|_| self.queue_bound_to(self.cpus_of(pod).start, body.clone())).collect()
    }

    /// Queues an item that is bound to the pod of this CPU.
    pub(super) fn queue_bound_to(&self, cpu: usize, body: impl FnOnce() + Send + 'static) -> ItemId {
        let (item, body) = self.item(self.pod_of(cpu), false, body);
        assert!(self.queue.item(body).on_cpu(cpu).spawn().is_ok());
        item
    }

    /// Starts a thread that calls `acts`, and runs only on this CPU.
    pub(super) fn on_cpu(&self, cpu: usize, acts: impl FnOnce(&Self) + Send + 'static) -> JoinHandle<()> {
        let setup = self.clone();
        let body = move || {
            machine::bind(machine::current().expect("it is of the machine"), &CpuSet::single(cpu));
            acts(&setup);
        };
        spawn("issuer".to_owned(), None, body).unwrap()
    }

    /// Lets other processes take the CPUs of this pod for the given time.
    pub(super) fn neighbour(&self, pod: Pod, time: Duration) {
        self.neighbours(self.cpus_of(pod), time);
    }

    /// Lets other processes take these CPUs for the given time.
    pub(super) fn neighbours(&self, cpus: Range<usize>, time: Duration) {
        cpus.for_each(|cpu| take_cpu(cpu, time));
    }

    /// Waits until all items have ended, including those that other items have queued.
    pub(super) fn end(&self) {
        loop {
            let items = self.log.lock().items.len();
            self.queue.flush().unwrap();
            if self.log.lock().items.len() == items {
                break;
            }
        }
    }

    /// Returns how many items began in their own pod.
    pub(super) fn home(&self) -> usize {
        let log = self.log.lock();
        log.items.iter().filter(|item| item.begun.is_some_and(|(_, pod)| pod == item.home)).count()
    }

    /// Returns the longest time for which an item waited while a pod had room.
    pub(super) fn longest_wait(&self) -> Duration {
        self.log.lock().longest
    }

    /// Returns how many items began outside of their own pod.
    pub(super) fn away(&self) -> usize {
        let log = self.log.lock();
        let away = log.items.iter().filter(|item| item.begun.is_some_and(|(_, pod)| pod != item.home));
        let count = away.count();
        assert_eq!(self.queue.counters().stolen, count as u64);
        count
    }

    /// Returns how many times workers were woken or made, up to the last moment at which time passed.
    pub(super) fn wakes(&self) -> usize {
        self.log.lock().wakes.values().sum()
    }

    /// Returns how many times workers of all other pods were woken or made, up to the last moment at which time passed.
    pub(super) fn wakes_of_others(&self, pod: Pod) -> usize {
        self.log.lock().wakes.iter().filter(|(of, _)| **of != pod).map(|(_, wakes)| wakes).sum()
    }

    /// Returns the time from the queueing of the item until it began.
    pub(super) fn delay(&self, item: ItemId) -> Duration {
        let item = self.log.lock().items[item];
        item.begun.expect("every item begins").0.since(item.queued)
    }

    /// Checks the delays of these items. The time during which a thread waits in the middle of a step does not count
    /// against the longest delay. In that time, another thread may wait for a lock that the thread in the step holds.
    pub(super) fn assert_delays(&self, items: &[ItemId], within: RangeInclusive<Duration>) {
        for item in items {
            let (delay, in_steps) = (self.delay(*item), self.log.lock().items[*item].in_steps);
            let holds = *within.start() <= delay && delay - in_steps <= *within.end();
            assert!(
                holds,
                "item {item} began after {delay:?}, not within {within:?} and {in_steps:?} in steps"
            );
        }
    }
}
