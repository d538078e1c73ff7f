//! Models of [`Depot`](crate::protocol::depot::Depot): threads put bundles and take them at the same time.
//!
//! Each bundle belongs to one thread, or is in the depot. A thread that takes a bundle sees what was done with it
//! before. When all threads have ended, each bundle in the depot can be taken. The depot's documentation says what
//! could go wrong.
//!
//! Red under: `depot-shows-its-length-late`.

use std::sync::Arc;

use loom::thread;

use super::{Data, check, check_all};
use crate::protocol::depot::Depot;
use crate::sys::sync::{AtomicU64, Mutex};

type Bundle = Arc<Data<u64>>;

fn depot(bundles: u64) -> Arc<Depot<Bundle>> {
    let depot = Depot::of(Mutex::new(Vec::new()), AtomicU64::new(0));
    for number in 0..bundles {
        assert!(depot.put(Arc::new(Data::new(number)), 2).is_ok());
    }
    Arc::new(depot)
}

/// Writes to the bundle, which no other thread has.
fn use_it(bundle: &Bundle) {
    bundle.write(|content| *content += 10);
}

/// Takes all bundles. Returns how many there were. Checks that each of them can be taken.
fn left(depot: &Depot<Bundle>) -> usize {
    let shown = depot.len();
    let taken = std::iter::from_fn(|| depot.take()).inspect(use_it).count();
    assert_eq!(taken, shown);
    assert!(
        depot.put(Arc::new(Data::new(0)), 1).is_ok(),
        "a bundle is in the depot, and no thread can take it"
    );
    taken
}

/// One thread takes the last bundle while another thread puts one.
#[test]
fn a_bundle_that_is_put_while_the_last_one_is_taken_can_be_taken() {
    check_all(|| {
        let depot = depot(1);
        let other = {
            let depot = depot.clone();
            thread::spawn(move || depot.take().inspect(use_it).is_some())
        };
        let bundle = Arc::new(Data::new(1));
        use_it(&bundle);
        let has_put = depot.put(bundle, 2).inspect_err(use_it).is_ok();
        let has_taken = other.join().unwrap();
        assert_eq!(left(&depot) + usize::from(has_taken), 1 + usize::from(has_put));
    });
}

/// Two threads take and put by turns.
#[test]
fn a_bundle_belongs_to_one_thread() {
    check(3, || {
        let depot = depot(1);
        let pass = |depot: &Depot<Bundle>| match depot.take() {
            Some(bundle) => {
                use_it(&bundle);
                depot.put(bundle, 2).inspect_err(use_it).is_err()
            }
            None => false,
        };
        let other = {
            let depot = depot.clone();
            thread::spawn(move || pass(&depot))
        };
        let kept = [pass(&depot), other.join().unwrap()];
        let kept = kept.into_iter().filter(|kept| *kept).count();
        assert_eq!(left(&depot) + kept, 1);
    });
}
