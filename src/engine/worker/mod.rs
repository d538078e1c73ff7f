//! Worker threads and rescuers: how they take items from pools and execute them.

pub(crate) mod current;
pub(crate) mod guards;
pub(crate) mod life;
pub(crate) mod rescuer;
pub(crate) mod shared;
pub(crate) mod tally;
pub(crate) mod worker_thread;
