//! Workqueues: cheap named queues in front of the pools that all queues share.
//!
//! | file | contents |
//! |---|---|
//! | `workqueue` | one queue: its settings and shards, and when it may be freed |
//! | `shard` | a queue's part on one CPU: its limiter, its route, its number |
//! | `admission` | how an item is admitted to a limiter, waits there for a slot, and completes |
//! | `route` | the pool to which a shard's items go, and their order while that changes |
//! | `flush` | waiting for all items that were queued before |
//! | `drain` | draining and destroying a queue, and who may submit meanwhile |
//! | `limits` | changes of a queue's limits, how many items are pending, and what became of its items |
//! | `attrs` | the attributes of queues in use, and an executor's defaults |
//! | `register` | the queues of one executor, for operations on all of them |
//! | `view` | what dumps say of a queue |
//!
//! The room owns queues, and through them shards and limiters. An item that is in flight in a limiter keeps its queue
//! in memory. The limiter's word admits and completes items without a lock. Making shards, and changing limits, intakes
//! and routes, is under `making` (`M`); the items that a plugged route holds back are under its plug (`R`); the tickets
//! of flushes are under their own lock (`F`).
//!
//! Issuers enter to submit, workers and rescuers when they complete items, and any thread that flushes, drains, or
//! changes a queue.

pub(crate) mod admission;
pub(crate) mod attrs;
pub(crate) mod drain;
pub(crate) mod flush;
pub(crate) mod limits;
pub(crate) mod register;
pub(crate) mod route;
pub(crate) mod shard;
pub(crate) mod view;
pub(crate) mod workqueue;
