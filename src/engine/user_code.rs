//! The one door to code of users that this crate calls of its own accord: loggers, hooks, subscribers, and the
//! destructors of what users have handed over.
//!
//! * **A panic ends no thread.** It is contained here, and so is a panic of the payload's own destructor. The process's
//!   panic hook has reported both.
//! * **No lock is held** across a call, so user code may use the executor that calls it.
//! No other file logs or tells a subscriber, and `tests/tidy.rs` checks that.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a destructor of a user.
pub(crate) fn contain(code: impl FnOnce()) {
    let _returned = caught(code);
}

/// Calls a logger, a hook or a subscriber. `None`: it panicked.
pub(crate) fn call<R>(code: impl FnOnce() -> R) -> Option<R> {
    caught(code)
}

/// Logs one line.
macro_rules! report {
    ($level:ident, $($line:tt)+) => {{
        $crate::engine::user_code::call(|| ::log::$level!(target: "cmwq", $($line)+));
    }};
}
pub(crate) use report;

fn caught<R>(code: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(code)).map_err(discard).ok()
}

/// Drops what a thread panicked with.
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // Another one that panics when it is dropped. It could go on like this for ever.
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any("a payload that panics");
        }
    }

    /// spec: W9 (user code ends no thread)
    #[test]
    fn a_panic_is_contained_and_so_is_its_payload() {
        assert_eq!(call(|| 7), Some(7));
        assert_eq!(call(|| -> u32 { std::panic::panic_any(Bomb) }), None);
        contain(|| std::panic::panic_any(Bomb));
        contain(|| drop(Bomb));
    }
}
