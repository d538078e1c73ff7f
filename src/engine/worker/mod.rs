//! Worker threads and rescuers: how they execute items, and what they count.
//!
//! | file | contents |
//! |---|---|
//! | `shared` | the side of a worker that other threads can read and act on |
//! | `current` | a worker's current item, and the queue and shard through which it came |
//! | `worker_thread` | the private side of a worker: it calls an item's function, and completes the item |
//! | `life` | the main loop of a worker: it is woken, executes items, and becomes idle again or ends |
//! | `local` | the entries that stay with the worker whose items pushed them |
//! | `stock` | how a worker judges the length of its pool's items |
//! | `forks`, `levels` | the forks that a worker's items have made, and that other workers can take |
//! | `guards` | how an item enters and leaves guards, and describes itself |
//! | `name` | the name of a worker's thread |
//! | `lent` | a thread that runs an item that it submits itself, because the item's queue is full |
//! | `rescuer` | the thread of a queue that runs the queue's items when no worker can be made |
//! | `counters` | the counters of queues, and the CPU time of workers |
//!
//! This module owns the threads that execute items. A thread's private state is on the thread's own stack, and no other
//! thread can reach this state (access `O` in the table of [`engine`](super)). A worker's word says in which phase the
//! worker is. Other threads touch only the worker's word and the other cells of [`Worker`](shared::Worker).
//!
//! Workers and rescuers run their main loops in this module. An issuer whose queue is full enters the module to run one
//! item. The manager, dumps and all other issuers use only the shared side of a worker.

pub(crate) mod counters;
pub(crate) mod current;
pub(crate) mod forks;
pub(crate) mod guards;
pub(crate) mod lent;
pub(crate) mod levels;
pub(crate) mod life;
pub(crate) mod local;
mod name;
pub(crate) mod rescuer;
pub(crate) mod shared;
mod stock;
pub(crate) mod worker_thread;
