//! Executors: what queues, pools and threads of one executor share.

pub(crate) mod core;
pub(crate) mod environment;
pub(crate) mod inner;
pub(crate) mod placement;
pub(crate) mod reports;
pub(crate) mod settings;
pub(crate) mod shutdown;
pub(crate) mod threads;
pub(crate) mod upkeep;
