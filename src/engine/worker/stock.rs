//! How a worker judges whether the items of its pool are short. [`policy::brisk`](crate::policy::brisk) has the rules.
//! Only pools with siblings are judged.

use std::cell::Cell;

use crate::policy::brisk::Stock;
use crate::sys::clock;

use super::worker_thread::WorkerThread;

impl WorkerThread {
    /// Notes that the worker begins to run items.
    #[inline]
    pub(super) fn stock_begins(&self) {
        if let Some(stock) = &self.stock {
            stock.set(stock.get().begins(clock::now()));
        }
    }

    /// Notes that the worker has no more items.
    #[inline]
    pub(super) fn stock_rests(&self) {
        if let Some(stock) = &self.stock {
            stock.set(stock.get().rests(clock::now()));
        }
    }

    /// Counts an item that has ended, and takes stock after some of them.
    #[inline]
    pub(super) fn count_in_stock(&self) {
        if let Some(stock) = &self.stock {
            self.count_and_take(stock);
        }
    }

    /// This is not inlined, because it would slow the main loop of other workers down.
    #[inline(never)]
    fn count_and_take(&self, stock: &Cell<Stock>) {
        let (counted, is_time) = stock.get().item_ended();
        stock.set(counted);
        if is_time {
            let (next, items) = counted.take(clock::now());
            stock.set(next);
            self.pool.note_length(items);
        }
    }
}
