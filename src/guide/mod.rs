//! A guide in pages: how to port a program to cmwq, and how to run a program that uses cmwq.
//!
//! | to port a program | page |
//! |---|---|
//! | with the crate `threadpool` | [`from_threadpool`] |
//! | with `rayon::spawn`, scopes and parallel iterators | [`from_rayon`] |
//! | with tokio's `spawn_blocking` | [`from_tokio`] |
//! | that was written for the Linux kernel's workqueues | [`from_kernel`] |
//!
//! | to decide | page |
//! |---|---|
//! | how many items run, block and wait | [`limits`] |
//! | which calls need a guard | [`blocking`] |
//! | how a service ends without losing work | [`shutdown`] |
//! | how items learn the request, tenant or span of their issuer | [`context`] |
//! | how items stop early, and what happens to items that are too late | [`cancellation`] |
//! | how a service on tokio uses queues, and work for more than one machine | [`services`] |
//! | when a group of items needs its own queue, and when a queue needs a rescuer | [`guidelines`] |
//!
//! | to test | page |
//! |---|---|
//! | timers, retries and shutdowns in virtual time, and in many orders | [`testing`] |
//!
//! | to run a service | page |
//! |---|---|
//! | which queue is too busy, what a worker is doing, and where in the code it is | [`debugging`] |
//! | shared libraries, quotas, seccomp, perf and limits of tasks | [`containers`] |
//! | metrics, latencies, events, and changes from outside | [`observing`] |
//!
//! The pages exist only in the documentation. [The first page](crate) has the tables *which queue* and *which call*.

pub mod blocking;
pub mod cancellation;
pub mod containers;
pub mod context;
pub mod debugging;
pub mod from_kernel;
pub mod from_rayon;
pub mod from_threadpool;
pub mod from_tokio;
pub mod guidelines;
pub mod limits;
pub mod observing;
pub mod services;
pub mod shutdown;
pub mod testing;
