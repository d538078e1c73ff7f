//! Integration and stress tests on real threads: one module per topic.
//!
//! Every executor in these tests has an active progress check, so a lost wake-up aborts the run with a dump.
//! `CMWQ_STRESS` scales the size of the stress tests: 1 by default, 10 for a long run.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

mod attrs;
mod awaits;
mod backlog;
mod bad_input;
mod batches;
mod bh;
mod bytes;
mod caller_runs;
mod cancel;
mod cancellation;
mod carried;
mod concurrency;
mod conformance;
mod counters;
mod current_item;
mod delayed;
mod detached;
mod detection;
mod detection_stress;
mod drain;
mod dump;
mod endless_waits;
mod executors;
mod flush;
mod fork_join;
mod freeze;
mod guards;
mod handed_back;
mod handles;
mod histograms;
mod hogs;
mod interactions;
mod limits;
mod local;
mod locality;
mod manager;
mod maps;
mod may_block;
mod one_shots;
mod periodic;
mod permits;
mod placement;
mod pods;
mod pool_growth;
mod programs;
mod queues;
mod rescuers;
mod scopes;
mod shutdown;
mod stress;
mod stress_beside_load;
mod submissions;
mod support;
mod system;
mod teardown;
mod thread_cap;
mod thread_creation;
mod thread_ends;
mod threads;
mod undetected;
mod watchdog;
mod weights;
mod works;
mod wrappers;
mod yields;
