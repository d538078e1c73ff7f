//! The protocol layer stores the state words that the policy layer defines. A *cell* holds such a word in an atomic
//! variable. The cell adds memory orderings and a retry loop to the transitions of the word.
//!
//! The protocol layer makes no decisions. The header of each cell's module states which accesses pair with each other,
//! and which interleaving a weaker ordering would allow. The loom models in `models` prove these claims. Each patch in
//! `tests/mutants/` breaks the code so that a loom model, or a run of the engine, must fail.

pub(crate) mod alive;
pub(crate) mod attention;
pub(crate) mod backlog;
pub(crate) mod bell;
pub(crate) mod bytes;
pub(crate) mod cancel;
pub(crate) mod counters;
pub(crate) mod crowded;
pub(crate) mod current_item;
pub(crate) mod drain;
pub(crate) mod exchange;
pub(crate) mod flush;
pub(crate) mod forks;
pub(crate) mod given_up;
pub(crate) mod global_cache;
pub(crate) mod item;
pub(crate) mod limiter;
pub(crate) mod one_shot;
pub(crate) mod places;
pub(crate) mod pod_bits;
pub(crate) mod references;
pub(crate) mod route;
pub(crate) mod running;
pub(crate) mod scope;
pub(crate) mod search;
pub(crate) mod sideline;
pub(crate) mod signal;
pub(crate) mod threads;
pub(crate) mod timing;
pub(crate) mod turns;
pub(crate) mod worker;

#[cfg(all(test, cmwq_loom))]
mod models;

use crate::sys::sync::{AtomicU64, Ordering};

/// Applies a transition of the policy layer to a stored word. Returns the answer of the transition.
///
/// Each call performs one read-modify-write, even if the transition leaves the word unchanged. So each call has a place
/// in the modification order of the word.
#[inline]
fn update<W: Copy, A>(
    word: &AtomicU64,
    success: Ordering,
    unpack: impl Fn(u64) -> W,
    pack: impl Fn(W) -> u64,
    mut transition: impl FnMut(W) -> (W, A),
) -> A {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let (next, answer) = transition(unpack(seen));
        match word.compare_exchange_weak(seen, pack(next), success, Ordering::Relaxed) {
            Ok(_) => return answer,
            Err(actual) => seen = actual,
        }
    }
}
