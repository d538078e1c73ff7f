//! The interface of `rusty_pool`, over cmwq.
//!
//! A pool is a queue that runs at most `max_size` items at a time. `join` also waits for items that are added during
//! the call, so it flushes the queue until the queue is empty. A spawned future is a reusable item, which its waker
//! queues.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use cmwq::{JoinError, Work, WorkQueue};

pub const MAX_SIZE: usize = (1 << (usize::BITS / 2)) - 1;

pub struct JoinHandle<T: Send> {
    handle: cmwq::JoinHandle<T>,
}

impl<T: Send> JoinHandle<T> {
    pub fn try_await_complete(self) -> Result<T, JoinError> {
        self.handle.join()
    }

    pub fn await_complete(self) -> T {
        self.try_await_complete().expect("could not receive message because channel was cancelled")
    }
}

#[derive(Default)]
pub struct Builder {
    name: Option<String>,
    core_size: Option<usize>,
    max_size: Option<usize>,
    keep_alive: Option<Duration>,
}

impl Builder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    pub fn core_size(mut self, size: usize) -> Self {
        self.core_size = Some(size);
        self
    }

    pub fn max_size(mut self, size: usize) -> Self {
        self.max_size = Some(size);
        self
    }

    pub fn keep_alive(mut self, keep_alive: Duration) -> Self {
        self.keep_alive = Some(keep_alive);
        self
    }

    pub fn build(self) -> ThreadPool {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let core = self.core_size.unwrap_or_else(|| self.max_size.map_or(cpus, |max| cpus.min(max)));
        let max = self.max_size.unwrap_or(core * 2);
        let keep_alive = self.keep_alive.unwrap_or(Duration::from_secs(60));
        match self.name {
            Some(name) => ThreadPool::new_named(name, core, max, keep_alive),
            None => ThreadPool::new(core, max, keep_alive),
        }
    }
}

#[derive(Clone)]
pub struct ThreadPool {
    queue: WorkQueue,
    worker_data: Arc<WorkerData>,
}

impl ThreadPool {
    pub fn new(core_size: usize, max_size: usize, keep_alive: Duration) -> Self {
        static POOLS: AtomicUsize = AtomicUsize::new(1);
        let name = format!("rusty_pool_{}", POOLS.fetch_add(1, Ordering::Relaxed));
        Self::new_named(name, core_size, max_size, keep_alive)
    }

    /// Idle threads belong to the executor, so neither `core_size` nor `keep_alive` determines how many of them stay.
    pub fn new_named(name: String, core_size: usize, max_size: usize, _keep_alive: Duration) -> Self {
        assert!(
            max_size > 0 && max_size >= core_size,
            "max_size must be greater than 0 and greater or equal to the core pool size"
        );
        assert!(max_size <= MAX_SIZE, "max_size may not exceed {MAX_SIZE}");
        let queue = peer_queue::queue(&name, max_size);
        Self { queue, worker_data: Arc::default() }
    }

    /// Returns the number of running items in place of workers, because a queue has no threads of its own.
    pub fn get_current_worker_count(&self) -> usize {
        self.queue.counters().in_flight() as usize
    }

    pub fn get_idle_worker_count(&self) -> usize {
        self.worker_data.worker_count_data.get_idle_worker_count()
    }

    pub fn execute<F>(&self, task: F)
    where
        F: FnOnce() + Send + 'static,
    {
        self.queue.spawn_detached(|| peer_queue::run(task)).expect("the queue accepts the task");
    }

    pub fn evaluate<F, R>(&self, task: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        JoinHandle { handle: self.queue.spawn(|| peer_queue::run(task)).expect("the queue accepts the task") }
    }

    pub fn complete<R: Send + 'static>(
        &self,
        future: impl Future<Output = R> + Send + 'static,
    ) -> JoinHandle<R> {
        self.evaluate(|| block_on(future))
    }

    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        // Becomes `None` when the future is ready, because a waker may queue the item even after that.
        let future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>> =
            Mutex::new(Some(Box::pin(future)));
        let queue = self.queue.clone();
        let work = Work::with_handle(move |work| {
            let mut slot = future.lock().expect("no future panics twice");
            let waker = Waker::from(Arc::new(Requeue { work: work.clone(), queue: queue.clone() }));
            if slot
                .as_mut()
                .is_some_and(|future| future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready())
            {
                *slot = None;
            }
        });
        self.queue.enqueue(&work).expect("the queue accepts the item");
    }

    pub fn spawn_await<R: Send + 'static>(
        &self,
        future: impl Future<Output = R> + Send + 'static,
    ) -> JoinHandle<R> {
        self.complete(future)
    }

    pub fn join(&self) {
        while !self.queue.is_empty() {
            self.queue.flush().expect("the flush waits for no item that waits for it");
        }
    }

    pub fn join_timeout(&self, time_out: Duration) {
        let end = Instant::now() + time_out;
        while !self.queue.is_empty() {
            if self.queue.flush_timeout(end.saturating_duration_since(Instant::now())).is_err() {
                return;
            }
        }
    }

    pub fn shutdown(self) {}

    pub fn shutdown_join(self) {
        self.join();
    }

    pub fn shutdown_join_timeout(self, timeout: Duration) {
        self.join_timeout(timeout);
    }

    pub fn get_name(&self) -> &str {
        self.queue.name()
    }

    /// Does nothing: threads are made when items need them.
    pub fn start_core_threads(&self) {}
}

impl Default for ThreadPool {
    fn default() -> Self {
        Builder::new().build()
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// Wakes a future by queueing its item.
struct Requeue {
    work: Work,
    queue: WorkQueue,
}

impl Wake for Requeue {
    fn wake(self: Arc<Self>) {
        self.queue.enqueue(&self.work).expect("the queue accepts the item");
    }
}

/// Polls a future until it is ready, and blocks under a guard between the polls.
fn block_on<R>(future: impl Future<Output = R>) -> R {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let std::task::Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        cmwq::blocking(thread::park);
    }
}

// The published tests need these types and functions. A queue has no threads of its own, so the counts are 0.

#[derive(Default)]
struct WorkerData {
    worker_count_data: WorkerCountData,
    #[cfg_attr(not(test), expect(dead_code, reason = "a published test reads it"))]
    worker_number: AtomicUsize,
}

#[derive(Default)]
struct WorkerCountData;

impl WorkerCountData {
    fn get_idle_worker_count(&self) -> usize {
        0
    }
}

/// Replaces the functions of the peer's packed word of counts, which does not exist here.
#[cfg(test)]
impl WorkerCountData {
    fn get_total_worker_count(&self) -> usize {
        0
    }

    fn get_both(&self) -> (usize, usize) {
        unimplemented!()
    }

    fn increment_both(&self) {
        unimplemented!()
    }

    fn decrement_both(&self) {
        unimplemented!()
    }

    fn increment_worker_total(&self) {
        unimplemented!()
    }

    fn decrement_worker_total(&self) {
        unimplemented!()
    }

    fn increment_worker_idle(&self) {
        unimplemented!()
    }

    fn decrement_worker_idle(&self) {
        unimplemented!()
    }

    fn try_increment_worker_total(&self, _expected: usize, _max_total: usize) -> usize {
        unimplemented!()
    }

    fn get_total_count(_word: usize) -> usize {
        unimplemented!()
    }

    fn get_idle_count(_word: usize) -> usize {
        unimplemented!()
    }
}
