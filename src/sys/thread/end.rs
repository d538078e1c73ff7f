//! The end of a thread, after its thread-local destructors. They are user code.
//!
//! The standard library runs thread-local destructors in the reverse order of their registration, wherever the system has
//! thread-locals of its own, and C++ registers its own in the same list. So the destructor that a thread registers first
//! runs last.
//!
//! A thread that calls `exit` runs its thread-local destructors, too, and goes on. The end is only armed when the thread's
//! own code has ended, so that is no end.

use std::cell::Cell;
use std::io;
use std::mem;
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};

use crate::sys::fork::Origin;
use crate::sys::sync::Mutex;

thread_local! {
    static LAST: Last = const { Last(Cell::new(None)) };
}

/// What to do at the end.
struct Last(Cell<Option<Box<dyn FnOnce()>>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

/// As [`spawn`](super::spawn), for a thread whose end is to be known: when `body` has returned, or panicked, and the
/// thread-local destructors have run, the thread calls `end` with its own handle. In a forked child nothing is called.
pub(crate) fn spawn_to_the_end(
    name: String,
    stack_size: Option<usize>,
    body: impl FnOnce() + Send + 'static,
    end: impl FnOnce(JoinHandle<()>) + Send + 'static,
) -> io::Result<Thread> {
    let own = Arc::new(Mutex::new(None));
    let (origin, its_own) = (Origin::here(), Arc::clone(&own));
    // Held until the handle is there: a thread that ends sooner waits for it.
    let mut handle = own.lock();
    let made = super::spawn(name, stack_size, move || {
        LAST.with(|_registered_first| ());
        let _when_it_has_ended = Arms { origin, own: its_own, end: Some(end) };
        body();
    })?;
    let thread = made.thread().clone();
    *handle = Some(made);
    Ok(thread)
}

/// Arms the end of the thread when its own code has ended.
struct Arms<E: FnOnce(JoinHandle<()>) + 'static> {
    origin: Origin,
    own: Arc<Mutex<Option<JoinHandle<()>>>>,
    end: Option<E>,
}

impl<E: FnOnce(JoinHandle<()>) + 'static> Drop for Arms<E> {
    fn drop(&mut self) {
        let (origin, own, end) = (self.origin, Arc::clone(&self.own), self.end.take());
        let act = move || {
            if origin.is_forked() {
                // The threads are the parent's, and so are their locks.
                return mem::forget((own, end));
            }
            let handle = own.lock().take();
            if let (Some(handle), Some(end)) = (handle, end) {
                end(handle);
            }
        };
        LAST.with(|last| last.0.set(Some(Box::new(act))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::mpsc::{Sender, channel};

    /// Says when it is dropped.
    struct Says(Sender<&'static str>, &'static str);

    impl Drop for Says {
        fn drop(&mut self) {
            LATE.with(|late| late.replace(Some(Later(self.0.clone()))));
            self.0.send(self.1).unwrap();
        }
    }

    /// Put into a thread-local by a destructor of another one.
    struct Later(Sender<&'static str>);

    impl Drop for Later {
        fn drop(&mut self) {
            self.0.send("later").unwrap();
        }
    }

    thread_local! {
        static SAYS: RefCell<Option<Says>> = const { RefCell::new(None) };
        static LATE: RefCell<Option<Later>> = const { RefCell::new(None) };
    }

    /// spec: E5.5: also those that other destructors bring about, and after a panic.
    #[test]
    fn the_end_comes_after_all_destructors() {
        for panics in [false, true] {
            let (say, said) = channel();
            let (body, end) = (say.clone(), say);
            let body = move || {
                SAYS.set(Some(Says(body, "destructor")));
                assert!(!panics, "a panic on purpose");
            };
            let end = move |handle: JoinHandle<()>| {
                assert_eq!(handle.thread().id(), std::thread::current().id());
                end.send("end").unwrap();
            };
            spawn_to_the_end("test".to_owned(), None, body, end).unwrap();
            assert_eq!(said.iter().collect::<Vec<_>>(), ["destructor", "later", "end"]);
        }
    }

    #[test]
    fn a_thread_that_cannot_be_made_has_no_end() {
        let end = |_: JoinHandle<()>| unreachable!("there is no thread");
        assert!(spawn_to_the_end("a\0b".to_owned(), None, || (), end).is_err());
    }
}
