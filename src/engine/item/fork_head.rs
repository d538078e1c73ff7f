//! The part of a fork that is the same for all types of closures and results. All threads use this part. A fork is a
//! closure that its worker calls itself, unless another worker takes it (see `fork`).
//!
//! Workers keep forks on lists, and pools search these lists. To avoid a dependency cycle, this file knows the pool of
//! the joining thread only as a [`JoiningPool`]. For the same reason, this file calls the code that admits a fork
//! through a function pointer.
#![allow(unsafe_code, reason = "lists hold forks of all types through thin pointers")]

use std::ptr::NonNull;

use crate::policy::concurrency::Reserved;
use crate::policy::one_shot::Finish;
use crate::protocol::one_shot::OneShotCell;
use crate::sys::sync::{AtomicBool, Mutex, Ordering};
use crate::sys::wait;

use super::entry::{Entry, Head, Header, ItemOperations};

/// The first field of every fork. Because of `repr(C)`, a pointer to the fork also points to its head and header.
#[repr(C)]
pub(super) struct ForkHead {
    pub(super) head: Head,
    /// See [`ForkAddress::admit`].
    pub(super) admit: unsafe fn(ForkAddress) -> Option<Entry>,
    /// The address of the fork of which this fork is a part, if there is one. That fork does not end before this fork.
    pub(super) whole: Option<ForkAddress>,
    /// The address of the forking item's `Current`, which is on the joining thread's stack.
    forking: NonNull<()>,
    /// The pool of the joining thread. The joining thread keeps the pool in memory.
    pool: NonNull<dyn JoiningPool>,
    /// The *call* to the joining thread, if there is one. By a call, a thread that has made a part of this fork asks
    /// the joining thread to take the part. The call contains a reservation, which counts the joining thread as waking.
    call: Mutex<Option<Reserved>>, // K
    /// Whether there is a call. When the joining thread is about to sleep, it reads this field instead of `call`,
    /// because it must not take a lock at that time.
    is_called: AtomicBool, // A
}

/// The pool of a thread that joins a fork.
pub(crate) trait JoiningPool {
    /// If a CPU of the pool is free, makes a reservation, which counts the joining thread as waking. The joining thread
    /// has kept its place in the pool (see `Pool::keep_place_during`).
    fn reserve_place(&self) -> Option<Reserved>;

    /// Ends a reservation of [`reserve_place`](Self::reserve_place), because the joining thread was not called, or
    /// counts as running by now.
    fn give_up_place(&self, reserved: Reserved);
}

/// The address of a fork. Exactly one list has the address until a thread takes it off the list. A thread that has
/// taken the address off a list owns the entry's side of the fork's cell. If that thread is not the joining thread, it
/// must [admit](Self::admit) the fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ForkAddress(NonNull<ForkHead>);

// SAFETY: the closure and its result are `Send`, and the other fields can be shared. The cell's state orders the
// accesses of the two threads.
unsafe impl Send for ForkAddress {}

impl ForkHead {
    #[inline]
    pub(super) fn new(
        item: &'static ItemOperations,
        admit: unsafe fn(ForkAddress) -> Option<Entry>,
        whole: Option<ForkAddress>,
        forking: NonNull<()>,
        pool: NonNull<dyn JoiningPool>,
    ) -> Self {
        Self {
            head: Head { header: Header::new(item), cell: OneShotCell::new() },
            admit,
            whole,
            forking,
            pool,
            call: Mutex::new(None),
            is_called: AtomicBool::new(false),
        }
    }

