//! The interface of `yastl`, over cmwq.
//!
//! A scope made by `zoom` is a scope of the pool's queue. The scope of the pool itself is the queue. The items of that
//! scope borrow nothing, and `join` is a flush.

use std::marker::PhantomData;
use std::sync::Arc;

use cmwq::WorkQueue;

#[derive(Clone)]
pub struct Pool {
    queue: WorkQueue,
}

impl Pool {
    pub fn new(n: usize) -> Self {
        Self::with_config(n, ThreadConfig::new())
    }

    pub fn with_config(n: usize, config: ThreadConfig) -> Self {
        assert!(n > 0, "can not create a thread pool with 0 workers");
        Self { queue: peer_queue::queue(config.prefix.as_deref().unwrap_or("yastl"), n) }
    }

    pub fn spawn<F: FnOnce() + Send + 'static>(&self, job: F) {
        Scope::forever(self.clone()).execute(job);
    }

    pub fn scoped<'scope, F, R>(&self, job: F) -> R
    where
        F: for<'s> FnOnce(&Scope<'s, 'scope>) -> R,
    {
        Scope::forever(self.clone()).zoom(job)
    }

    pub fn shutdown(&self) {
        self.queue.destroy().expect("the end of the queue waits for no item that waits for it");
    }
}

#[derive(Default)]
pub struct ThreadConfig {
    prefix: Option<String>,
}

impl ThreadConfig {
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the queue. The threads belong to the executor.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Does nothing: the stack size is the executor's.
    pub fn stack_size(self, _stack_size: usize) -> Self {
        self
    }
}

/// A scope whose items run within `'s`, and may borrow data that outlives `'scope`.
#[derive(Clone)]
pub struct Scope<'s, 'scope: 's> {
    pool: Pool,
    within: Arc<dyn Spawn<'s> + 's>,
    /// Makes `'scope` invariant, because other threads use the borrowed data.
    borrows: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

type Job<'s> = Box<dyn FnOnce() + Send + 's>;

/// A queue or a scope of cmwq that runs the items of a peer's scope.
trait Spawn<'s>: Send + Sync {
    fn spawn(&self, job: Job<'s>);
}

impl Spawn<'static> for WorkQueue {
    fn spawn(&self, job: Job<'static>) {
        self.spawn_detached(|| peer_queue::run(job)).expect("the queue accepts the job");
    }
}

impl<'s> Spawn<'s> for &'s cmwq::Scope<'s, '_> {
    fn spawn(&self, job: Job<'s>) {
        drop(cmwq::Scope::spawn(self, || peer_queue::run(job)).expect("the queue accepts the job"));
    }
}

impl Scope<'static, 'static> {
    pub fn forever(pool: Pool) -> Self {
        let within = Arc::new(pool.queue.clone());
        Self { pool, within, borrows: PhantomData }
    }
}

impl<'s, 'scope> Scope<'s, 'scope> {
    pub fn execute<F>(&self, job: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        self.within.spawn(Box::new(job));
    }

    pub fn recurse<F>(&self, job: F)
    where
        F: FnOnce(&Self) + Send + 'scope,
    {
        let this = self.clone();
        self.within.spawn(Box::new(move || job(&this)));
    }

    pub fn join(&self) {
        self.pool.queue.flush().expect("the flush waits for no item that waits for it");
    }

    pub fn zoom<'smaller, F, R>(&self, job: F) -> R
    where
        F: for<'t> FnOnce(&Scope<'t, 'smaller>) -> R,
        'scope: 'smaller,
    {
        let run = self.pool.queue.try_scope(|scope| {
            job(&Scope { pool: self.pool.clone(), within: Arc::new(scope), borrows: PhantomData })
        });
        run.expect("no item of the scope is dropped")
    }
}
