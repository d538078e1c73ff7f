//! A cache through which threads pass bundles of objects to other threads.
//!
//! No thread waits for the cache's lock. A thread only tries to take the lock. If another thread holds the lock, the
//! thread takes no bundle, or keeps the bundle that it wanted to put. So after a fork of the process, the child process
//! does not hang, even if a thread of the parent process held the lock at the fork. The lock also orders the step that
//! puts a bundle before the step that takes this bundle. So the taking thread sees everything that the putting thread
//! did before it put the bundle into the cache.
//!
//! The number of bundles can be read without the lock. While another thread puts or takes a bundle, the number is only
//! a hint. Otherwise the number is exact, because threads change it under the lock. If a thread changed the number
//! after it had released the lock, this could happen:
//!
//! * first thread: takes the last bundle, and releases the lock;
//! * second thread: puts a bundle, and sets the number to 1;
//! * first thread: sets the number to 0. So no thread takes the second thread's bundle until a thread puts another
//!   bundle.

use crossbeam_utils::CachePadded;

use crate::sys::sync::{AtomicU64, Mutex, Ordering};

/// See the module. `B` is the type of a bundle.
#[derive(Debug)]
pub(crate) struct GlobalCache<B> {
    bundles: CachePadded<Mutex<Vec<B>>>,
    /// The number of bundles in the cache.
    len: AtomicU64,
}

impl<B> GlobalCache<B> {
    /// Makes an empty global cache from an empty list of bundles and a number that is zero. For a static cache, the
    /// caller makes these parts at compile time. In a loom model, the caller makes these parts at run time.
    pub(crate) const fn of(bundles: Mutex<Vec<B>>, len: AtomicU64) -> Self {
        Self { bundles: CachePadded::new(bundles), len }
    }

    /// Returns the number of bundles. The number is only a hint.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Takes the bundle that was put last. Returns `None` if there is no bundle, or if another thread holds the lock.
    pub(crate) fn take(&self) -> Option<B> {
        // An issuer that is faster than its workers commonly finds no bundle.
        if self.len() == 0 {
            return None;
        }
        let mut bundles = self.bundles.try_lock()?;
        let bundle = bundles.pop();
        self.len.store(bundles.len() as u64, Ordering::Relaxed);
        bundle
    }

    /// Puts a bundle into the cache. Returns the bundle as an error if the cache already has `limit` bundles, or if
    /// another thread holds the lock.
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

    /// Calls `act` while no other thread can take or put a bundle.
    #[cfg(all(test, not(cmwq_loom)))]
    pub(crate) fn occupied<R>(&self, act: impl FnOnce() -> R) -> R {
        let _there = self.bundles.lock();
        act()
    }
}
