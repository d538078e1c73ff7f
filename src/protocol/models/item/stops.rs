//! Models in which a thread asks a run to stop.
//!
//! Red under: `item-stop-forgets-the-alarm`, `item-listens-without-a-look`, `item-end-keeps-the-stop`.

use std::task::{Wake, Waker};

use super::super::Event;
use super::*;
use crate::sys::wakers::Alarm;

/// An alarm that sets an event.
struct Ring(Event);

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.0.set();
    }
}

impl Model {
    /// Submits the item, and begins its run on the calling thread.
    fn begin(&self) -> Entry {
        self.queue(0);
        assert!(self.lists[0].pop());
        match self.item.begin(ShardId::new(0), Entry(0)) {
            Popped::Run(entry) => entry,
            other => panic!("{other:?}, though the item is pending"),
        }
    }
}

/// spec: I3.3 (a run that listens for a request to stop is told of the request)
#[test]
fn a_run_that_listens_is_told() {
    check(3, || {
        let model = Arc::new(Model::new());
        let entry = model.begin();
        let worker = spawn(&model, |model| {
            let ring = Arc::new(Ring(Event::new()));
            if model.item.listen(Alarm { waker: Waker::from(ring.clone()), ring: Waker::wake }) {
                ring.0.wait();
            }
            assert!(model.item.is_stopped());
            model.run();
            model.end(entry);
        });
        assert!(model.item.stop(), "the run does not end before it is told");
        worker.join().unwrap();
        assert!(!model.item.stop(), "the run has ended");
        model.assert_quiet();
    });
}

/// spec: I3.3 (a request to stop reaches only one run)
#[test]
fn a_stop_reaches_only_one_run() {
    check(3, || {
        let model = Arc::new(Model::new());
        let entry = model.begin();
        let stopped = Arc::new(AtomicU64::new(0));
        let count = stopped.clone();
        let worker = spawn(&model, move |model| {
            let mut entry = entry;
            for is_last in [false, true] {
                count.fetch_add(u64::from(model.item.is_stopped()), Ordering::Relaxed);
                model.run();
                model.end(entry);
                if is_last {
                    return;
                }
                entry = model.begin();
            }
        });
        let asked = model.item.stop();
        worker.join().unwrap();
        assert!(stopped.load(Ordering::Relaxed) <= u64::from(asked));
        let entry = model.begin();
        assert!(!model.item.is_stopped(), "this run was not asked to stop");
        model.run();
        model.end(entry);
        model.assert_quiet();
    });
}
