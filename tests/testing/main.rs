//! The test kit `cmwq::testing`, as its users see it.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests stand in for a user")]

mod backlog;
mod cancels;
mod drawn_faults;
mod failures;
mod faults;
mod latency;
mod panics;
mod programs;
mod schedules;
mod support;
mod time;
mod waits;
