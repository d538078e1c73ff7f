//! Workqueues: cheap named queues in front of the pools that all queues share.
//!
//! | file | contents |
//! |---|---|
//! | `workqueue` | one queue: its settings and shards, and when it may be freed |
//! | `shard` | a queue's part on one CPU: its limiter, its route and its number |
//! | `admission` | how an item is admitted to a limiter, waits there for a slot, and completes |
//! | `route` | the pool to which a shard's items go, and how the items keep their order while the pool changes |
//! | `flush` | waiting for all items that were queued before the flush |
//! | `drain` | draining and destroying a queue, and which callers may submit to such a queue |
//! | `limits` | changes of a queue's limits, and its counters |
//! | `places` | the places of pending items |
//! | `backlog` | the executor's bound on the pending items of all queues |
//! | `bytes` | the executor's bound on the bytes of all pending items |
//! | `permits` | places that are reserved before their items exist |
//! | `attrs` | how a queue's attributes, and an executor's defaults, change at run time |
//! | `register` | the queues of one executor, for operations on all of them |
//! | `view` | the views of queues and threads that dumps show |
//!
//! This *room* (module of the engine) owns the queues, and through them the shards and limiters. An item that is in
//! flight in a limiter keeps its queue in memory. Threads admit and complete items through the limiter's word, without
//! a lock. The lock `making` (`M`) protects the making of shards, and changes of limits, routes and *intakes*. The
//! intake of a limiter says from which issuers the limiter accepts items. The plug of a route (`R`) protects the items
//! that the route holds back. The tickets of flushes have a lock of their own (`F`).
//!
//! Issuers enter the room to submit items, and workers and rescuers enter the room to complete items. Any thread that
//! flushes, drains or changes a queue enters the room, too.

pub(crate) mod admission;
pub(crate) mod attrs;
pub(crate) mod awaited;
pub(crate) mod backlog;
pub(crate) mod bytes;
pub(crate) mod cancel;
pub(crate) mod drain;
pub(crate) mod flush;
pub(crate) mod limits;
pub(crate) mod permits;
pub(crate) mod places;
pub(crate) mod register;
pub(crate) mod route;
pub(crate) mod shard;
pub(crate) mod view;
pub(crate) mod workqueue;
