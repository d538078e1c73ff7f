//! Runs the fleet as users do: a real server, and consumers that are processes and may be killed.

mod ends;
mod failures;
mod kills;
mod outages;
mod permits;
mod support;
