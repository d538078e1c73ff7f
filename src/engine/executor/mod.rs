//! Executors: what the queues, pools and threads of one executor share.
//!
//! | file | contents |
//! |---|---|
//! | `settings`, `reports` | what the builder has set: limits, names, hooks, and what hooks are told |
//! | `core` | what pools and threads share: settings, the manager's inbox, denials, present CPUs |
//! | `threads` | the threads, from before they are made until they are gone |
//! | `environment` | the part of the machine that the process may use at present |
//! | `placement` | the slots: the executor's CPUs, and the real ones behind them |
//! | `upkeep` | what the manager looks after, over all pools: their register, timers, leftovers, offenders |
//! | `inner` | what queues and handles share, and how attributes become pools |
//! | `shutdown` | the shutdown of an executor, and how items are given up |
//!
//! The room owns what outlives single queues and pools. Most of it never changes after the executor was built (`I`);
//! the present CPUs, the defaults of attributes, and the list of threads that have ended have locks of their own (`K`).
//!
//! Handles and queues keep `inner`; pools and threads keep `core`; the manager keeps `upkeep` while it is awake. When
//! `inner` is dropped, no item is in flight, and the threads end.

pub(crate) mod core;
pub(crate) mod environment;
pub(crate) mod inner;
pub(crate) mod placement;
pub(crate) mod reports;
pub(crate) mod settings;
pub(crate) mod shutdown;
pub(crate) mod threads;
pub(crate) mod upkeep;
