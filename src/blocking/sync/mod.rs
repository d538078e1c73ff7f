//! parking_lot's `Mutex`, `RwLock` and `Condvar`, with guards around their waits.
//!
//! A thread takes a free lock as in parking_lot, at the same cost. Most held locks become free soon. So a waiting item
//! keeps its place for the first 20 µs, as in [`may_block`](crate::may_block). During this time, no other item starts
//! in its place. With the slack of the system's timers, this time is about 70 µs. If an item gave up its place at once,
//! a lock that many items want would start a crowd of threads. After these 20 µs, the item waits under a
//! [guard](crate::BlockingGuard). There is no poisoning: if a thread panics while it holds a lock, the lock is simply
//! released.
//!
//! The types are [`lock_api`]'s, with the raw locks [`RawMutex`] and [`RawRwLock`]. The types have mapped guards,
//! upgradable reads, fair unlocks and timeouts. The feature `arc_lock` of `lock_api` adds guards that keep their lock
//! alive (`lock_api::ArcMutexGuard<RawMutex, T>`).
//!
//! An item that waits for a lock gives up its place, but the holder of the lock makes progress only if it has a CPU. So
//! hold a lock only while you touch the data, and not across other waits. If many items each hold the same lock for
//! 100 µs or more, the waits for the lock last longer than 20 µs. Each of these waits allows another item to start, and
//! that item soon waits for the lock, too. Then only [`max_active`](crate::WorkQueueBuilder::max_active) and
//! [`max_threads`](crate::ExecutorBuilder::max_threads) bound the number of threads.
//!
//! # Examples
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::blocking::sync::{Condvar, Mutex, RwLock};
//! use std::sync::Arc;
//!
//! struct Shop {
//!     prices: RwLock<Vec<u32>>,
//!     sold: Mutex<usize>,
//!     sale: Condvar,
//! }
//!
//! let queue = cmwq::WorkQueue::new("shop");
//! let shop =
//!     Arc::new(Shop { prices: RwLock::new(vec![3, 5]), sold: Mutex::new(0), sale: Condvar::new() });
//! let bookkeeper = {
//!     let shop = Arc::clone(&shop);
//!     queue.spawn(move || {
//!         let mut sold = shop.sold.lock();
//!         shop.sale.wait_while(&mut sold, |sold| *sold < 2); // others run meanwhile
//!         shop.prices.read().iter().sum::<u32>()
//!     })?
//! };
//! for _ in 0..2 {
//!     let shop = Arc::clone(&shop);
//!     queue
//!         .spawn(move || {
//!             *shop.sold.lock() += 1;
//!             shop.sale.notify_one();
//!         })?
//!         .join()?;
//! }
//! assert_eq!(bookkeeper.join()?, 8);
//! # Ok(())
//! # }
//! ```

mod condvar;
mod contended;
mod raw_mutex;
mod raw_rwlock;
mod waits;

pub use lock_api;

pub use self::{
    condvar::{Condvar, WaitTimeoutResult},
    raw_mutex::RawMutex,
    raw_rwlock::RawRwLock,
};

/// A mutual exclusion lock whose waits have a guard. See [`lock_api::Mutex`] for its functions.
///
/// A free lock costs the same as parking_lot's. Only an item that has to wait enters a guard.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::sync::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// let queue = cmwq::WorkQueue::new("totals");
/// let items: Vec<_> = (0..10).map(|n| queue.spawn(move || *TOTAL.lock() += n)).collect::<Result<_, _>>()?;
/// for item in items {
///     item.join()?;
/// }
/// assert_eq!(*TOTAL.lock(), 45);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "mutex_lock")]
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// A guard that holds the lock of a [`Mutex`] while the guard exists.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// A [`MutexGuard`] for a part of the data. See [`lock_api::MutexGuard::map`].
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A lock with many readers or one writer, whose waits have a guard. See [`lock_api::RwLock`] for its functions.
///
/// An uncontended lock costs the same as parking_lot's. Only an item that has to wait enters a guard. A waiting writer
/// keeps new readers out. So a thread that holds a read lock must not lock it again, except with
/// [`read_recursive`](lock_api::RwLock::read_recursive). There is one exception: after the first 20 µs of its wait, an
/// item that waits to write enters its guard. At this moment, new readers may get the lock.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::sync::{RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
///
/// static NAMES: RwLock<Vec<&str>> = RwLock::new(Vec::new());
///
/// /// Returns the number of this name. A new name gets the next number.
/// fn number(name: &'static str) -> usize {
///     let names = NAMES.upgradable_read(); // plain readers may read meanwhile
///     if let Some(number) = names.iter().position(|known| *known == name) {
///         return number;
///     }
///     let mut names = RwLockUpgradableReadGuard::upgrade(names);
///     names.push(name);
///     RwLockWriteGuard::downgrade(names).len() - 1
/// }
///
/// let queue = cmwq::WorkQueue::new("names");
/// assert_eq!(queue.spawn(|| number("events"))?.join()?, 0);
/// assert_eq!(queue.spawn(|| number("events"))?.join()?, 0);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rwsem")]
#[doc(alias = "down_read")]
#[doc(alias = "down_write")]
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// A guard that holds a shared lock of a [`RwLock`] while the guard exists.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// A guard that holds the exclusive lock of a [`RwLock`] while the guard exists.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// A guard that holds a shared lock of a [`RwLock`], and can be upgraded to hold the exclusive lock.
///
/// If another thread waits for the lock, [`bump`](lock_api::RwLockUpgradableReadGuard::bump) hands the lock to that
/// thread. An item waits in `bump` as in [`may_block`](crate::may_block): another item starts only after 1 ms.
/// [`unlock_fair`](lock_api::RwLockUpgradableReadGuard::unlock_fair) hands the lock over only from time to time, like a
/// drop of the guard.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// A [`RwLockReadGuard`] for a part of the data. See [`lock_api::RwLockReadGuard::map`].
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// A [`RwLockWriteGuard`] for a part of the data. See [`lock_api::RwLockWriteGuard::map`].
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;
