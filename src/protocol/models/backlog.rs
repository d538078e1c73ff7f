//! Models of [`BacklogCell`](crate::protocol::backlog::BacklogCell): an issuer waits for room, and an item of another
//! queue makes room.
//!
//! Red under: `backlog-left-without-fence`, `backlog-waits-without-fence`.

use std::sync::Arc;

use loom::thread;

use super::check_all;
use crate::protocol::backlog::BacklogCell;
use crate::protocol::places::{PlacesCell, Reserve};
use crate::sys::wait::Until;

struct Executor {
    backlog: BacklogCell,
    /// The places of the queue whose issuer waits.
    places: PlacesCell,
}

impl Executor {
    /// Returns how many items the queue may have. The executor's bound is one pending item, so the queue has room while
    /// no item of another queue is pending.
    fn most(&self) -> u64 {
        1 - self.backlog.pending()
    }

    fn hand(&self) {
        self.places.hand(self.most(), |_handed| ());
    }
}

/// An item of another queue begins while an issuer joins the line of its queue.
///
/// spec: B4.3
#[test]
fn an_item_of_another_queue_makes_room() {
    check_all(|| {
        let executor = Arc::new(Executor { backlog: BacklogCell::new(), places: PlacesCell::new() });
        executor.backlog.came(1);
        let begins = {
            let executor = executor.clone();
            thread::spawn(move || {
                if executor.backlog.left(1) {
                    executor.hand();
                }
            })
        };
        if let Ok(Reserve::Wait(turn)) = executor.places.reserve(executor.most(), || Ok::<_, ()>(())) {
            executor.backlog.waits();
            executor.hand();
            assert!(turn.signal().wait(Until::FOREVER));
            executor.backlog.waits_no_more();
            assert!(executor.places.end_turn(&turn));
        }
        begins.join().unwrap();
        assert!(!executor.places.take(1), "the issuer has the only place");
    });
}
