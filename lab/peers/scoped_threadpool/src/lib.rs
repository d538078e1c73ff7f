//! The interface of `scoped_threadpool`, over cmwq.
//!
//! A scope of the pool is a scope of its queue, and `join_all` is a flush.

use cmwq::WorkQueue;

pub struct Pool {
    queue: WorkQueue,
    threads: u32,
}

impl Pool {
    pub fn new(n: u32) -> Self {
        assert!(n >= 1);
        Self { queue: peer_queue::queue("scoped_threadpool", n as usize), threads: n }
    }

    pub fn scoped<'scope, F, R>(&mut self, f: F) -> R
    where
        F: for<'s> FnOnce(&Scope<'s, 'scope>) -> R,
    {
        let run = self.queue.try_scope(|scope| f(&Scope { scope, queue: self.queue.clone() }));
        run.expect("no item of the scope is dropped")
    }

    pub fn thread_count(&self) -> u32 {
        self.threads
    }
}

pub struct Scope<'s, 'scope> {
    scope: &'s cmwq::Scope<'s, 'scope>,
    queue: WorkQueue,
}

impl<'scope> Scope<'_, 'scope> {
    pub fn execute<F>(&self, f: F)
    where
        F: FnOnce() + Send + 'scope,
    {
        drop(self.scope.spawn(|| peer_queue::run(f)).expect("the queue accepts the job"));
    }

    pub fn join_all(&self) {
        self.queue.flush().expect("the flush waits for no item that waits for it");
    }
}
