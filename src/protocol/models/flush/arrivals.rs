//! An item is on its way to the waiting list while a flush begins. A later item arrives and waits for the flush.
//!
//! The later item does not take the limiter's only slot before the earlier item has had this slot. So no flush waits
//! for ever, and both items run.
//!
//! Red under: `later-item-is-not-held`, `arrival-is-not-told`, `tickets-end-with-the-count`,
//! `comes-twice-with-a-ticket`.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::*;
use crate::protocol::limiter::Listed;

/// A queue that has one limiter with one slot.
struct World {
    queue: Arc<Queue>,
    list: RefCell<VecDeque<Item>>,
    flush: RefCell<Option<Flush>>,
    begun: Event,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Queue::new(1, 1),
            list: RefCell::default(),
            flush: RefCell::default(),
            begun: Event::new(),
        })
    }

    fn parts(&self) -> &Parts {
        &self.queue.parts
    }

    /// Does what an issuer does with an item that has to wait for a slot. This function makes its calls in the same
    /// order as the engine.
    fn bring(&self, item: Item) {
        let Some(ticket) = item.ticket else {
            self.list.borrow_mut().push_back(item);
            let Listed { handed, was_counted } = self.parts().limiters[0].list();
            if handed {
                self.start();
            }
            if was_counted {
                let parts = self.parts();
                self.settle(parts.flush.arrived(1, parts.limiters.iter(), |item| self.list_brought(item)));
            }
            return;
        };
        let parts = self.parts();
        let list = |item| self.list_brought(item);
        self.settle(parts.flush.bring((ticket, &parts.limiters[0]), item, parts.limiters.iter(), list));
    }

    /// Admits a later item, which waits for the given flush, if any.
    fn come(&self, waits_for: Option<Flush>) -> (Item, bool) {
        let (item, has_slot) = self.queue.come(0);
        (Item { waits_for, ..item }, has_slot)
    }

    fn go_on(&self, (item, has_slot): (Item, bool)) {
        if has_slot { self.run(item) } else { self.bring(item) }
    }

    /// Begins a flush while one item is active and another item is on its way to the list. Then another thread calls
    /// `later` with the active item.
    fn flush_beside(self: &Arc<Self>, later: impl FnOnce(&Self, Item) + 'static) {
        let active = self.queue.admit(0);
        let earlier = self.queue.admit(0);
        let data = earlier.data.clone();
        let issuer = elsewhere(self, move |world| world.bring(earlier));
        let later = elsewhere(self, move |world| {
            world.begun.wait();
            later(world, active);
        });
        let flush = self.queue.begin();
        self.flush.replace(flush.clone());
        self.begun.set();
        flush.inspect(|flush| assert!(flush.wait(Until::Forever)));
        assert!(data.read(|done| *done));
        issuer.join().unwrap();
        later.join().unwrap();
        let word = self.parts().limiters[0].load();
        assert!(word.in_flight() == 0 && !word.is_flushing(), "{word:?}");
        self.queue.close();
        assert!(self.queue.parts.is_freed());
    }

    fn list_brought(&self, item: Item) -> Option<Item> {
        self.list.borrow_mut().push_back(item);
        self.parts().limiters[0].list_held().then(|| self.pop())
    }

    fn settle(&self, mut rest: Rest<Item>) {
        let started = std::mem::take(&mut rest.started);
        self.queue.settle(rest);
        started.into_iter().for_each(|item| self.run(item));
    }

    fn pop(&self) -> Item {
        self.list.borrow_mut().pop_front().expect("a slot goes to a listed item")
    }

    fn start(&self) {
        let item = self.pop();
        self.run(item);
    }

    fn run(&self, item: Item) {
        if let Some(flush) = &item.waits_for {
            flush.wait(Until::Forever);
        }
        item.data.write(|done| *done = true);
        if self.queue.leave(&item) == Slot::Handed {
            self.start();
        }
    }
}

fn elsewhere(world: &Arc<World>, act: impl FnOnce(&World) + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || act(&world))
}

/// spec: F1.6: the slot is free when the later item arrives, and the earlier item is not on the list yet.
#[test]
fn a_later_item_does_not_take_the_slot_of_an_item_on_its_way() {
    check(2, || {
        World::new().flush_beside(|world, active| {
            world.run(active);
            let flush = world.flush.borrow().clone();
            world.go_on(world.come(flush));
        });
    });
}

/// spec: F1.6: a second flush begins after the later item was admitted. A third item, the *latest* item, then waits for
/// the second flush. If the later item has no slot, the issuer brings the latest item to the list before the later
/// item. By that time, all items that the flushes have counted may have ended.
#[test]
fn the_latest_item_does_not_take_the_slot_of_a_held_item() {
    check(2, || {
        World::new().flush_beside(|world, active| {
            world.run(active);
            let later = world.come(None);
            let latest = world.come(world.queue.begin());
            let order = if later.1 { [later, latest] } else { [latest, later] };
            order.into_iter().for_each(|item| world.go_on(item));
        });
    });
}
