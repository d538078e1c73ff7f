//! Items whose issuer is stopped by its subscriber halfway. Such an item is admitted, but is not on the waiting list
//! yet.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use cmwq::{Executor, JoinError, JoinHandle, WaitError, WorkQueue};
use testkit::{SOON, eventually};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::one_cpu;

/// A subscriber that stops the thread which queues an item, until a message arrives.
struct Stops {
    stopped: mpsc::Sender<()>,
    goes_on: Mutex<mpsc::Receiver<()>>,
}

impl<S: Subscriber> Layer<S> for Stops {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        if event.metadata().name() == "queue_work" {
            self.stopped.send(()).unwrap();
            self.goes_on.lock().unwrap().recv_timeout(SOON).unwrap();
        }
    }
}

/// A queue with one slot, whose active item waits for `open`, and an issuer that was stopped while it queues another
/// item. The issuer waits for `go_on`.
struct OnTheWay {
    queue: WorkQueue,
    active: JoinHandle<()>,
    open: mpsc::Sender<()>,
    go_on: mpsc::Sender<()>,
    issuer: thread::JoinHandle<JoinHandle<()>>,
}

/// Makes this state, and then begins a flush, which counts the item of the stopped issuer. This item calls `earlier`.
fn on_the_way(executor: &Executor, earlier: impl FnOnce() + Send + 'static) -> OnTheWay {
    let queue = WorkQueue::ordered("arrivals").build_on(executor).unwrap();
    let (open, door) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let active = queue.spawn(move || {
        begin.send(()).unwrap();
        door.recv_timeout(SOON).unwrap();
    });
    begun.recv_timeout(SOON).expect("the first item runs");
    let (stopped, is_stopped) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let its_queue = queue.clone();
    let issuer = thread::spawn(move || {
        let stops = Stops { stopped, goes_on: Mutex::new(goes_on) };
        let subscriber = tracing_subscriber::registry().with(stops);
        tracing::subscriber::with_default(subscriber, || its_queue.spawn(earlier).unwrap())
    });
    is_stopped.recv_timeout(SOON).expect("the issuer queues");
    // The call times out, but the flush still counts its items.
    assert_eq!(queue.flush_timeout(Duration::ZERO), Err(WaitError::TimedOut));
    OnTheWay { queue, active: active.unwrap(), open, go_on, issuer }
}

/// spec: F1.6: when a flush begins, an item is on its way to the list. Later items do not get the only slot before this
/// item, so the flush does not wait for them. They are not refused either, however many there are.
#[test]
fn later_items_do_not_overtake_one_that_a_flush_found_on_its_way() {
    let executor = one_cpu().build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let item = |name: u32| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(name)
    };
    let OnTheWay { queue, active, open, go_on, issuer } = on_the_way(&executor, item(0));
    let mut later = vec![queue.spawn(item(1)).unwrap()];
    later.extend(queue.items((2..6000).map(item)).spawn().unwrap());
    open.send(()).unwrap();
    active.join().unwrap();
    // The join may return while the worker still holds the slot of the first item.
    eventually("the slot is given up", || queue.len() <= 6000);
    go_on.send(()).unwrap();
    issuer.join().unwrap().join().unwrap();
    queue.flush().unwrap();
    later.into_iter().for_each(|later| later.join().unwrap());
    assert_eq!(*order.lock().unwrap(), (0..6000).collect::<Vec<_>>());
}

/// spec: E5.3 (handles report it), F1.6: a shutdown runs out of time while more items wait than one step admits. It
/// gives up and counts each of them.
#[test]
fn held_items_are_given_up_by_a_shutdown_that_runs_out_of_time() {
    const LATER: usize = 3000;
    let executor = one_cpu().build().unwrap();
    let OnTheWay { queue, active, open, go_on, issuer } = on_the_way(&executor, || ());
    let later = queue.items((0..LATER).map(|_| || ())).spawn().unwrap();
    let report = executor.shutdown(Duration::ZERO).unwrap();
    let told: usize = report.queues.iter().map(|queue| queue.dropped + queue.running).sum();
    assert_eq!(told, LATER + 2, "{report:?}");
    go_on.send(()).unwrap();
    let earlier = issuer.join().unwrap();
    for item in later.into_iter().chain([earlier]) {
        assert!(matches!(item.join_timeout(SOON), Ok(Err(JoinError::Cancelled))), "{} remain", queue.len());
    }
    open.send(()).unwrap();
    active.join().unwrap();
}
