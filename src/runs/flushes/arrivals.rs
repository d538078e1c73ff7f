//! The items of the flush runs that are on their way to the waiting list. The functions call the cells in the same
//! order as the engine does.

#![forbid(unsafe_code)]

use super::{Item, State, World};

impl World {
    /// Lets the issuer put its item on the waiting list.
    pub(super) fn list(&mut self, item: usize) {
        let Item { limiter, ticket, .. } = self.items[item];
        self.items[item].state = State::Listed;
        match ticket {
            None => {
                self.limiters[limiter].list.borrow_mut().push_back(item);
                let listed = self.limiters[limiter].cell.list();
                if listed.handed {
                    self.start_first(limiter);
                }
                if listed.was_counted {
                    self.items[item].is_arriving = true;
                }
            }
            Some(ticket) => {
                let rest =
                    self.cell.bring((ticket, &self.limiters[limiter].cell), item, self.cells(), |item| {
                        self.list_brought(item)
                    });
                let held = self.items.iter().filter(|item| item.state == State::Listed).count();
                let listed: usize = self.limiters.iter().map(|limiter| limiter.list.borrow().len()).sum();
                self.seen.held += usize::from(held > listed + rest.started.len());
                self.settle(rest);
            }
        }
    }

    fn list_brought(&self, item: usize) -> Option<usize> {
        let limiter = &self.limiters[self.items[item].limiter];
        limiter.list.borrow_mut().push_back(item);
        limiter
            .cell
            .list_held()
            .then(|| limiter.list.borrow_mut().pop_front().expect("the item was just put there"))
    }

    /// Lets an issuer report that its item has arrived on the waiting list.
    pub(super) fn say_arrived(&mut self) {
        let arriving: Vec<usize> =
            (0..self.items.len()).filter(|item| self.items[*item].is_arriving).collect();
        if !arriving.is_empty() {
            let item = self.prng.pick(&arriving);
            self.say(format_args!("item {item} has arrived"));
            self.items[item].is_arriving = false;
            let rest = self.cell.arrived(1, self.cells(), |item| self.list_brought(item));
            self.settle(rest);
        }
    }

    /// Lets an issuer withdraw its item, which is on its way to the waiting list.
    pub(super) fn take_back(&mut self, item: usize) {
        let Item { limiter, ticket, .. } = self.items[item];
        let cell = &self.limiters[limiter].cell;
        let left = match ticket {
            None => {
                let left = cell.withdraw();
                self.items[item].is_arriving = left.was_counted;
                left
            }
            Some(ticket) => {
                let list = |item| self.list_brought(item);
                let (left, rest) = self.cell.withdraw(ticket, || cell.withdraw(), self.cells(), list);
                self.settle(rest);
                left
            }
        };
        self.left(item, left);
    }
}
