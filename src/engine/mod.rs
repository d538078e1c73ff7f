//! The engine has the threads, the locks and the parking.
//!
//! It supplies facts to policy, and carries out the decisions of policy. Its rooms, downward:
//!
//! | room | contents |
//! |---|---|
//! | `executor` | what the queues, pools and threads of one executor share, and its shutdown |
//! | `item` | what users queue: one-shots and reusable items, their entries on lists, and the ways to submit them |
//! | `queue` | workqueues: how items are admitted, wait, and complete; flushes, drains, and changes of attributes |
//! | `worker` | worker threads and rescuers: how they execute items, and what they count |
//! | `pool` | worker pools: worklists, crews, and the classes of pools that share items |
//! | `manager` | the one thread that makes threads and keeps deadlines; what it looks for, and what it reports |
//! | `trace` | the events and spans for `tracing` |
//! | `user_code` | the one door to loggers, hooks, subscribers and destructors |
//! | `refusal` | the errors of a submission, a wait and a shutdown |
//!
//! **Locks.** A thread holds each for a few instructions, and never across user code or a wake-up. Inside it, the
//! thread takes no other lock than these:
//!
//! | lock | locks that are taken inside it |
//! |---|---|
//! | a queue's `making` | both registers, `defaults`, classes, routes, pools, the queue's flushes, shards' numbers |
//! | a route's plug | the pool that the route leaves |
//! | the register of pools in `core` | a new class, which is opened there |
//! | a class's `members` | its pools, the usable part of the machine |
//! | a pool's `state` | the `calls` of a rescuer |
//! | the flushes of a queue | an item's ledger |
//! | an item's ledger | the map of `timers` |
//! | the list of missing managers | the sleepers' chore |
//! | the register of `waits` (debug builds) | a queue's flushes, an item's ledger, a scope's roll: one by one |
//!
//! Inside these no other lock is taken: a pool's `binding`; a worker's thread (held during the call that binds the
//! thread); the usable part of the machine; an executor's `defaults`; the register of queues; the manager's `inbox`;
//! the cleaner's list; the map of `timers`; a rescuer's `calls`; a worker's `description`; the detection in force;
//! the counts of offenders; the list of threads that have ended; a shard's account of `tally`; shards' numbers.

pub(crate) mod executor;
pub(crate) mod item;
pub(crate) mod manager;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod trace;
pub(crate) mod user_code;
pub(crate) mod worker;

/// Whether anything is counted.
pub(crate) const COUNTED: bool = cfg!(not(cmwq_uncounted));
