//! The limit on threads: pools that wait for a thread, and workers that give way between items.
//!
//! Each pool has its own CPUs. The numbers are those that the documentation promises, and are not taken from policy.
//!
//! Red under: `own-worker-makes-room`, `room-for-who-comes`.

use std::sync::Arc;
use std::time::Duration;

use super::setup::{executor, micros, ms};
use crate::policy::detection::Detection;
use crate::protocol::signal::Signal;
use crate::sys::clock;
use crate::sys::machine::Mutex;
use crate::sys::machine::{self, Config, burn, pause, run, stand_on};
use crate::sys::wait::Until;
use crate::{AffinityScope, Attrs, Executor, WorkQueue, WorkQueueBuilder};

/// The time after which even the only running worker of a pool gives way.
const TURN: Duration = Duration::from_millis(1);

/// If a pool has begun no item for this time, it gets a thread even if its workers seem to run.
const FAMINE: Duration = Duration::from_secs(1);

/// The times at which the items of each queue began.
type Begins = Arc<Mutex<Vec<Vec<Duration>>>>;

/// An executor that may have only a few threads, and the times at which its items began.
struct Setup {
    executor: Executor,
    begins: Begins,
}

/// A queue, the CPU on which its items are queued, and the number of the stream.
struct Stream<'a> {
    setup: &'a Setup,
    queue: WorkQueue,
    cpu: usize,
    number: usize,
}

fn now() -> Duration {
    Duration::from_nanos(clock::now().as_nanos())
}

impl Setup {
    fn new(cpus: usize, max_threads: usize) -> Self {
        Self::on(&format!("l3:1 core:{cpus} pu:1"), max_threads)
    }

    fn on(machine: &str, max_threads: usize) -> Self {
        let executor = executor(machine, |builder| builder.max_threads(max_threads));
        Self { executor, begins: Arc::default() }
    }

    /// Makes a stream of items for this queue. If the queue is per-CPU, the items go to the CPU `cpu`.
    fn stream(&self, cpu: usize, queue: WorkQueueBuilder) -> Stream<'_> {
        let mut begins = self.begins.lock();
        let number = begins.len();
        begins.push(Vec::new());
        Stream { setup: self, queue: queue.build_on(&self.executor).unwrap(), cpu, number }
    }

    fn wait_until(&self, time: Duration) {
        pause(time.saturating_sub(now()));
    }

    fn end(self) {
        self.executor.shutdown(Duration::MAX).unwrap();
    }
}

impl Stream<'_> {
    fn queue(&self, count: usize, body: impl Fn() + Clone + Send + 'static) {
        stand_on(self.cpu);
        for _ in 0..count {
            let (begins, number, body) = (Arc::clone(&self.setup.begins), self.number, body.clone());
            let item = move || {
                begins.lock()[number].push(now());
                body();
            };
            assert!(self.queue.spawn_detached(item).is_ok());
        }
    }

    fn burns(&self, count: usize, time: Duration) {
        self.queue(count, move || burn(time));
    }

    fn begins(&self) -> Vec<Duration> {
        self.queue.flush().unwrap();
        self.setup.begins.lock()[self.number].clone()
    }
}

fn per_cpu(high: bool) -> WorkQueueBuilder {
    let queue = WorkQueue::per_cpu("stream");
    if high { queue.high_priority(true) } else { queue }
}

/// Runs streams that share one thread. `high` says for each stream whether it has a high priority. Each stream
/// consists of `count` items of this length.
fn take_turns(high: &[bool], length: Duration, count: usize) {
    run(Config::new(high.len()), || {
        let setup = Setup::new(high.len(), 1);
        let streams: Vec<_> =
            high.iter().enumerate().map(|(cpu, high)| setup.stream(cpu, per_cpu(*high))).collect();
        let before = machine::threads();
        streams.iter().for_each(|stream| stream.burns(count, length));
        let bound = 2 * high.len() as u32 * (TURN + length);
        for (number, stream) in streams.iter().enumerate() {
            let begins = stream.begins();
            assert_eq!(begins.len(), count);
            let ends = [Duration::ZERO].into_iter().chain(begins.iter().copied());
            let longest = ends.zip(&begins).map(|(before, begin)| *begin - before).max().unwrap();
            assert!(longest <= bound, "{number} of {high:?} waits for {longest:?}, {length:?} each");
        }
        // The place of the only thread goes to another pool at most once per turn.
        let makespan = length * (high.len() * count) as u32;
        let most = makespan.as_nanos() / TURN.max(length).as_nanos() + 2 * high.len() as u128;
        let made = (machine::threads() - before) as u128;
        assert!(made <= most, "{made} threads in {makespan:?}, {high:?}, {length:?} each");
        drop(streams);
        setup.end();
    });
}

