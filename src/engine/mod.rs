//! The engine contains the threads, the locks, and the parking of threads.
//!
//! The engine supplies facts to `policy`, and carries out the decisions of `policy`. The engine consists of these
//! modules, called *rooms*, in the order in which an item meets them:
//!
//! | room | contents |
//! |---|---|
//! | `item` | what users queue: one-shots and reusable items, their entries on lists, and the ways to submit them |
//! | `queue` | workqueues: how items are admitted, wait, and complete; flushes, drains, and changes of attributes |
//! | `pool` | worker pools: worklists, idle sets, and the classes of pools that share items |
//! | `worker` | worker threads and rescuers: how they execute items, and what they count |
//! | `manager` | the one thread that makes threads and keeps deadlines; what it looks for, and what it reports |
//! | `executor` | the state that the queues, pools and threads of one executor share, and the executor's shutdown |
//! | `trace` | the events and spans for `tracing` |
//! | `user_code` | the only place that calls loggers, hooks, subscribers and destructors |
//! | `carrier` | the hooks that capture values for submissions to carry |
//! | `refusal` | the errors of a submission, a wait and a shutdown |
//!
//! # Locks
//!
//! A thread holds a lock for a few instructions only, and never while it runs user code or wakes another thread. Each
//! shared field is marked with a letter, which says how threads access the field:
//!
//! | letter | access |
//! |---|---|
//! | `I` | written when the object that contains the field is made, and only read afterwards, by all threads |
//! | `A` | an atomic, or a cell of [`protocol`](crate::protocol), which all threads access without a lock |
//! | `O` | by one thread, which owns the field |
//! | `W` | under the register of `waits` (debug builds) |
//! | `M` | under `making` of the queue |
//! | `R` | under the plug of the shard's route |
//! | `U` | under `making_pools` of the executor |
//! | `P` | under the register of pools and classes |
//! | `C` | under `members` of the class |
//! | `S` | under `state` of the pool |
//! | `F` | under the flushes of the queue |
//! | `L` | under the slow-path state of the item |
//! | `K` | under a lock of its own; a thread that holds it takes no other lock |
//!
//! A thread that holds a lock takes only locks that come later in this table ([`policy::locks`](crate::policy::locks)).
//! In a debug build, a thread that breaks this rule panics, and the panic message names both locks. This table shows
//! which locks a thread takes while it holds another lock:
//!
//! | lock | locks that are taken inside it |
//! |---|---|
//! | `W` | `F`, `L`, a scope's roll: one at a time |
//! | `M` | `R`, `U`, `P`, `C`, `S`, `F`, the register of queues, `defaults`, shards' numbers |
//! | `R` | `S` of the route's former pool, or of its new pool |
//! | `U` | `P`, `S`, the present CPUs |
//! | `P` | `C` of a class that is opened |
//! | `C` | `S` of the class's pools, the present CPUs |
//! | `S` | the `calls` of a rescuer |
//! | `F` | `L` |
//! | `L` | the map of timers |

pub(crate) mod carrier;
pub(crate) mod executor;
pub(crate) mod item;
pub(crate) mod manager;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod trace;
pub(crate) mod user_code;
pub(crate) mod worker;

/// Whether the executor keeps counters. `--cfg cmwq_uncounted` turns the counters off.
pub(crate) const COUNTED: bool = cfg!(not(cmwq_uncounted));
