//! Concurrency-managed workqueues for Rust services, without async.

mod policy;
mod protocol;
mod sys;
