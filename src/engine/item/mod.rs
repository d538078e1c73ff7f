//! Items: the functions that users queue, and the ways to submit them.
//!
//! | file | contents |
//! |---|---|
//! | `entry` | the header of every item, and the entries of items on lists |
//! | `entry_list` | the lists of entries that several threads use without a lock |
//! | `closure`, `with_options` | the closures of one-shots, and their names, tokens and bytes |
//! | `carried` | the values that are current for the issuer, and become current for the worker |
//! | `token`, `cancellation` | the tree of tokens; the token of a thread, and whether its item should stop |
//! | `one_shot`, `cells` | closures that run once, their handles, and the memory that their cells reuse |
//! | `work`, `work_item` | reusable items: their cells and handles; how they are cancelled, waited for, and executed |
//! | `place` | the CPU on which an item is queued |
//! | `submit`, `batch` | the issuer's path: place, admit, enqueue, kick; and the same for many items, with one kick |
//! | `fork`, `fork_head` | closures that a worker calls itself unless another worker takes them |
//! | `here` | items that their issuer runs itself, because their queue is full |
//! | `timers`, `delayed`, `periodic` | items that are queued later, once or every period |
//! | `scope` | items that borrow, and the end of their scope |
//! | `waits` | the checks before each wait for an item or a queue, and the wait itself |
//! | `context` | the questions that code inside an item can ask about its item and queue |
//! | `latency` | the histograms of how long items wait and run |
//!
//! This *room* (module of the engine) owns each item until nothing points at the item any more. An item's state word
//! decides which thread may use which part of the item. Rare operations take the lock of the item's slow-path state
//! (`L`). The map of timers has a lock of its own. Debug builds register waits (`W`).
//!
//! Four kinds of threads call into this room. Issuers submit items. Threads with a handle cancel items or wait for
//! them. Workers execute items. The manager fires timers.

pub(crate) mod batch;
pub(crate) mod cancellation;
pub(crate) mod carried;
pub(crate) mod cells;
pub(crate) mod closure;
pub(crate) mod context;
pub(crate) mod delayed;
pub(crate) mod entry;
pub(crate) mod entry_list;
pub(crate) mod fork;
pub(crate) mod fork_head;
pub(crate) mod here;
pub(crate) mod latency;
pub(crate) mod one_shot;
pub(crate) mod periodic;
pub(crate) mod place;
pub(crate) mod scope;
pub(crate) mod submit;
pub(crate) mod timers;
pub(crate) mod token;
pub(crate) mod waits;
pub(crate) mod with_options;
pub(crate) mod work;
pub(crate) mod work_item;
