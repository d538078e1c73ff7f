//! Worker pools: their lists, the idle sets of their workers, and the classes of pools between which items or threads
//! move.
//!
//! | file | contents |
//! |---|---|
//! | `spec` | what a pool is: which items it runs, where, and how many at a time |
//! | `worker_pool` | one pool, and its workers: how they arrive, rest, and leave |
//! | `parts` | the worklist, which has several parts in a pool of several CPUs |
//! | `worklist` | how entries arrive at the pool, how its workers pop them, and how siblings get them |
//! | `turns` | how the entries of weighted queues arrive and take turns |
//! | `local` | how other threads get the entries of a worker's local list |
//! | `forks` | how the pool finds threads for the forks of its workers' items |
//! | `wake` | the only place that wakes workers for work, and that asks the manager for workers |
//! | `deadlines` | the times at which the manager must act on the pool, and its actions at these times |
//! | `sharing` | which work a pool offers to its siblings, and which work it takes from them |
//! | `binding`, `placing` | on which CPUs the workers run at present, and on which of them a woken worker begins |
//! | `users` | how a pool without users is closed, and opened again |
//! | `class` | the unbound pools of one set of attributes, one for each pod |
//! | `pools` | the register of an executor's pools and classes |
//! | `detection` | the manager's view of a watched pool, and how the manager acts on its findings |
//! | `room` | how a pool waits for a thread when `max_threads` is reached, and gives up threads for other pools |
//! | `distress`, `calls` | how rescuers get the work of a pool if no worker can be made for the pool |
//! | `abandon` | a pool that runs nothing any more, because its executor was shut down |
//!
//! This module owns the pools and those parts of the workers that other threads may access. A pool's `running`, one
//! atomic word, says whether the pool wants a worker. Its `state`, which is inside a lock (`S`), says which worker the
//! pool wants. The lock also protects the sideline and the list of workers. The members of a class (`C`) and the
//! register of pools and classes (`P`) have locks of their own.
//!
//! Issuers use a pool to push entries and to wake a worker. The pool's workers take items, rest, and wake other
//! workers. The workers of siblings (the other pools of the class) take items that may move. The manager makes and
//! culls workers, binds them to CPUs, and checks watched pools.

pub(crate) mod abandon;
pub(crate) mod binding;
pub(crate) mod calls;
pub(crate) mod class;
pub(crate) mod deadlines;
pub(crate) mod detection;
pub(crate) mod distress;
pub(crate) mod forks;
pub(crate) mod local;
pub(crate) mod parts;
pub(crate) mod placing;
pub(crate) mod pools;
pub(crate) mod room;
pub(crate) mod sharing;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod turns;
pub(crate) mod users;
pub(crate) mod wake;
pub(crate) mod worker_pool;
pub(crate) mod worklist;
