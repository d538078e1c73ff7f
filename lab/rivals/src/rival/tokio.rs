use tokio::runtime::{Builder, Runtime};

use super::{Can, Rival};

/// The runtime's pool of up to 512 blocking threads. The runtime has no other threads here.
pub(crate) struct TokioBlocking(Runtime);

/// The runtime's tasks, which never await. Their sleeps are wrapped in `block_in_place`.
pub(crate) struct TokioSpawn(Runtime);

impl Rival for TokioBlocking {
    const NAME: &'static str = "tokio-blocking";
    const CAN: Can = Can::POOL;

    fn new(limit: Option<usize>) -> Self {
        let mut runtime = Builder::new_current_thread();
        limit.map(|limit| runtime.max_blocking_threads(limit));
        Self(runtime.build().expect("a runtime without drivers can be made"))
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.spawn_blocking(item);
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        self.0.block_on(self.0.spawn_blocking(item)).expect("the item does not panic")
    }
}

impl Rival for TokioSpawn {
    const NAME: &'static str = "tokio-spawn";
    const CAN: Can = Can::POOL;

    fn new(limit: Option<usize>) -> Self {
        let mut runtime = Builder::new_multi_thread();
        limit.map(|limit| runtime.max_blocking_threads(limit));
        Self(runtime.build().expect("a runtime without drivers can be made"))
    }

    fn spawn<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.spawn(async move { item() });
    }

    fn join<F: FnOnce() -> u64 + Send + 'static>(&self, item: F) -> u64 {
        self.0.block_on(self.0.spawn(async move { item() })).expect("the item does not panic")
    }

    /// Calls `spawn_blocking`, as the documentation recommends for items that keep a CPU busy.
    fn spawn_long<F: FnOnce() + Send + 'static>(&self, item: F) {
        self.0.spawn_blocking(item);
    }

    fn block(sleep: impl FnOnce()) {
        tokio::task::block_in_place(sleep);
    }
}
