//! Things that threads leave for each other, a bundle at a time: one thread puts bundles, another one takes them.
//!
//! No thread waits here. The lock is only tried, and a thread that does not get it does without: so a forked process, whose
//! parent may have held the lock, goes on. What a thread did with a bundle before it put it happens before what the thread
//! does that takes it: the lock orders both.
//!
//! How many bundles there are can be seen without the lock. That is a hint while another thread is here, and right when none
//! is: it changes under the lock. Otherwise:
//!
//! * first thread: takes the last bundle, releases the lock. Second thread: puts one, shows that there is one. First thread:
//!   shows that there is none. The bundle lies there, and no thread takes it until the next one is put.

use crossbeam_utils::CachePadded;

use crate::sys::sync::{AtomicU64, Mutex, Ordering};

/// See the module. `B`: a bundle.
#[derive(Debug)]
pub(crate) struct Depot<B> {
    bundles: CachePadded<Mutex<Vec<B>>>,
    /// How many.
    len: AtomicU64,
}

impl<B> Depot<B> {
    /// An empty one, of its empty parts: a static one is made at compile time, which no model can do.
    pub(crate) const fn of(bundles: Mutex<Vec<B>>, len: AtomicU64) -> Self {
        Self { bundles: CachePadded::new(bundles), len }
    }

    /// How many bundles there are: a hint.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Takes the bundle that was put last. `None` if there is none, or another thread is here.
    pub(crate) fn take(&self) -> Option<B> {
        // An issuer that runs ahead of its workers finds none each time.
        if self.len() == 0 {
            return None;
        }
        let mut bundles = self.bundles.try_lock()?;
        let bundle = bundles.pop();
        self.len.store(bundles.len() as u64, Ordering::Relaxed);
        bundle
    }

    /// The bundle comes back if there are `limit`, or another thread is here.
    pub(crate) fn put(&self, bundle: B, limit: usize) -> Result<(), B> {
        match self.bundles.try_lock() {
            Some(mut bundles) if bundles.len() < limit => {
                bundles.push(bundle);
                self.len.store(bundles.len() as u64, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(bundle),
        }
    }

    /// Runs `act` while no other thread can take or put.
    #[cfg(all(test, not(cmwq_loom)))]
    pub(crate) fn occupied<R>(&self, act: impl FnOnce() -> R) -> R {
        let _there = self.bundles.lock();
        act()
    }
}
