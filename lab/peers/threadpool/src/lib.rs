//! The interface of `threadpool`, over cmwq.
//!
//! A pool is a queue whose limit on items is the pool's number of threads. `join` is a flush. The counts come from the
//! queue's counters.

use std::fmt;
use std::sync::Arc;

use cmwq::WorkQueue;

#[derive(Clone, Default)]
pub struct Builder {
    num_threads: Option<usize>,
    thread_name: Option<String>,
}

impl Builder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn num_threads(mut self, num_threads: usize) -> Self {
        assert!(num_threads > 0);
        self.num_threads = Some(num_threads);
        self
    }

    /// Names the queue. The threads belong to the executor.
    pub fn thread_name(mut self, name: String) -> Self {
        self.thread_name = Some(name);
        self
    }

    /// Does nothing: the stack size is the executor's.
    pub fn thread_stack_size(self, _size: usize) -> Self {
        self
    }

    pub fn build(self) -> ThreadPool {
        let threads = self.num_threads.unwrap_or_else(cpus);
        let queue = peer_queue::queue(self.thread_name.as_deref().unwrap_or("threadpool"), threads);
        ThreadPool { shared_data: Arc::new(ThreadPoolSharedData { name: self.thread_name, queue }) }
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

struct ThreadPoolSharedData {
    name: Option<String>,
    queue: WorkQueue,
}

#[derive(Clone)]
pub struct ThreadPool {
    shared_data: Arc<ThreadPoolSharedData>,
}

impl ThreadPool {
    pub fn new(num_threads: usize) -> Self {
        Builder::new().num_threads(num_threads).build()
    }

    pub fn with_name(name: String, num_threads: usize) -> Self {
        Builder::new().num_threads(num_threads).thread_name(name).build()
    }

    pub fn execute<F>(&self, job: F)
    where
        F: FnOnce() + Send + 'static,
    {
        self.queue().spawn_detached(|| peer_queue::run(job)).expect("the queue accepts the job");
    }

    pub fn queued_count(&self) -> usize {
        self.queue().len().saturating_sub(self.active_count())
    }

    pub fn active_count(&self) -> usize {
        self.queue().counters().in_flight() as usize
    }

    pub fn max_count(&self) -> usize {
        self.queue().max_active().expect("only bh queues have no limit")
    }

    pub fn panic_count(&self) -> usize {
        self.queue().counters().panicked as usize
    }

    pub fn set_num_threads(&mut self, num_threads: usize) {
        assert!(num_threads >= 1);
        self.queue().set_max_active(num_threads).expect("the limit is possible");
    }

    pub fn join(&self) {
        self.queue().flush().expect("the flush waits for no item that waits for it");
    }

    fn queue(&self) -> &WorkQueue {
        &self.shared_data.queue
    }
}

impl Default for ThreadPool {
    fn default() -> Self {
        Self::new(cpus())
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("name", &self.shared_data.name)
            .field("queued_count", &self.queued_count())
            .field("active_count", &self.active_count())
            .field("max_count", &self.max_count())
            .finish()
    }
}

impl PartialEq for ThreadPool {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared_data, &other.shared_data)
    }
}

impl Eq for ThreadPool {}
