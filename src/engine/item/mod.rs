//! Items: what users queue, and the ways to submit it.
//!
//! | file | contents |
//! |---|---|
//! | `entry` | what every item begins with, and its entries on lists |
//! | `one_shot`, `cells` | closures that run once, their handles, and the memory that they use again |
//! | `work`, `work_item` | reusable items: their cells and handles; how they are cancelled, waited for, and executed |
//! | `place` | the CPU on which an item is queued |
//! | `submit`, `batch` | the issuer's path: place, admit, enqueue, kick; and the same for many items, with one kick |
//! | `timers`, `delayed`, `periodic` | items that are queued later, once or again and again |
//! | `scope` | items that borrow, and the end of their scope |
//! | `waits` | the one way into every wait |
//! | `context` | what code inside an item can ask |
//! | `latency` | the histograms of how long items wait and run |
//!
//! The room owns the items, from their first submission until nothing points at them any more. An item's word says
//! which thread may do what with it; what is rare is under the lock of its slow-path state (`L`). The map of timers has
//! a lock of its own. Debug builds register waits (`W`).
//!
//! Issuers enter to submit, any thread with a handle to cancel or to wait, the worker that executes the item, and the
//! manager to fire timers.

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
