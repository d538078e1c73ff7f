//! How a worker *takes stock*: after some of its items, it judges whether the items of its pool are short.
//! [`policy::brisk`](crate::policy::brisk) has the rules.

use std::cell::Cell;

use crate::policy::brisk::{Countdown, Last, Stock};
use crate::sys::clock;

use super::worker_thread::WorkerThread;

/// The notes of a worker about its last items.
pub(super) struct Stocktaking {
    /// The number of items that the worker still has to end before it takes stock.
    countdown: Cell<Countdown>,
    /// Whether the worker had no item for a while since it last took stock.
    has_rested: Cell<bool>,
    /// The worker's judgement so far, or `None` if the pool never becomes brisk.
    stock: Option<Cell<Stock>>,
}

impl Stocktaking {
    pub(super) fn new(may_be_brisk: bool) -> Self {
        Self {
            countdown: Cell::new(Countdown::NEW),
            has_rested: Cell::new(true),
            stock: may_be_brisk.then(|| Cell::new(Stock::new(clock::now()))),
        }
    }

    /// Notes that the worker has no more items.
    pub(super) fn rests(&self) {
        self.has_rested.set(true);
    }
}

impl WorkerThread {
    /// Counts an item that has ended. Takes stock if the countdown is over.
    #[inline]
    pub(super) fn count_in_stock(&self) {
        let (countdown, is_time) = self.stocktaking.countdown.get().counted();
        self.stocktaking.countdown.set(countdown);
        if is_time {
            self.take_stock();
        }
    }

    #[inline(never)]
    fn take_stock(&self) {
        if let Some(stock) = &self.stocktaking.stock {
            let last = Last {
                span: self.meter.span(),
                grows: self.meter.span_grows(),
                has_rested: self.stocktaking.has_rested.replace(false),
            };
            let (next, items, countdown) = stock.get().take(last, clock::now());
            stock.set(next);
            self.stocktaking.countdown.set(countdown);
            self.pool.note_items(items);
        }
    }
}
