//! What users queue: one-shots and reusable items, their entries on lists, and the ways to submit them.

pub(crate) mod batch;
pub(crate) mod cells;
pub(crate) mod context;
pub(crate) mod delayed;
pub(crate) mod entry;
pub(crate) mod latency;
pub(crate) mod one_shot;
pub(crate) mod periodic;
pub(crate) mod place;
pub(crate) mod scope;
pub(crate) mod submit;
pub(crate) mod timers;
pub(crate) mod waits;
pub(crate) mod work;
pub(crate) mod work_item;
