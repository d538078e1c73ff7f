use super::{Can, Rival, cpus, join_by_channel};

pub(crate) struct Threadpool(threadpool::ThreadPool);

impl Rival for Threadpool {
    const NAME: &'static str = "threadpool";
    const CAN: Can = Can::POOL;

    fn new(limit: Option<usize>) -> Self {
        Self(threadpool::ThreadPool::new(limit.unwrap_or_else(cpus)))
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.execute(item);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        join_by_channel(|send| self.spawn(move || send.send(item()).expect("the caller waits for it")))
    }
}