/// spec: E2.5 (work waits, never for ever): streams of items that share one thread take turns. No stream waits for
/// longer than the bound, whatever its priority.
#[test]
fn streams_that_share_one_thread_take_turns() {
    for (length, count) in [(micros(10), 1000), (micros(700), 40), (micros(5000), 8)] {
        for high in [&[false, false][..], &[false; 5], &[false, true, false, true, false]] {
            take_turns(high, length, count);
        }
    }
}

/// spec: E2.5 (only work starves), A3.8: a pod without work is called to help a full sibling, but there is no thread
/// for it. The sibling's only worker keeps its thread.
#[test]
fn a_pool_that_only_helps_takes_no_thread_from_its_sibling() {
    run(Config::new(2), || {
        let setup = Setup::on("l3:2 core:1 pu:1", 1);
        let before = machine::threads();
        let stream = setup.stream(0, WorkQueue::builder("stream"));
        stream.burns(200, micros(300));
        assert_eq!(stream.begins().len(), 200);
        let made = machine::threads() - before;
        assert_eq!(made, 1, "threads were made for one worker");
        drop(stream);
        setup.end();
    });
}

/// spec: E2.5 (high priority first): one item of high priority arrives while many streams run. This item waits for two
/// turns at most.
#[test]
fn an_item_of_high_priority_waits_for_two_turns_at_most() {
    run(Config::new(6), || {
        let (setup, length) = (Setup::new(6, 1), micros(200));
        let streams: Vec<_> = (0..6).map(|cpu| setup.stream(cpu, per_cpu(false))).collect();
        let high = setup.stream(0, per_cpu(true));
        streams.iter().for_each(|stream| stream.burns(200, length));
        setup.wait_until(ms(20));
        high.burns(1, length);
        let waited = high.begins()[0] - ms(20);
        assert!(waited <= 2 * (TURN + length), "{waited:?}");
        streams.iter().for_each(|stream| stream.queue.flush().unwrap());
    });
}

/// spec: E2.5: a pool that has several running workers gives up one of them at the end of the next item, without
/// waiting for a turn.
#[test]
fn a_pool_with_many_workers_gives_one_up_without_a_turn() {
    run(Config::new(6), || {
        let (setup, length) = (Setup::new(6, 4), micros(300));
        let attrs = Attrs::new().scope(AffinityScope::System).cpus((0..4).collect());
        let wide = setup.stream(0, WorkQueue::builder("wide").attrs(attrs));
        let narrow = [setup.stream(4, per_cpu(false)), setup.stream(5, per_cpu(false))];
        wide.burns(400, length);
        setup.wait_until(ms(5));
        let before = machine::threads();
        narrow.iter().for_each(|stream| stream.burns(100, length));
        for stream in &narrow {
            let waited = stream.begins()[0] - ms(5);
            assert!(waited <= 2 * length, "{waited:?}");
        }
        assert_eq!(
            machine::threads() - before,
            2,
            "then each pool has a thread, and no other worker gives way"
        );
        wide.queue.flush().unwrap();
    });
}

