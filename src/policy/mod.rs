//! The policy layer makes decisions with pure functions on `Copy` words and plain structs.
//!
//! The policy layer contains no lock, atomic, thread, clock, I/O or `unsafe`. Its functions get the present time as an
//! argument, `now`. The protocol layer stores the words, and the engine performs the actions that the policy functions
//! return. Table tests and property tests call the policy functions with bare values.

pub(crate) mod admission;
pub(crate) mod alarms;
pub(crate) mod attrs;
pub(crate) mod backlog;
pub(crate) mod blocking_detector;
pub(crate) mod brisk;
pub(crate) mod budget;
pub(crate) mod concurrency;
pub(crate) mod counters;
pub(crate) mod cpu_set;
pub(crate) mod deadlines;
pub(crate) mod detection;
pub(crate) mod effective_state;
pub(crate) mod environment;
pub(crate) mod fairness;
pub(crate) mod flush;
pub(crate) mod histogram;
pub(crate) mod idle_set;
pub(crate) mod item;
pub(crate) mod known_deadlines;
pub(crate) mod late;
pub(crate) mod local;
pub(crate) mod locks;
pub(crate) mod manager;
pub(crate) mod metering;
#[cfg(feature = "serde")]
pub(crate) mod nanos;
pub(crate) mod nearby;
pub(crate) mod neighbours;
pub(crate) mod offenders;
pub(crate) mod one_shot;
pub(crate) mod pace;
pub(crate) mod parts;
pub(crate) mod places;
pub(crate) mod pods;
pub(crate) mod presence;
pub(crate) mod quota;
pub(crate) mod rescue;
pub(crate) mod room;
pub(crate) mod sampling;
pub(crate) mod search;
pub(crate) mod threads;
pub(crate) mod ticks;
pub(crate) mod time;
pub(crate) mod topology;
pub(crate) mod waits;
pub(crate) mod watch;
pub(crate) mod watchdog;
pub(crate) mod when_full;
pub(crate) mod worker;
