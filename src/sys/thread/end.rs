//! Runs code at the end of a thread, after the thread-local destructors, which may be user code.
//!
//! On systems with native thread-locals, the standard library runs thread-local destructors in the reverse order of
//! their registration. C++ registers its destructors in the same list. So the destructor that a thread registers first
//! runs last.
//!
//! A thread that calls `exit` also runs its thread-local destructors, but goes on running after these destructors. So
//! the code for the end is armed only after the thread's body has ended.

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

/// The action at the end of the thread.
struct Last(Cell<Option<Box<dyn FnOnce()>>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

/// Starts a thread as [`spawn`](super::spawn) does. Calls `end` with the thread's handle after the thread-local
/// destructors, which run when `body` has returned or panicked. The new thread itself calls `end`. But if the new
/// thread ends before its handle exists, the thread that called this function calls `end`. In a forked child, `end` is
/// not called.
pub(crate) fn spawn_to_the_end<E>(
    name: String,
    stack_size: Option<usize>,
    body: impl FnOnce() + Send + 'static,
    end: E,
) -> io::Result<Thread>
where
    E: FnOnce(JoinHandle<()>) + Send + 'static,
{
    let meeting = Arc::new(Mutex::new(Meeting::Neither));
    let (origin, its_own) = (Origin::here(), Arc::clone(&meeting));
    let made = super::spawn(name, stack_size, move || {
        LAST.with(|_registered_first| ());
        let _when_it_has_ended = Arms { origin, meeting: its_own, end: Some(end) };
        body();
    })?;
    let thread = made.thread().clone();
    meet(&meeting, Meeting::Made(made));
    Ok(thread)
}

/// The place where the thread that ends and its maker bring together the function `end` and the thread's handle. The
/// thread that ends has the function, and its maker has the handle. The thread that comes first leaves its value here
/// for the other thread.
enum Meeting<E> {
    Neither,
    Made(JoinHandle<()>),
    Ended(E),
}

fn meet<E: FnOnce(JoinHandle<()>)>(meeting: &Mutex<Meeting<E>>, mine: Meeting<E>) {
    let mut place = meeting.lock();
    let (handle, end) = match (mem::replace(&mut *place, Meeting::Neither), mine) {
        (Meeting::Made(handle), Meeting::Ended(end)) | (Meeting::Ended(end), Meeting::Made(handle)) => {
            (handle, end)
        }
        (_, mine) => return *place = mine,
    };
    drop(place);
    end(handle);
}

/// A value whose drop arms the action at the end of the thread. This value is dropped after the thread's body has
/// ended.
struct Arms<E: FnOnce(JoinHandle<()>) + 'static> {
    origin: Origin,
    meeting: Arc<Mutex<Meeting<E>>>,
    end: Option<E>,
}

impl<E: FnOnce(JoinHandle<()>) + 'static> Drop for Arms<E> {
    fn drop(&mut self) {
        let (origin, meeting, end) = (self.origin, Arc::clone(&self.meeting), self.end.take());
        let act = move || {
            if origin.is_forked() {
                // The maker of the ending thread exists only in the parent process. If the maker held locks at the
                // fork, these locks stay locked in this child.
                return mem::forget((meeting, end));
            }
            if let Some(end) = end {
                meet(&meeting, Meeting::Ended(end));
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

    /// Sends a message when it is dropped.
    struct Says(Sender<&'static str>, &'static str);

    impl Drop for Says {
        fn drop(&mut self) {
            LATE.with(|late| late.replace(Some(Later(self.0.clone()))));
            self.0.send(self.1).unwrap();
        }
    }

    /// The value of a thread-local that is set only by the destructor of another thread-local.
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

    /// spec: E5.5: a thread, even one that has panicked, calls `end` after all its thread-local destructors, including
    /// those that other destructors have registered.
    #[test]
    fn the_end_comes_after_all_destructors() {
        for panics in [false, true] {
            let (say, said) = channel();
            let (body, end) = (say.clone(), say);
            let body = move || {
                SAYS.set(Some(Says(body, "destructor")));
                assert!(!panics, "a panic on purpose");
            };
            let (tell, told) = channel();
            let end = move |handle: JoinHandle<()>| {
                tell.send(handle.thread().id()).unwrap();
                end.send("end").unwrap();
            };
            let thread = spawn_to_the_end("test".to_owned(), None, body, end).unwrap();
            assert_eq!(said.iter().collect::<Vec<_>>(), ["destructor", "later", "end"]);
            assert_eq!(told.iter().collect::<Vec<_>>(), [thread.id()]);
        }
    }

    /// spec: E5.5: `end` gets the handle of the thread, even if the thread ends before its maker has this handle.
    #[test]
    fn the_second_to_come_ends_the_thread() {
        for is_over in [false, true] {
            let handle = super::super::spawn("test".to_owned(), None, || ()).unwrap();
            let id = handle.thread().id();
            let (tell, told) = channel();
            let end = move |handle: JoinHandle<()>| tell.send(handle.thread().id()).unwrap();
            let meeting = Mutex::new(Meeting::Neither);
            let mut both = [Meeting::Made(handle), Meeting::Ended(end)];
            if is_over {
                both.reverse();
            }
            let [first, second] = both;
            meet(&meeting, first);
            assert!(told.try_recv().is_err(), "the second part is still missing");
            meet(&meeting, second);
            assert_eq!(told.try_recv(), Ok(id));
        }
    }

    #[test]
    fn a_thread_that_cannot_be_made_has_no_end() {
        let end = |_: JoinHandle<()>| unreachable!("there is no thread");
        assert!(spawn_to_the_end("a\0b".to_owned(), None, || (), end).is_err());
    }
}
