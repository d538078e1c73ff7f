//! `Mutex`, `RwLock` and `Condvar`: parking_lot's, with guards around their waits.
//!
//! A free lock is taken as parking_lot takes it, and costs the same. Most locks that are held become free in a moment.
//! So for the first 20 µs (about 70 µs, with the slack of the system's timers) an item waits as in
//! [`may_block`](crate::may_block), and keeps its place. Otherwise a lock that many items want would start a crowd of
//! threads. After that the item waits under a [guard](crate::BlockingGuard). There is no poisoning: a lock that was
//! held during a panic is simply released.
//!
//! The types are [`lock_api`]'s, over the raw locks [`RawMutex`] and [`RawRwLock`]. They have mapped guards, upgradable
//! reads, fair unlocks and timeouts. With the feature `arc_lock` of `lock_api`, there are guards that keep their lock
//! alive (`lock_api::ArcMutexGuard<RawMutex, T>`).
//!
//! An item that waits for a lock gives up its place, but the holder of the lock goes on only if it has a CPU. So hold a
//! lock only while you touch the data, and not across other waits. If many items hold the same lock for 100 µs or more
//! each, their waits outlast these 20 µs. Then each wait lets another item start that wants the lock, too, and only
//! [`max_active`](crate::WorkQueueBuilder::max_active) and [`max_threads`](crate::ExecutorBuilder::max_threads) bound
//! the number of threads.
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
//! let queue = cmwq::WorkQueue::new("shop").build()?;
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

pub use lock_api;

pub use self::{
    condvar::{Condvar, WaitTimeoutResult},
    raw_mutex::RawMutex,
    raw_rwlock::RawRwLock,
};

/// A mutual exclusion lock whose waits have a guard. See [`lock_api::Mutex`] for its functions.
///
/// A free lock costs what parking_lot's costs; only an item that has to wait enters a guard.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::sync::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// let queue = cmwq::WorkQueue::new("totals").build()?;
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

/// The lock of a [`Mutex`] is held while this exists.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// A [`MutexGuard`] of a part of the data: see [`lock_api::MutexGuard::map`].
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A lock with many readers or one writer, whose waits have a guard. See [`lock_api::RwLock`] for its functions.
///
/// An uncontended lock costs what parking_lot's costs; only an item that has to wait enters a guard. A writer that
/// waits keeps new readers out. So a thread that holds a read lock must not lock again, except by
/// [`read_recursive`](lock_api::RwLock::read_recursive).
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::blocking::sync::{RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
///
/// static NAMES: RwLock<Vec<&str>> = RwLock::new(Vec::new());
///
/// /// The number of this name, or a new one.
/// fn number(name: &'static str) -> usize {
///     let names = NAMES.upgradable_read(); // together with plain readers
///     if let Some(number) = names.iter().position(|known| *known == name) {
///         return number;
///     }
///     let mut names = RwLockUpgradableReadGuard::upgrade(names);
///     names.push(name);
///     RwLockWriteGuard::downgrade(names).len() - 1
/// }
///
/// let queue = cmwq::WorkQueue::new("names").build()?;
/// assert_eq!(queue.spawn(|| number("events"))?.join()?, 0);
/// assert_eq!(queue.spawn(|| number("events"))?.join()?, 0);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rwsem")]
#[doc(alias = "down_read")]
#[doc(alias = "down_write")]
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// A shared lock of a [`RwLock`] is held while this exists.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// The exclusive lock of a [`RwLock`] is held while this exists.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// A shared lock of a [`RwLock`] that may become the exclusive one is held while this exists.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// A [`RwLockReadGuard`] of a part of the data: see [`lock_api::RwLockReadGuard::map`].
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// A [`RwLockWriteGuard`] of a part of the data: see [`lock_api::RwLockWriteGuard::map`].
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;
