//! A reusable item: a function that is queued again and again.
#![allow(unsafe_code, reason = "an entry holds a reference of its item as a thin pointer")]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::protocol::item::{ItemCell, Popped};

use super::core::contain;
use super::entry::{Entry, Header};
use super::shard;
use super::worker::{self, WorkerThread};

/// See the module. `repr(C)`: a pointer to the item is one to its header.
#[repr(C)]
pub(crate) struct WorkItem {
    header: Header,
    pub(crate) cell: ItemCell<Entry>,
    type_name: &'static str,
    function: Box<Function>,
}

pub(crate) type Function = dyn Fn(&Arc<WorkItem>) + Send + Sync;

impl WorkItem {
    pub(crate) fn new(type_name: &'static str, function: Box<Function>) -> Arc<Self> {
        Arc::new(Self { header: Header { execute }, cell: ItemCell::new(), type_name, function })
    }

    /// A reference for an entry to hold.
    #[inline]
    pub(crate) fn to_entry(self: &Arc<Self>) -> NonNull<Header> {
        let item = Arc::into_raw(Arc::clone(self)).cast_mut();
        // SAFETY: `into_raw` never returns null.
        unsafe { NonNull::new_unchecked(item) }.cast()
    }

    pub(crate) fn type_name(&self) -> &'static str {
        self.type_name
    }

    /// Takes a pending queueing back.
    pub(crate) fn cancel(&self) -> bool {
        let (was_pending, kept) = self.cell.cancel();
        if let Some(entry) = kept {
            // It had been popped, so no worker will come for it.
            // SAFETY: the entry owns this reference, and is completed below.
            drop(unsafe { item_of(&entry) });
            entry.shard().queue().left_pending();
            if let Some(next) = shard::complete(entry) {
                worker::submit(next);
            }
        }
        was_pending
    }
}

/// The reference that an entry holds.
///
/// # Safety
///
/// The entry is of a reusable item, and this is called once for it.
unsafe fn item_of(entry: &Entry) -> Arc<WorkItem> {
    // SAFETY: the pointer came from `into_raw`, in `to_entry`.
    unsafe { Arc::from_raw(entry.item().cast::<WorkItem>().as_ptr()) }
}

/// # Safety
///
/// The entry is of a reusable item.
unsafe fn execute(entry: Entry, worker: &WorkerThread) {
    let shard = entry.shard().id;
    // SAFETY: the entry's reference keeps the item in place.
    let item: &WorkItem = unsafe { entry.item().cast().as_ref() };
    match item.cell.begin(shard, entry) {
        // The item has it now; its slot stays with it.
        Popped::Kept => {}
        Popped::Stale(entry) => {
            // SAFETY: the entry is of a reusable item, and goes away here.
            let item = unsafe { item_of(&entry) };
            contain(|| drop(item));
            worker.pass_over(entry);
        }
        Popped::Run(entry) => {
            // SAFETY: as above.
            let item = unsafe { item_of(&entry) };
            let result = worker.call(&entry, item.type_name, || (item.function)(&item));
            if let Some(next) = item.cell.end() {
                let pool = Arc::clone(&next.shard().pool);
                pool.put_back(next);
            }
            // The last reference may be this one, and then user code is dropped.
            contain(|| drop((result, item)));
            worker.complete(entry);
        }
    }
}

impl fmt::Debug for WorkItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkItem")
            .field("function", &self.type_name)
            .field("state", &self.cell.load())
            .finish()
    }
}
