//! The part of a fork that every thread uses, whatever the types of its closure and result are. `fork` says what a fork
//! is.
//!
//! Workers keep forks on lists, and pools look for them there. To avoid a dependency cycle, this file knows the pool of
//! the joining thread only by its address, and calls the code that admits a fork through a pointer.
#![allow(unsafe_code, reason = "lists hold forks of all types through thin pointers")]

use std::ptr::NonNull;

use crate::policy::concurrency::Reserved;
use crate::policy::one_shot::Finish;
use crate::protocol::one_shot::OneShotCell;
use crate::sys::sync::{AtomicBool, Mutex, Ordering};
use crate::sys::wait;

use super::entry::{Entry, Head, Header};

/// The first field of every fork. Because of `repr(C)`, a pointer to the fork also points to its head and header.
#[repr(C)]
pub(super) struct ForkHead {
    pub(super) head: Head,
    /// See [`ForkAddress::admit`].
    pub(super) admit: unsafe fn(ForkAddress) -> Option<Entry>,
    /// The fork that made this fork, if it is a part of one. That fork does not end before this one.
    pub(super) whole: Option<ForkAddress>,
    /// The address of the joining thread's pool. It is only compared.
    pub(super) pool: *const (),
    /// The call of a thread that has made a part: the joining thread is to take the part in the place of the worker for
    /// which this is the reservation.
    pub(super) call: Mutex<Option<Reserved>>, // K
    /// Whether there is a call. A thread that is about to sleep reads this, and must not take a lock then.
    pub(super) is_called: AtomicBool, // A
}

/// The address of a fork. Exactly one list has the address until a thread takes it off the list. That thread owns the
/// entry's side of the fork's cell. If it is not the joining thread, it must [admit](Self::admit) the fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ForkAddress(NonNull<ForkHead>);

// SAFETY: the closure and its result are `Send`, and the other fields can be shared. The cell's state orders the
// accesses of the two threads.
unsafe impl Send for ForkAddress {}

impl ForkHead {
    /// Returns whether the thread that joins this fork sleeps, belongs to this pool, and was not called.
    fn can_call<P>(&self, pool: &P) -> bool {
        let is_called = || self.is_called.load(Ordering::Relaxed);
        std::ptr::addr_eq(self.pool, pool) && self.head.cell.load().is_joined() && !is_called()
    }

    /// Wakes the joining thread in the place of a worker with this reservation. Returns the reservation if another
    /// thread has called the joining thread meanwhile.
    fn call(&self, reserved: Reserved) -> Option<Reserved> {
        let mut call = self.call.lock();
        if call.is_some() {
            return Some(reserved);
        }
        *call = Some(reserved);
        drop(call);
        self.is_called.store(true, Ordering::Release);
        wait::wake_all(self.head.cell.key());
        None
    }

    /// Takes the call, if there is one.
    pub(super) fn take_call(&self) -> Option<Reserved> {
        self.is_called.store(false, Ordering::Relaxed);
        self.call.lock().take()
    }
}

impl ForkAddress {
    pub(super) fn new(fork: NonNull<ForkHead>) -> Self {
        Self(fork)
    }

    /// # Safety
    ///
    /// The item is a fork.
    pub(super) unsafe fn of_item(item: NonNull<Header>) -> Self {
        Self(item.cast())
    }

    pub(super) fn item(self) -> NonNull<Header> {
        self.0.cast()
    }

    /// Admits a fork that the calling thread has taken off its list. Returns an entry with a slot, which the caller
    /// executes next. If the queue has no free slot, or lets no item in, gives the fork back and returns `None`.
    pub(crate) fn admit(self) -> Option<Entry> {
        // SAFETY: the calling thread owns the entry's side of the cell, which keeps the fork in place.
        let admit = unsafe { self.0.as_ref() }.admit;
        // SAFETY: as above.
        unsafe { admit(self) }
    }

    /// Returns a function that calls a thread of this pool in the place of a worker. This thread waits for this fork or
    /// for a fork of which this fork is a part, and can take a new part of this fork. Returns `None` if there is none.
    ///
    /// # Safety
    ///
    /// The calling thread runs the fork, also while it calls the function.
    pub(crate) unsafe fn waiting_thread<P>(
        self,
        pool: &P,
    ) -> Option<impl FnOnce(Reserved) -> Option<Reserved>> {
        let mut next = Some(self);
        while let Some(fork) = next {
            // SAFETY: the calling thread owns the entry's side of its fork's cell, which keeps the fork in place. A
            // fork does not end before its parts.
            let fork: &ForkHead = unsafe { fork.0.as_ref() };
            if fork.can_call(pool) {
                return Some(|reserved| fork.call(reserved));
            }
            next = fork.whole;
        }
        None
    }
}

/// Gives a fork back to the joining thread, which then calls the closure. The calling thread owns the entry's side of
/// the fork's cell, and this ends here.
#[cold]
pub(super) fn give_back(item: NonNull<Header>) {
    // SAFETY: the entry's side of the cell keeps the fork in place.
    let state = unsafe { &item.cast::<Head>().as_ref().cell };
    end(state, |state| state.abandon(false));
}

/// Ends the entry's side of a fork's cell, and wakes the joining thread. After that, the cell may be gone.
pub(super) fn end(state: &OneShotCell, end: impl FnOnce(&OneShotCell) -> Finish) {
    let key = state.key();
    match end(state) {
        Finish::Leave => {}
        Finish::Wake(waiting) => OneShotCell::wake(key, waiting),
        Finish::Free | Finish::Unlisten => unreachable!("the joining thread is the handle, and stays"),
    }
}
