//! Workqueues: their shards, gates and routes, and how items are admitted, wait, and complete.

pub(crate) mod admission;
pub(crate) mod attrs;
pub(crate) mod drain;
pub(crate) mod facts;
pub(crate) mod flush;
pub(crate) mod limits;
pub(crate) mod register;
pub(crate) mod route;
pub(crate) mod shard;
pub(crate) mod workqueue;
