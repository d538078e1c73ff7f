//! The one door to code of users that this crate calls of its own accord: loggers, hooks, subscribers, and the
//! destructors of what users have handed over.
//!
//! * **A panic ends no thread.** It is contained here, and so is a panic of the payload's own destructor. The process's
//!   panic hook has reported both.
//! * **No lock is held** across a call, so user code may use the executor that calls it.
//! * **The manager destroys nothing that belongs to a user.** A destructor may wait for a timer or for another worker,
//!   and both need the manager. What the manager is about to [`destroy`] is left behind instead, for the
//!   [cleaner](super::manager).
//!
//! No other file logs or tells a subscriber, and `tests/tidy.rs` checks that.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Something that destroys values of a user.
pub(crate) type Leftover = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The calling thread is a manager's, and executes this crate's own code.
    static MANAGES: Cell<bool> = const { Cell::new(false) };
    /// What that thread has not destroyed.
    static LEFT: Cell<Vec<Leftover>> = const { Cell::new(Vec::new()) };
}

/// Runs a destructor of a user, or something else whose panic keeps the caller from nothing.
#[inline]
pub(crate) fn contain(code: impl FnOnce()) {
    let _returned = catch_unwind(AssertUnwindSafe(code)).map_err(discard);
}

/// Calls a logger, a hook or a subscriber. `None`: it panicked.
///
/// On the manager's thread the call is not the manager's own code. What user code destroys there by itself is destroyed
/// there.
pub(crate) fn call<R>(code: impl FnOnce() -> R) -> Option<R> {
    let outside = Managing::set(false);
    let outcome = catch_unwind(AssertUnwindSafe(code));
    drop(outside);
    outcome.map_err(discard).ok()
}

/// Logs one line.
macro_rules! report {
    ($level:ident, $($line:tt)+) => {{
        $crate::engine::user_code::call(|| ::log::$level!(target: "cmwq", $($line)+));
    }};
}
pub(crate) use report;

/// [Destroys](destroy) what a thread panicked with.
#[cold]
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    destroy(|| discard_here(payload));
}

fn discard_here(payload: Box<dyn Any + Send>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // Another one that panics when it is dropped. It could go on like this for ever.
        std::mem::forget(payload);
    }
}

/// Destroys something that belongs to a user: at once, or, on the manager's thread, later and elsewhere.
#[inline]
pub(crate) fn destroy(act: impl FnOnce() + Send + 'static) {
    if MANAGES.get() { leave(Box::new(act)) } else { act() }
}

/// What the hook `before_spawn` answers if it panics.
#[derive(Debug)]
pub(crate) struct HookPanicked;

impl fmt::Display for HookPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the hook before_spawn panicked")
    }
}

impl std::error::Error for HookPanicked {}

/// [Destroys](destroy) an error. A hook may have made it; one of the system, or of this crate, owns nothing of a user.
pub(crate) fn destroy_error(error: io::Error) {
    if error.get_ref().is_some_and(|inner| !inner.is::<HookPanicked>()) {
        destroy(|| contain(|| drop(error)));
    }
}

#[cold]
fn leave(act: Leftover) {
    let mut left = LEFT.take();
    left.push(act);
    LEFT.set(left);
}

/// As long as this lives, the calling thread is a manager's, or is not.
pub(crate) struct Managing {
    before: bool,
    /// It is about the thread that has made it.
    not_send: PhantomData<*const ()>,
}

impl Managing {
    /// The calling thread is a manager's from now on.
    pub(crate) fn begin() -> Self {
        Self::set(true)
    }

    fn set(manages: bool) -> Self {
        Self { before: MANAGES.replace(manages), not_send: PhantomData }
    }

    /// What the thread has left since it was asked last.
    pub(crate) fn left(&self) -> Vec<Leftover> {
        LEFT.take()
    }
}

impl Drop for Managing {
    fn drop(&mut self) {
        MANAGES.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any("a payload that panics");
        }
    }

    /// spec: W9.5 (user code ends no thread)
    #[test]
    fn a_panic_is_contained_and_so_is_its_payload() {
        assert_eq!(call(|| 7), Some(7));
        assert_eq!(call(|| -> u32 { std::panic::panic_any(Bomb) }), None);
        contain(|| std::panic::panic_any(Bomb));
        contain(|| drop(Bomb));
    }

    /// spec: W9.6 (the manager destroys nothing that belongs to a user)
    #[test]
    fn a_manager_leaves_what_it_would_destroy() {
        let value = Arc::new(());
        let destroys = || {
            let value = Arc::clone(&value);
            destroy(move || drop(value));
        };
        destroys();
        assert_eq!(Arc::strong_count(&value), 1, "another thread destroys it at once");
        let managing = Managing::begin();
        destroys();
        call(destroys);
        destroys();
        assert_eq!(Arc::strong_count(&value), 3, "what user code destroys by itself is gone");
        let left = managing.left();
        drop(managing);
        destroys();
        assert_eq!((left.len(), Arc::strong_count(&value)), (2, 3));
        left.into_iter().for_each(|act| act());
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
