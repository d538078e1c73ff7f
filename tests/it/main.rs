//! Integration and stress tests on real threads: one module per topic.
//!
//! Every executor in these tests has the progress check armed, so a lost wake-up aborts the run with a dump.
//! `CMWQ_STRESS` scales the size of the stress tests: 1 by default, 10 for a long run.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests stand in for a user, who has the standard library"
)]

mod attrs;
mod bad_input;
mod batches;
mod bh;
mod cancel;
mod cap;
mod concurrency;
mod conformance;
mod context;
mod counters;
mod creation;
mod delayed;
mod detached;
mod detection;
mod drain;
mod dump;
mod environment;
mod executors;
mod flush;
mod freeze;
mod growth;
mod guards;
mod histograms;
mod hogs;
mod left_alone;
mod limits;
mod locality;
mod manager;
mod may_block;
mod one_shots;
mod periodic;
mod placement;
mod pods;
mod programs;
mod queues;
mod rescuers;
mod scopes;
mod seams;
mod shutdown;
mod stress;
mod support;
mod system;
mod teardown;
mod thread_ends;
mod threads;
mod undeclared;
mod waiting;
mod watchdog;
mod works;
mod wrappers;
