//! The only module that calls loggers, hooks, subscribers, and the destructors of values that users have handed over.
//!
//! * **A panic ends no thread.** This module catches a panic of user code, and also a panic in the destructor of that
//!   panic's payload. The process's panic hook reports both panics before this module catches them.
//! * **No lock is held** during a call, so user code may use the executor that calls it.
//! * **The manager never destroys a user's value.** A destructor may wait for a timer or for another worker, and both
//!   need the manager. So on the manager's thread, [`destroy`] leaves the value to the
//!   [cleaner](super::manager::manager_thread).
//!
//! `tests/tidy` checks that no other file logs or calls a subscriber.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{fmt, io};

/// A function that destroys users' values. A manager's thread leaves such functions to the cleaner.
pub(crate) type Leftover = Box<dyn FnOnce() + Send>;

thread_local! {
    /// Whether the calling thread belongs to a manager and executes this crate's own code.
    static MANAGES: Cell<bool> = const { Cell::new(false) };
    /// The functions that a manager's thread has left to the cleaner.
    static LEFT: Cell<Vec<Leftover>> = const { Cell::new(Vec::new()) };
}

/// Runs a user's destructor, or other code, and catches its panic.
///
/// The code is called through a pointer, so that the compiler generates the rest of this function only once.
pub(crate) fn contain(code: impl FnOnce()) {
    let mut code = Some(code);
    contain_call(&mut || {
        if let Some(code) = code.take() {
            code();
        }
    });
}

fn contain_call(code: &mut dyn FnMut()) {
    let _returned = catch_unwind(AssertUnwindSafe(code)).map_err(discard);
}

/// Calls a logger, a hook or a subscriber. Returns `None` if that code panicked.
///
/// On the manager's thread, the call does not count as the manager's own code. So if the user code destroys a value,
/// the value is destroyed immediately and not left to the cleaner.
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

/// [Destroys](destroy) the payload of a panic.
#[cold]
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    destroy(|| discard_here(payload));
}

fn discard_here(payload: Box<dyn Any + Send>) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // The payload of this second panic may also panic when it is dropped, and so on for ever. So this second
        // payload is leaked.
        std::mem::forget(payload);
    }
}

/// Destroys a user's value by calling `act` immediately. On the manager's thread, leaves `act` to the cleaner's thread
/// instead.
#[inline]
pub(crate) fn destroy(act: impl FnOnce() + Send + 'static) {
    if MANAGES.get() { leave(Box::new(act)) } else { act() }
}

/// The error that replaces a panic of the hook `before_spawn`.
#[derive(Debug)]
pub(crate) struct HookPanicked;

impl fmt::Display for HookPanicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the hook before_spawn panicked")
    }
}

impl std::error::Error for HookPanicked {}

/// [Destroys](destroy) an error that a hook may have made. An error of the system or of this crate contains no user's
/// value, and is dropped immediately.
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

/// A guard that determines, while it lives, whether the calling thread counts as a manager's thread.
pub(crate) struct Managing {
    before: bool,
    /// Keeps the guard on the thread that made it.
    not_send: PhantomData<*const ()>,
}

impl Managing {
    /// Makes the calling thread count as a manager's thread.
    pub(crate) fn begin() -> Self {
        Self::set(true)
    }

    fn set(manages: bool) -> Self {
        Self { before: MANAGES.replace(manages), not_send: PhantomData }
    }

    /// Takes the functions that the thread has left to the cleaner since the last call.
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

    /// A value that panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any("a payload that panics");
        }
    }

    /// spec: W9.5 (user code ends no thread): user code panics, and the payload of the panic panics when it is dropped.
    /// The calling thread goes on.
    #[test]
    fn a_panic_and_a_panic_of_its_payload_are_contained() {
        assert_eq!(call(|| 7), Some(7));
        assert_eq!(call(|| -> u32 { std::panic::panic_any(Bomb) }), None);
        contain(|| std::panic::panic_any(Bomb));
        contain(|| drop(Bomb));
    }

    /// spec: W9.6 (the manager destroys nothing that belongs to a user): a manager's thread leaves a user's value to
    /// the cleaner. Any other thread destroys the value immediately.
    #[test]
    fn a_manager_leaves_values_instead_of_destroying_them() {
        let value = Arc::new(());
        let destroys = || {
            let value = Arc::clone(&value);
            destroy(move || drop(value));
        };
        destroys();
        assert_eq!(Arc::strong_count(&value), 1, "a thread that is no manager destroys it immediately");
        let managing = Managing::begin();
        destroys();
        call(destroys);
        destroys();
        assert_eq!(Arc::strong_count(&value), 3, "a value that user code destroys is destroyed immediately");
        let left = managing.left();
        drop(managing);
        destroys();
        assert_eq!((left.len(), Arc::strong_count(&value)), (2, 3));
        left.into_iter().for_each(|act| act());
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
