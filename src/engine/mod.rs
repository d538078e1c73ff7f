//! The engine has the threads, the locks and the parking.
//!
//! It supplies facts to policy, and carries out the decisions of policy. Its parts, downward:
//!
//! | file | contents |
//! |---|---|
//! | `executor` | the pools of one executor, and how attributes become pools |
//! | `queue` | one workqueue: its shards, gates and flushes, and when it may be freed |
//! | `attrs` | the attributes of queues in use, and an executor's defaults |
//! | `limits` | changes of a queue's limits at run time, and how many items are in its gates |
//! | `drain` | draining and destroying a queue |
//! | `shutdown` | the shutdown of an executor |
//! | `submit` | the issuer's path: place, admit, enqueue, kick |
//! | `batch` | the same path for many items, with one kick |
//! | `one_shot`, `work_item` | the two kinds of items, and how a worker executes each |
//! | `cells` | the memory of one-shots, which is used again |
//! | `timers`, `periodic` | items that are queued later, once or again and again |
//! | `scope` | items that borrow, and the end of their scope |
//! | `shard` | a queue's part on one CPU: its gate and its route |
//! | `route` | the pool to which a shard's items go, and their order while that changes |
//! | `class` | the unbound pools of one set of attributes, one for each pod |
//! | `tally` | the counters of queues, and the CPU time of workers |
//! | `latency` | the histograms of how long items wait and run |
//! | `flush` | waiting for all items that were queued before |
//! | `waits` | the one door to every wait |
//! | `worker` | a worker thread's main loop, and the thread-local worker |
//! | `context` | the item for which the calling thread works |
//! | `bh` | the differences of a pool with one worker |
//! | `pool` | worklist and crew of one pool; the one door that unparks or creates workers |
//! | `rescuer` | the thread of a queue that runs its items when no worker can be made |
//! | `manager` | the one thread that makes threads and keeps deadlines; the cleaner, which destroys values for it |
//! | `environment` | how the manager follows the CPUs that the process may use, and how the pools do |
//! | `detection` | the detection of undeclared blocking that is in force |
//! | `facts` | the facts about queues and pools that are printed |
//! | `offenders` | the items that keep a CPU busy for too long, or block without a guard |
//! | `watchdog` | the report of a pool that has work and starts none of it |
//! | `core` | what all pools share: settings, the manager's inbox, the register of pools |
//! | `threads` | the threads of an executor, from before they are made until they are gone |
//! | `placement` | the CPU on which an item is queued |
//! | `register` | the queues of one executor, for operations on all of them |
//! | `item_type` | the name of an item's type |
//! | `trace` | the events and spans for `tracing` |
//! | `user_code` | the one door to loggers, hooks, subscribers and destructors |
//! | `entry` | the entries of lists |
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

pub(crate) mod attrs;
pub(crate) mod batch;
pub(crate) mod bell;
mod bh;
mod cells;
pub(crate) mod class;
pub(crate) mod context;
pub(crate) mod core;
pub(crate) mod detection;
pub(crate) mod detector;
pub(crate) mod drain;
pub(crate) mod entry;
pub(crate) mod environment;
pub(crate) mod executor;
pub(crate) mod facts;
pub(crate) mod flush;
pub(crate) mod item_type;
pub(crate) mod latency;
pub(crate) mod limits;
pub(crate) mod manager;
pub(crate) mod offenders;
pub(crate) mod one_shot;
pub(crate) mod periodic;
pub(crate) mod placement;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod register;
pub(crate) mod rescuer;
pub(crate) mod route;
pub(crate) mod scope;
pub(crate) mod shard;
pub(crate) mod shutdown;
pub(crate) mod submit;
pub(crate) mod tally;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod trace;
pub(crate) mod user_code;
pub(crate) mod waits;
pub(crate) mod watchdog;
pub(crate) mod work_item;
pub(crate) mod worker;
