//! Runs the fleet as users do, with a real Redis server. The consumers are processes, which a test may kill.

mod ends;
mod failures;
mod kills;
mod outages;
mod permits;
mod support;
