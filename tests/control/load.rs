//! Attributes are changed through the socket while queues are busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cmwq::control::Attribute;
use cmwq::{Work, WorkQueue};
use testkit::stress;

use super::{Served, eventually};

/// Counts of items.
#[derive(Default)]
struct Books {
    accepted: AtomicUsize,
    ran: AtomicUsize,
}

/// Queues one item, a one-shot or a reusable one.
fn issue(queue: &WorkQueue, books: &Arc<Books>, n: usize) {
    let of_item = Arc::clone(books);
    let item = move || {
        if n % 7 == 0 {
            cmwq::blocking(|| std::thread::sleep(std::time::Duration::from_micros(50)));
        }
        of_item.ran.fetch_add(1, Ordering::SeqCst);
    };
    if queue.spawn(item).is_ok() {
        books.accepted.fetch_add(1, Ordering::SeqCst);
    }
}

/// spec: O5.8, A4: attribute changes through the socket lose no item under load, and an ordered queue keeps its order.
#[test]
fn nothing_is_lost_while_attributes_change_through_the_socket() {
    let served = Served::new("numa:2 l3:2 core:2 pu:1");
    let builders = [WorkQueue::builder("n"), WorkQueue::unbound("u").max_active(2), WorkQueue::ordered("o")];
    let queues =
        builders.map(|builder| builder.control(true).max_pending(500).build_on(&served.executor).unwrap());
    let (books, over) = (Arc::new(Books::default()), AtomicBool::new(false));
    let (last, out_of_order) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let runs = Arc::new(AtomicUsize::new(0));
    let work = Work::new({
        let runs = Arc::clone(&runs);
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                issue(&queues[n % 2], &books, n);
                let _full = queues[n % 2].enqueue(&work);
            }
        });
        scope.spawn(|| {
            for n in 1.. {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let (last, wrong, of_item) =
                    (Arc::clone(&last), Arc::clone(&out_of_order), Arc::clone(&books));
                let item = move || {
                    if last.swap(n, Ordering::SeqCst) >= n {
                        wrong.fetch_add(1, Ordering::SeqCst);
                    }
                    of_item.ran.fetch_add(1, Ordering::SeqCst);
                };
                if queues[2].spawn(item).is_ok() {
                    books.accepted.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let changers = [1_usize, 2].map(|seed| {
            let served = &served;
            scope.spawn(move || {
                let mut client = served.client();
                for n in 0..stress(300) {
                    change(&mut client, n * seed + seed);
                }
            })
        });
        changers.into_iter().for_each(|changer| changer.join().unwrap());
        over.store(true, Ordering::SeqCst);
    });
    queues.iter().for_each(|queue| queue.drain().unwrap());
    let counts = || [&books.accepted, &books.ran].map(|count| count.load(Ordering::SeqCst));
    eventually("all accepted items have run", || counts()[0] == counts()[1]);
    assert!(counts()[0] > 0 && out_of_order.load(Ordering::SeqCst) == 0, "{counts:?}", counts = counts());
    assert_eq!(queues.iter().map(WorkQueue::len).sum::<usize>(), 0);
    let before = runs.load(Ordering::SeqCst);
    assert_eq!(queues[0].enqueue(&work), Ok(true), "the item is pending nowhere");
    queues[0].flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), before + 1);
}

/// Makes one change, and checks whether it succeeds or fails as expected, which does not depend on changes by other
/// threads.
fn change(client: &mut cmwq::control::Client, n: usize) {
    let queue = ["n", "u", "o"][n % 3];
    match n % 5 {
        0 => {
            let scope = ["cpu", "cache", "numa", "system"][n / 5 % 4];
            drop(client.set(queue, Attribute::AffinityScope, scope).unwrap());
        }
        1 => drop(client.set(queue, Attribute::AffinityStrict, ["0", "1"][n / 5 % 2]).unwrap()),
        2 => drop(client.set(queue, Attribute::CpuMask, ["0-7", "0-3", "f0", "1"][n / 5 % 4]).unwrap()),
        3 if queue != "o" => {
            drop(client.set(queue, Attribute::MaxActive, &(1 + n % 9).to_string()).unwrap());
        }
        _ => drop(client.set(queue, Attribute::CpuMask, "64").unwrap_err()),
    }
}
