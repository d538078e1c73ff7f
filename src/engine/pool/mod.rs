//! Worker pools: their lists, the idle sets of their workers, and the classes of pools whose items or threads move.
//!
//! | file | contents |
//! |---|---|
//! | `spec` | what a pool is: which items it runs, where, and how many at a time |
//! | `worker_pool` | one pool, and its workers: how they arrive, rest, and leave |
//! | `worklist` | how entries come to the pool, are popped by its workers, and are given to siblings |
//! | `wake` | the only place where workers are woken for work, and asked for |
//! | `sharing` | which work is offered to siblings, and sought there |
//! | `binding`, `placing` | on which CPUs the workers run at present, and on which of them a woken one begins |
//! | `users` | how a pool without users is closed, and opened again |
//! | `class` | the unbound pools of one set of attributes, one for each pod |
//! | `pools` | the register of an executor's pools and classes |
//! | `detection` | what the manager sees of a watched pool, and carries out there |
//! | `room` | what a pool does without when there are as many threads as may be |
//! | `distress`, `calls` | how rescuers get the work of a pool that can have no worker |
//! | `abandon` | a pool that runs nothing any more, because its executor was shut down |
//!
//! The room owns pools, and the shared sides of their workers. `running`, one atomic word, says whether a worker is
//! wanted. `state` (`S`) says which one: under its lock are the idle set, the sideline, and the list of workers. The
//! members of a class (`C`) and the register (`P`) have locks of their own.
//!
//! Issuers enter to push and to wake a worker. The pool's workers take items, rest, and wake others; the workers of
//! siblings take items that may move. The manager makes and culls workers, binds them, and looks at watched pools.

pub(crate) mod abandon;
pub(crate) mod binding;
pub(crate) mod calls;
pub(crate) mod class;
pub(crate) mod detection;
pub(crate) mod distress;
pub(crate) mod placing;
pub(crate) mod pools;
pub(crate) mod room;
pub(crate) mod sharing;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod users;
pub(crate) mod wake;
pub(crate) mod worker_pool;
pub(crate) mod worklist;
