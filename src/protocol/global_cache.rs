//! Bundles of things that one thread puts and another one takes.
//!
//! No thread waits here. Threads only try the lock, and do without a bundle if they do not get it. So a child process
//! goes on after a fork even if a thread of its parent held the lock. The lock also orders the two threads: the
//! thread that takes a bundle sees what the other one did with the bundle before.
//!
//! The number of bundles can be read without the lock. That number is a hint while another thread puts or takes, and
//! exact otherwise, because it is changed under the lock. If it were not:
//!
//! * first thread: takes the last bundle, releases the lock;
//! * second thread: puts a bundle, shows that there is one;
//! * first thread: shows that there is none. So no thread takes that bundle until another one is put.

use crossbeam_utils::CachePadded;

use crate::sys::sync::{AtomicU64, Mutex, Ordering};

/// See the module. `B` is a bundle.
#[derive(Debug)]
pub(crate) struct GlobalCache<B> {
    bundles: CachePadded<Mutex<Vec<B>>>,
    /// The number of bundles.
    len: AtomicU64,
}

impl<B> GlobalCache<B> {
    /// Makes an empty global cache from its empty parts. So a static global cache can be made at compile time, and a
    /// model can make its parts at run time.
    pub(crate) const fn of(bundles: Mutex<Vec<B>>, len: AtomicU64) -> Self {
        Self { bundles: CachePadded::new(bundles), len }
    }

    /// Returns the number of bundles, which is a hint.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Takes the bundle that was put last. Returns `None` if there is none, or another thread has the lock.
    pub(crate) fn take(&self) -> Option<B> {
        // The common case of an issuer that is faster than its workers: it finds no bundle each time.
        if self.len() == 0 {
            return None;
        }
        let mut bundles = self.bundles.try_lock()?;
        let bundle = bundles.pop();
        self.len.store(bundles.len() as u64, Ordering::Relaxed);
        bundle
    }

    /// Puts a bundle. Returns it if there are `limit` bundles already, or another thread has the lock.
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
