//! A reusable item, which is a function that can be queued again and again: its cell, and the handles to it.
//!
//! All handles, entries and runs of an item point to the same cell. The cell's state word alone shows which of these
//! pointers is the last (see `policy::item`), so a submission needs no reference count of its own. The operations on
//! the item and its entries are in `work_item`.
#![allow(unsafe_code, reason = "handles and entries share the item, and the last of them frees it")]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::protocol::item::ItemCell;
use crate::sys::fork::Origin;

use crate::engine::carrier::Carried;
use crate::engine::user_code::destroy;

use super::entry::{Entry, Header, ItemType};
use super::timers::TimerName;
use super::token::Token;

/// A reusable item, as the module describes it. Because of `repr(C)`, a pointer to the item also points to its header.
#[repr(C)]
pub(crate) struct WorkItem {
    pub(crate) header: Header,                            // A
    pub(crate) cell: ItemCell<Entry, TimerName, Carried>, // A, L
    /// The process that made the item. Only threads of this process can queue the item, or wait for it.
    pub(crate) origin: Origin, // I
    pub(crate) item_type: &'static ItemType,              // I
    /// The item's number. No other reusable item of the process has the same number.
    pub(crate) id: u64, // I
    /// The token of a periodic item, if the item was submitted with one.
    pub(crate) token: Option<Token>, // I
    /// Two threads use the function: the worker that executes the item, and later the thread that frees the item.
    pub(super) function: UnsafeCell<Box<Function>>,
}

pub(crate) type Function = dyn FnMut(&WorkHandle) + Send;

/// A user's handle to an item.
pub(crate) struct WorkHandle(pub(super) NonNull<WorkItem>);

// SAFETY: threads may share an item. The item's cell synchronizes the threads, and the entries in its slow-path state
// are `Send`. The function is `Send`, and only one worker at a time uses it. The item's word ensures this: the
// beginning of a run acquires the writes that the end of the previous run has released.
unsafe impl Send for WorkHandle {}
// SAFETY: the item's cell synchronizes the threads, and only one worker at a time uses the function.
unsafe impl Sync for WorkHandle {}

impl WorkHandle {
    /// Makes a handle to an item that is running.
    ///
    /// # Safety
    ///
    /// The header belongs to a reusable item, and the caller is inside the item's function.
    pub(crate) unsafe fn of_running(item: NonNull<Header>) -> Self {
        // The handle `running` is not counted, so it is not dropped either. The run keeps the item in memory. The
        // returned clone is counted.
        let running = ManuallyDrop::new(Self(item.cast()));
        Self::clone(&running)
    }

    /// Returns a pointer to the item, which an entry can store. The item stays in memory as long as the item's word
    /// records the entry.
    #[inline]
    pub(crate) fn item(&self) -> NonNull<Header> {
        self.0.cast()
    }
}

impl Deref for WorkHandle {
    type Target = WorkItem;

    #[inline]
    fn deref(&self) -> &WorkItem {
        // SAFETY: this handle is counted in the item's word, or borrowed from the item's run. Both the count and the
        // run keep the item in memory.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for WorkHandle {
    fn clone(&self) -> Self {
        self.cell.add_handle();
        Self(self.0)
    }
}

impl Drop for WorkHandle {
    fn drop(&mut self) {
        if self.cell.drop_handle() {
            // SAFETY: according to `drop_handle`, the item is over.
            unsafe { free(self.0) };
        }
    }
}

impl WorkItem {
    pub(crate) fn type_name(&self) -> &'static str {
        self.item_type.name()
    }
}

/// # Safety
///
/// The item is over, and this thread made the transition that ended it.
pub(super) unsafe fn free(item: NonNull<WorkItem>) {
    // SAFETY: every item comes from a box, and no other reference to this item is left.
    let item = unsafe { Box::from_raw(item.as_ptr()) };
    destroy(move || drop(item));
}

impl fmt::Debug for WorkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Debug for WorkItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkItem")
            .field("function", &self.type_name())
            .field("state", &self.cell.load())
            .finish()
    }
}
