//! Executors: the data that the queues, pools and threads of one executor share.
//!
//! | file | contents |
//! |---|---|
//! | `settings`, `reports` | the settings from the builder (limits, names, hooks), and the reports that hooks receive |
//! | `core` | the data that pools and threads share: settings, the manager's inbox, denials, present CPUs |
//! | `threads` | the threads, each of which is counted from before it is made until it is gone |
//! | `environment` | the part of the machine that the process may use at present |
//! | `placement` | the index of each of the executor's CPUs, and the real CPU that serves this CPU |
//! | `upkeep` | the manager's data about all pools: register, timers, values to destroy, items that hog CPUs or block |
//! | `inner` | the data that queues and handles share, and how a queue's attributes determine its pools |
//! | `shutdown` | the shutdown of an executor, and how items are given up |
//!
//! This module owns the data that outlives individual queues and pools. Most of this data never changes after the
//! executor has been built (`I`). The present CPUs, the default attributes, and the list of ended threads have their
//! own locks (`K`).
//!
//! Handles and queues keep `inner` in memory. Pools and threads keep `core` in memory. The manager keeps `upkeep` in
//! memory while it is awake. When `inner` is dropped, no item is in flight, and the executor's threads end.

pub(crate) mod awaited;
pub(crate) mod core;
pub(crate) mod environment;
pub(crate) mod inner;
pub(crate) mod placement;
pub(crate) mod reports;
pub(crate) mod settings;
pub(crate) mod shutdown;
pub(crate) mod threads;
pub(crate) mod upkeep;
