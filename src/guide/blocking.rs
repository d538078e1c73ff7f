//! Blocking: which calls need a guard, and what happens if a guard is missing.
//!
//! An item that sleeps uses no CPU, so another item can use the CPU. A *guard* tells the pool about the sleep:
//!
//! | the call | guard |
//! |---|---|
//! | sleeps: a read of a device or socket, a lock that is held for long, a wait for another program | [`cmwq::blocking(\|\| …)`](crate::blocking()) |
//! | is usually short: a file that is mostly in memory, a lock that is mostly free | [`cmwq::may_block(\|\| …)`](crate::may_block()): a replacement starts only after 1 ms |
//! | spans several statements | [`BlockingGuard::enter()`](crate::BlockingGuard), [`MayBlockGuard::enter()`](crate::MayBlockGuard) |
//! | is a lock, channel, file, thread or process | a wrapper of [`cmwq::blocking`](mod@crate::blocking), which has a guard inside |
//! | is a wait of this crate, such as `join` or `flush` | none, because the wait has a guard inside |
//! | computes | none |
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cmwq::blocking;
//! use std::sync::Arc;
//!
//! let queue = cmwq::WorkQueue::new("totals");
//! let total = Arc::new(blocking::sync::Mutex::new(0)); // A guard only if the lock stays contended.
//! let add = {
//!     let total = Arc::clone(&total);
//!     queue.spawn(move || {
//!         let text = blocking(|| std::fs::read_to_string("Cargo.toml"))?; // A guard around one call.
//!         *total.lock() += text.len();
//!         Ok::<_, std::io::Error>(())
//!     })?
//! };
//! add.join()??;
//! assert!(*total.lock() > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # What a guard does
//!
//! While the guard exists, the worker does not count as running. If work is pending, another worker takes its place at
//! once. When the blocking call returns, the item continues immediately, even if another worker has taken the place of
//! the item's worker. In that case, the pool runs one item more than its limit, until one of its items ends.
//!
//! A guard never fails and never panics. Nested guards are free. On a thread that is not a worker, a guard does
//! nothing, so a library may use guards on any thread. Guards change nothing in plain unbound and ordered queues, which
//! start each active item however many items run. Guards also change nothing in [bh](crate::kernel::bh()) queues, whose
//! items must not block.
//!
//! # If a guard is missing
//!
//! A missing guard does not stall a pool for long. While items wait to start, the executor's manager examines the
//! threads that run items. The pool replaces a worker that sleeps without a guard, and a worker that uses the CPU of a
//! per-CPU queue for 10 ms. A preempted worker does not count as asleep. The manager ignores pools without waiting
//! items, and no thread of an idle executor wakes up.
//!
//! * With [`Detection::Switches`](crate::Detection::Switches), the system's scheduler reports the threads that go to
//!   sleep. With [`Detection::Sampling`](crate::Detection::Sampling), the manager reads the states of threads. By
//!   default, the executor uses `Switches` if the system permits it, and `Sampling` otherwise. The
//!   [dump](crate::Executor::dump) says which of these modes the executor uses, and why it does not use a better mode.
//! * The executor limits the pace at which it replaces workers that sleep without a guard. Without delay, it replaces
//!   as many of these sleepers as the pool has CPUs. After that, for each sleeper that wakes up, the executor replaces
//!   one more sleeper without delay. If no sleeper wakes up, the executor replaces about 30 sleepers in the first
//!   second. So items that wait for each other do not immediately become a crowd of threads.
//! * If items often sleep without a guard, a pod of several CPUs may run twice as many items as it has CPUs. So the pod
//!   also uses the CPUs of items whose sleep the executor has not noticed yet. The price is that items share CPUs while
//!   they do not sleep. A pod with a CPU quota below its number of CPUs runs no such additional items. Guards make the
//!   additional items unnecessary.
//! * Plain unbound queues ([`WorkQueue::unbound`](crate::WorkQueue::unbound)) need no detection: each active item has a
//!   thread. Plain unbound queues are for code in which no guard can be placed.
//!
//! # Finding missing guards
//!
//! [`Executor::undeclared_blockers`](crate::Executor::undeclared_blockers) lists the types of items that slept without
//! a guard while other items waited. [`Executor::hogs`](crate::Executor::hogs) lists the types of items that kept the
//! CPU of a per-CPU queue. A test of a program can check that the lists are empty:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let executor = cmwq::Executor::builder().build()?;
//! let queue = cmwq::WorkQueue::builder("jobs").build_on(&executor)?;
//! queue.for_each(0..100_u64, |n| _ = std::hint::black_box(n.pow(3)))?;
//! let sleepers = executor.undeclared_blockers();
//! assert!(sleepers.is_empty(), "these items need a guard: {sleepers:?}");
//! # Ok(())
//! # }
//! ```
//!
//! The lists contain only items that delayed other items. On a machine with many free CPUs, the lists may be empty even
//! if guards are missing. Run a test of the lists on few CPUs, for example with `taskset -c 0`.
//! [`Snapshot::busy`](crate::observe::Snapshot::busy) shows which items of other queues keep their CPUs: see
//! [`guide::debugging`](super::debugging).
//!
//! # Blocking on other items
//!
//! An item may join or flush another item, because these waits have guards. An item gets
//! [`WaitError::WouldDeadlock`](crate::WaitError::WouldDeadlock) if it waits for itself, or for an item that can run
//! only in the waiting item's own slot. Debug builds also refuse a wait that closes a cycle of items. Release builds do
//! not find cycles of several items.
