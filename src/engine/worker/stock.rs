//! How a worker judges whether the items of its pool are short. [`policy::brisk`](crate::policy::brisk) has the rules.
//! Only pools with siblings are judged.

use crate::policy::brisk::Stock;
use crate::sys::clock;

use super::worker_thread::WorkerThread;

impl WorkerThread {
    /// Notes that the worker begins to run items.
    #[inline]
    pub(super) fn stock_begins(&self) {
        if self.pool.has_siblings() {
            self.stock.set(self.stock.get().begins(clock::now()));
        }
    }

    /// Notes that the worker has no more items.
    #[inline]
    pub(super) fn stock_rests(&self) {
        if self.pool.has_siblings() {
            self.stock.set(self.stock.get().rests(clock::now()));
        }
    }

    /// Counts an item that has ended, and takes stock after some of them.
    #[inline]
    pub(super) fn count_in_stock(&self) {
        if self.pool.has_siblings() {
            let (stock, is_time) = self.stock.get().item_ended();
            self.stock.set(stock);
            if is_time {
                self.take_stock(stock);
            }
        }
    }

    #[cold]
    fn take_stock(&self, stock: Stock) {
        let (stock, items) = stock.take(clock::now());
        self.stock.set(stock);
        self.pool.note_length(items);
    }
}
