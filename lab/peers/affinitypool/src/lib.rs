//! The interface of `affinitypool`, over cmwq.
//!
//! When a future of the pool is polled, it joins its item: the poll blocks the polling thread until the item has ended,
//! and returns the result. Dropping a future that was not polled cancels the item. Dropping the pool flushes its queue.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use cmwq::{JoinError, JoinHandle, WorkQueue};

pub const MAX_THREADS: usize = 512;

static THREADPOOL: OnceLock<Threadpool> = OnceLock::new();

/// Runs the closure in the global pool, or on the calling thread if there is no global pool.
pub async fn spawn<F, R>(func: F) -> R
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    match THREADPOOL.get() {
        Some(pool) => pool.spawn(func).await,
        None => func(),
    }
}

#[derive(Clone, Default)]
pub struct Builder {
    num_threads: Option<usize>,
    thread_name: Option<String>,
    thread_per_core: bool,
}

impl Builder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn worker_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = Some(num_threads);
        self
    }

    /// Names the queue. The threads belong to the executor.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = Some(name.into());
        self
    }

    /// Does nothing: the stack size is the executor's.
    pub fn thread_stack_size(self, _size: usize) -> Self {
        self
    }

    pub fn thread_per_core(mut self, enabled: bool) -> Self {
        self.thread_per_core = enabled;
        self
    }

    /// Does nothing: the shards belong to the queue.
    pub fn shards(self, _shards: usize) -> Self {
        self
    }

    pub fn build(self) -> Threadpool {
        let threads = match self.num_threads {
            Some(threads) => threads,
            None if self.thread_per_core => cpus(),
            None => 2,
        };
        let threads = threads.clamp(1, MAX_THREADS);
        Threadpool {
            queue: peer_queue::queue(self.thread_name.as_deref().unwrap_or("affinitypool"), threads),
        }
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub struct Threadpool {
    queue: WorkQueue,
}

impl Default for Threadpool {
    fn default() -> Self {
        Self::new(cpus())
    }
}

impl Threadpool {
    pub fn new(workers: usize) -> Self {
        Builder::new().worker_threads(workers).build()
    }

    pub fn spawn<F, R>(&self, func: F) -> impl Future<Output = R> + Send + 'static + use<F, R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        Spawned {
            handle: Some(self.queue.spawn(|| peer_queue::run(func)).expect("the queue accepts the closure")),
        }
    }

    /// This function is sound, because the borrowed data is used only within a scope, which ends before the poll
    /// returns.
    pub fn spawn_local<'pool, F, R>(&'pool self, func: F) -> SpawnFuture<'pool, R>
    where
        F: FnOnce() -> R + Send + 'pool,
        R: Send + 'pool,
    {
        let queue = &self.queue;
        let run = move || {
            queue.try_scope(|scope| {
                scope.spawn(|| peer_queue::run(func)).expect("the queue accepts the closure").join()
            })
        };
        let run = move || result(run().expect("no item of the scope is dropped"));
        SpawnFuture { run: Some(Box::new(run)), pool: PhantomData }
    }

    pub fn build_global(self) -> Result<(), Error> {
        THREADPOOL.set(self).map_err(|_pool| Error::GlobalThreadpoolExists)
    }

    /// Returns 0, because a queue has no threads of its own.
    pub fn thread_count(&self) -> usize {
        0
    }

    pub fn num_threads(&self) -> usize {
        self.queue.max_active().expect("only bh queues have no limit")
    }
}

impl Drop for Threadpool {
    fn drop(&mut self) {
        // If an item of the pool drops the pool, the flush returns an error. So the item does not wait for itself.
        let _ = self.queue.flush();
    }
}

/// Returns the result, or rethrows the item's panic.
fn result<R>(joined: Result<R, JoinError>) -> R {
    match joined {
        Ok(result) => result,
        Err(JoinError::Panicked(panic)) => resume_unwind(panic.into_inner()),
        Err(error) => panic!("{error}"),
    }
}

struct Spawned<R> {
    handle: Option<JoinHandle<R>>,
}

/// The future is polled at most once, and nothing points into it.
impl<R> Unpin for Spawned<R> {}

impl<R> Future for Spawned<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<R> {
        Poll::Ready(result(self.handle.take().expect("it is polled until it is ready").join()))
    }
}

impl<R> Drop for Spawned<R> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.cancel();
        }
    }
}

#[must_use = "futures do nothing unless they are polled"]
pub struct SpawnFuture<'pool, R> {
    run: Option<Box<dyn FnOnce() -> R + Send + 'pool>>,
    pool: PhantomData<&'pool Threadpool>,
}

impl<R> Future for SpawnFuture<'_, R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<R> {
        Poll::Ready((self.run.take().expect("it is polled until it is ready"))())
    }
}

#[derive(Debug)]
pub enum Error {
    GlobalThreadpoolExists,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("A global threadpool has already been initialised")
    }
}

impl std::error::Error for Error {}
