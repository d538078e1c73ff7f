//! Worker threads and rescuers: how they execute items, and what they count.
//!
//! | file | contents |
//! |---|---|
//! | `shared` | what other threads know of a worker, and may do with it |
//! | `current` | what a worker works for |
//! | `worker_thread` | a worker seen from inside: it calls an item's function, and completes the item |
//! | `life` | the main loop of a worker: it is woken, executes items, and becomes idle again or ends |
//! | `guards` | how an item enters and leaves guards, and describes itself |
//! | `rescuer` | the thread of a queue that runs its items when no worker can be made |
//! | `counters` | the counters of queues, and the CPU time of workers |
//!
//! The room owns the threads that execute items. What a thread needs for itself is on its own stack, and no other
//! thread reaches it (`O`). A worker's word says in which phase the worker is; it and the other cells of
//! [`Worker`](shared::Worker) are all that other threads touch.
//!
//! Only workers and rescuers enter, each through its own main loop. Issuers, the manager and dumps read the shared side.

pub(crate) mod counters;
pub(crate) mod current;
pub(crate) mod guards;
pub(crate) mod life;
pub(crate) mod rescuer;
pub(crate) mod shared;
pub(crate) mod worker_thread;
