//! A reusable item: a function that is queued again and again. Its cell, and the handles of it.
//!
//! Handles, entries and the run all point at the same cell. The state word alone tells which of them is the last (see
//! `policy::item`), so a submission counts no reference. What becomes of the item's entries is in `work_item`.
#![allow(unsafe_code, reason = "handles and entries share the item, and the last of them frees it")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::protocol::item::ItemCell;
use crate::sys::fork::Origin;

use crate::engine::user_code::destroy;

use super::entry::{Entry, Header, ItemType};
use super::timers::TimerName;

/// See the module. `repr(C)`: a pointer to the item also points to its header.
#[repr(C)]
pub(crate) struct WorkItem {
    pub(crate) header: Header,                   // A
    pub(crate) cell: ItemCell<Entry, TimerName>, // A, L
    /// The process that made it. Threads of no other process can queue it, or wait for it.
    pub(crate) origin: Origin, // I
    pub(crate) item_type: &'static ItemType,     // I
    pub(super) function: Box<Function>,          // I
}

pub(crate) type Function = dyn Fn(&WorkHandle) + Send + Sync;

/// A user's handle of an item.
pub(crate) struct WorkHandle(pub(super) NonNull<WorkItem>);

// SAFETY: threads may share an item: its function is `Send` and `Sync`, its cell synchronizes them, and the entries
// in its slow-path state are `Send`.
unsafe impl Send for WorkHandle {}
// SAFETY: as above.
unsafe impl Sync for WorkHandle {}

impl WorkHandle {
    /// Makes a handle of an item that is running.
    ///
    /// # Safety
    ///
    /// The header is of a reusable item, and the item's function calls this.
    pub(crate) unsafe fn of_running(item: NonNull<Header>) -> Self {
        // Not counted, so not dropped: the run keeps the item in memory. The clone is counted.
        let running = ManuallyDrop::new(Self(item.cast()));
        Self::clone(&running)
    }

    /// The pointer for an entry. As long as the item's word tells of the entry, the item stays in memory.
    #[inline]
    pub(crate) fn item(&self) -> NonNull<Header> {
        self.0.cast()
    }
}

impl Deref for WorkHandle {
    type Target = WorkItem;

    #[inline]
    fn deref(&self) -> &WorkItem {
        // SAFETY: this handle is counted in the item's word, or borrowed from its run; both keep the item in memory.
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
            // SAFETY: `drop_handle` returned that the item is over.
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
/// The item is over, by a transition of this thread's.
pub(super) unsafe fn free(item: NonNull<WorkItem>) {
    // SAFETY: items come from boxes, and no other reference to this one is left.
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
