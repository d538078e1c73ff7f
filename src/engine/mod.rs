//! The engine performs: threads, locks, parking.
//!
//! It supplies facts to policy and carries out what comes back. Its parts, downward:
//!
//! | file | what it is |
//! |---|---|
//! | `executor` | the pools of one executor, and how attributes become pools |
//! | `queue` | one workqueue: its shards, gates and flushes, and when it may be freed |
//! | `attrs` | the attributes of queues in use, and an executor's defaults |
//! | `limits` | what a queue's gates are told at run time, and how much is in them |
//! | `drain` | the end of a queue, for a time or for ever |
//! | `shutdown` | the end of an executor that is asked for |
//! | `submit` | the issuer's path: place, admit, enqueue, kick |
//! | `batch` | the same for many items, with one kick |
//! | `one_shot`, `work_item` | the two kinds of items and how a worker executes each |
//! | `cells` | the memory of one-shots, used again |
//! | `timers`, `periodic` | items that are queued later, once or by the clock |
//! | `scope` | items that borrow, and the end of their scope |
//! | `shard` | a queue's part on one CPU: its gate and its pool |
//! | `route` | to which pool a shard's items go, and in which order while that changes |
//! | `class` | the unbound pools of one set of attributes, one for each pod |
//! | `tally` | the counters of queues, and the CPU time of workers |
//! | `latency` | how long items wait and run |
//! | `flush` | waiting for what was queued before |
//! | `waits` | the one door to every wait |
//! | `worker` | a worker thread's main loop, and the thread-local worker |
//! | `context` | what the calling thread works for |
//! | `bh` | what is different in a pool of one worker |
//! | `pool` | worklist and crew of one pool; the one door that unparks or creates |
//! | `rescuer` | the thread of a queue that runs its items when no worker can be made |
//! | `manager` | the one thread that makes threads and keeps deadlines; the cleaner, which destroys what it has left |
//! | `environment` | the manager's looks at the CPUs that the process may use, and what follows for the pools |
//! | `detection` | which detection of undeclared blocking is in force |
//! | `facts` | what a queue and a pool tell of themselves to whoever prints them |
//! | `offenders` | whose items keep a CPU busy for too long, and whose block without a guard |
//! | `watchdog` | the report of a pool that has work and starts none of it |
//! | `core` | what all of them share: settings, the manager's inbox, the register of pools |
//! | `threads` | the threads of an executor, from before they are made until they are gone |
//! | `placement` | which CPU an item is queued on |
//! | `register` | the queues of one executor, for what is asked of all of them |
//! | `item_type` | what an item's type is called |
//! | `trace` | everything that is told to `tracing` |
//! | `user_code` | the one door to loggers, hooks, subscribers and destructors |
//! | `entry` | what lies on a list |
//! | `refusal` | why a queue does not accept an item, a wait does not wait, and a shutdown does not begin |
//!
//! **Locks**, each held for a few instructions and never across user code, a wake-up or another lock unless said
//! here: a pool's `state` and its `binding`; which thread a worker is (held over the call that binds it); what of the
//! machine may be used; a queue's `making` (shards being made, routes being turned, what was asked of the queue; takes
//! the locks of both registers, of an executor's `defaults`, of classes, routes and pools inside); a route's plug (takes
//! that of the pool inside that the route leaves); an executor's `defaults`; the register of pools in `core` (takes that of a
//! new class inside, which is opened there), and that of queues; a class's `members` (pools being made, opened and closed;
//! takes those of its pools, and that of what may be used, inside); the manager's `inbox`; the cleaner's list; the map of `timers`;
//! the list of missing managers (takes that of the sleepers' chore inside); a rescuer's `calls` (taken inside a pool's `state` by who calls it); the
//! flushes of a queue (taken inside `making`; takes an item's ledger inside); an item's ledger (takes that of the timers
//! inside); a worker's `description`; which detection is
//! in force; the counts of offenders; the list of threads that have ended; a shard's account of `tally`; the numbers of shards (taken inside `making`); in debug builds, the register of `waits` (takes those of a queue's flushes, an item's ledger and a
//! scope's roll inside, one after the other).

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
