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
//! | `pool` | worker pools: worklists, idle sets, and the classes of pools that share items |
//! | `manager` | the one thread that makes threads and keeps deadlines; what it looks for, and what it reports |
//! | `trace` | the events and spans for `tracing` |
//! | `user_code` | the only place that calls loggers, hooks, subscribers and destructors |
//! | `refusal` | the errors of a submission, a wait and a shutdown |
//!
//! A type's methods may stand in a room above the type. So the worker's room knows what a pool is, and nothing in the
//! pools' room knows how an item is executed.
//!
//! # Locks
//!
//! A thread holds each lock for a few instructions, and never across user code or a wake-up. Shared fields have a
//! letter, which says how threads access them:
//!
//! | letter | access |
//! |---|---|
//! | `I` | written when its owner is made, read by all threads |
//! | `A` | an atomic, or a cell of [`protocol`](crate::protocol): all threads, without a lock |
//! | `O` | by one thread, which owns it |
//! | `W` | under the register of `waits` (debug builds) |
//! | `M` | under `making` of the queue |
//! | `R` | under the plug of the shard's route |
//! | `P` | under the register of pools and classes |
//! | `C` | under `members` of the class |
//! | `S` | under `state` of the pool |
//! | `F` | under the flushes of the queue |
//! | `L` | under the slow-path state of the item |
//! | `K` | under a lock of its own, inside of which no other lock is taken |
//!
//! A thread that holds a lock takes only locks that come later in this table
//! ([`policy::locks`](crate::policy::locks)). A debug build checks it: the thread panics, and names both locks. These
//! locks are taken inside of others:
//!
//! | lock | locks that are taken inside it |
//! |---|---|
//! | `W` | `F`, `L`, a scope's roll: one by one |
//! | `M` | `R`, `P`, `C`, `S`, `F`, the register of queues, `defaults`, shards' numbers |
//! | `R` | `S` of the pool that the route leaves |
//! | `P` | `C` of a class that is opened |
//! | `C` | `S` of the class's pools, the present CPUs |
//! | `S` | the `calls` of a rescuer |
//! | `F` | `L` |
//! | `L` | the map of timers |

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
