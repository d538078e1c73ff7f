//! Worker pools: their worklists, the crews of their workers, and the classes of pools that share items.

pub(crate) mod abandon;
pub(crate) mod binding;
pub(crate) mod calls;
pub(crate) mod class;
pub(crate) mod distress;
pub(crate) mod door;
pub(crate) mod placing;
pub(crate) mod pools;
pub(crate) mod room;
pub(crate) mod scrutiny;
pub(crate) mod sharing;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod users;
pub(crate) mod worker_pool;
pub(crate) mod worklist;
