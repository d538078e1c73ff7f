//! Concurrency-managed workqueues for Rust services, without async.

mod policy;