/// spec: E2.5 (pools take turns): a thread has left, but the manager does not know this yet. The thread's place was
/// given up for a starving pool. Other pools that ask for their first worker at that moment do not get this place.
#[test]
fn pools_that_ask_while_a_thread_leaves_wait_in_the_line() {
    for (seed, high) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let config = Config { switches: 300, ..Config::new(42) };
        run(config.seed(seed), || {
            let setup = Setup::new(42, 1);
            let stream = setup.stream(0, per_cpu(false));
            let starves = setup.stream(1, per_cpu(false));
            let late: Vec<_> = (2..42).map(|cpu| setup.stream(cpu, per_cpu(high))).collect();
            stream.burns(400, micros(10));
            setup.wait_until(ms(2));
            starves.queue(1, || ());
            // The thread leaves at the end of an item, after a turn.
            for (number, late) in late.iter().enumerate() {
                setup.wait_until(ms(2) + TURN + micros(10) * (number as u32 / 20));
                late.burns(1, micros(100));
            }
            let begin = starves.begins()[0];
            let all = setup.begins.lock().clone();
            let sooner = all[2..].iter().flatten().filter(|other| **other < begin).count();
            assert!(sooner <= usize::from(high), "{sooner} pools that came later had a thread before");
            late.iter().for_each(|stream| stream.queue.flush().unwrap());
        });
    }
}

/// spec: E2.5: in an unmanaged pool, a blocked worker counts as running. If an item in this pool waits for a later item
/// of the same pool, the wait does not last for ever.
#[test]
fn a_pool_whose_workers_only_seem_to_run_gets_a_thread() {
    run(Config::new(2), || {
        let setup = Setup::new(2, 2);
        let plain = setup.stream(0, WorkQueue::unbound("plain").attrs(Attrs::new().cpus((0..1).collect())));
        let stream = setup.stream(1, per_cpu(false));
        (0..2).for_each(|_| stream.burns(3000, micros(500)));
        setup.wait_until(micros(100));
        let set = Arc::new(Signal::new());
        let later = Arc::clone(&set);
        plain.queue(1, move || assert!(set.wait(Until::FOREVER)));
        plain.queue(1, move || later.set());
        let waited = plain.begins()[1];
        assert!(waited <= 2 * FAMINE + 2 * TURN, "{waited:?}");
        stream.queue.flush().unwrap();
    });
}

/// Forty items share three threads. Each item sleeps, and the manager has to find the sleep.
///
/// spec: E2.5, S5.2: a pool that waits for a thread sends no worker of its own away.
#[test]
fn a_pool_that_waits_for_a_thread_keeps_its_own() {
    for seed in 0..60 {
        run(Config::new(1).seed(seed), || {
            let executor =
                executor("core:1 pu:1", |builder| builder.max_threads(3).detection(Detection::Sampling));
            let queue = WorkQueue::per_cpu("q").max_active(64).build_on(&executor).unwrap();
            for _ in 0..40 {
                assert!(queue.spawn_detached(|| pause(ms(10))).is_ok());
            }
            queue.flush().unwrap();
            // The main thread and the manager are not workers.
            assert!(machine::threads() <= 2 + 3, "seed {seed}: {} threads", machine::threads());
            drop(queue);
            executor.shutdown(Duration::MAX).unwrap();
        });
    }
}

/// A worker becomes idle, and sees the request that a worker gives way to another pool. Before this worker sends an
/// idle worker away, the manager may withdraw the request, or note that the pool itself starves.
///
/// spec: E2.5: an idle worker leaves only for another pool, and only while that pool wants its thread.
#[test]
fn an_idle_worker_leaves_only_for_a_present_request_of_another_pool() {
    run(Config::new(1), || {
        let setup = Setup::new(1, 3);
        let stream = setup.stream(0, per_cpu(false));
        stream.burns(1, micros(1));
        stream.queue.flush().unwrap();
        setup.wait_until(ms(1));
        let pools = setup.executor.inner.upkeep.pools.all();
        let pool = pools.iter().find(|pool| pool.counts().0.idle > 0).expect("the worker is idle");
        let threads = &pool.core.threads.cell;
        assert!(!pool.give_up_one_to_another(), "the request was withdrawn");
        threads.ask(|| false);
        let given_up = pool.give_up_one_to_another();
        assert!(given_up, "another pool wants the thread");
        assert!(!threads.is_asked(), "a request that comes after this moment is another request");
        drop(stream);
        setup.end();
    });
}