    /// Returns whether the joining thread was called.
    pub(super) fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Acquire)
    }

    /// Wakes the joining thread instead of a worker. Does so only if the joining thread sleeps and has not been called
    /// yet, and if its pool has a free CPU. Returns whether this call woke the joining thread. The caller runs this
    /// fork or a part of it.
    fn call(&self) -> bool {
        if !self.head.cell.load().is_joined() || self.is_called.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: the joining thread keeps its pool in memory, and waits until the fork is over. The caller runs this
        // fork or a part of it.
        let pool = unsafe { self.pool.as_ref() };
        let Some(reserved) = pool.reserve_place() else { return false };
        let mut call = self.call.lock();
        // Another thread may have called the joining thread since the check above, and the joining thread may have gone
        // on. It then runs a part of the fork, and would take this reservation only after that part. If the joining
        // thread still waits under the lock, it takes this reservation as soon as it wakes up.
        if call.is_some() || !self.head.cell.load().is_joined() {
            drop(call);
            pool.give_up_place(reserved);
            return false;
        }
        *call = Some(reserved);
        drop(call);
        self.is_called.store(true, Ordering::Release);
        wait::wake_all(self.head.cell.key());
        true
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

    /// Returns an address that leads nowhere, for tests.
    #[cfg(test)]
    pub(crate) fn of_nothing() -> Self {
        Self(NonNull::dangling())
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

    /// Admits a fork that the calling thread has taken off a list. Returns an entry that has a slot. The caller
    /// executes this entry next. If the queue has no free slot, or its intake is not open, gives the fork back and
    /// returns `None`.
    pub(crate) fn admit(self) -> Option<Entry> {
        // SAFETY: the calling thread owns the entry's side of the cell, which keeps the fork in place.
        let admit = unsafe { self.0.as_ref() }.admit;
        // SAFETY: the calling thread owns the entry's side of the cell.
        unsafe { admit(self) }
    }

    /// Returns the addresses of the `Current`s of the items to which this fork belongs. First comes the item that made
    /// this fork. If this fork is a part of another fork, the item that made that fork comes next, and so on. None of
    /// these items ends before this fork.
    ///
    /// # Safety
    ///
    /// The calling thread runs the fork as long as the result is used.
    pub(crate) unsafe fn forking(self) -> impl Iterator<Item = NonNull<()>> {
        // SAFETY: the calling thread owns the entry's side of its fork's cell, which keeps the fork in place. A fork
        // does not end before its parts.
        let head = |fork: Self| unsafe { fork.0.as_ref() };
        std::iter::successors(Some(self), move |fork| head(*fork).whole).map(move |fork| head(fork).forking)
    }

    /// Calls a thread that waits for this fork, or for a fork of which this fork is a part. The called thread is woken
    /// instead of a worker, and can take a new part of this fork. Returns whether a thread was called.
    ///
    /// # Safety
    ///
    /// The calling thread runs the fork.
    pub(crate) unsafe fn call_waiting_thread(self) -> bool {
        let mut next = Some(self);
        while let Some(fork) = next {
            // SAFETY: the calling thread owns the entry's side of its fork's cell, which keeps the fork in place. A
            // fork does not end before its parts.
            let fork: &ForkHead = unsafe { fork.0.as_ref() };
            if fork.call() {
                return true;
            }
            next = fork.whole;
        }
        false
    }
}

/// Gives a fork back to the joining thread, which then calls the closure. The calling thread owns the entry's side of
/// the fork's cell. This function ends the entry's side.
#[cold]
pub(super) fn give_back(item: NonNull<Header>) {
    // SAFETY: the entry's side of the cell keeps the fork in place.
    let state = unsafe { &item.cast::<Head>().as_ref().cell };
    end(state, |state| state.abandon(false));
}

/// Ends the entry's side of a fork's cell, and wakes the joining thread. The cell may be gone as soon as the
/// entry's side has ended.
pub(super) fn end(state: &OneShotCell, end: impl FnOnce(&OneShotCell) -> Finish) {
    let key = state.key();
    match end(state) {
        Finish::Leave => {}
        Finish::Wake(waiting) => OneShotCell::wake(key, waiting),
        Finish::Free | Finish::Unlisten => unreachable!("the joining thread is the handle, and stays"),
    }
}
