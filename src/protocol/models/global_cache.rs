//! Models of [`GlobalCache`](crate::protocol::global_cache::GlobalCache): threads put and take bundles at the same
//! time.
//!
//! Each bundle belongs to one thread, or is in the global cache. A thread that takes a bundle sees everything that
//! other threads did with the bundle before. When all threads have ended, each bundle in the global cache can be taken.
//! The documentation of the global cache explains what could go wrong.
//!
//! Red under: `global-cache-shows-its-length-late`.

use std::sync::Arc;

use loom::thread;

use super::{Data, check, check_all};
use crate::protocol::global_cache::GlobalCache;
use crate::sys::sync::{AtomicU64, Mutex};

type Bundle = Arc<Data<u64>>;

fn global_cache(bundles: u64) -> Arc<GlobalCache<Bundle>> {
    let global_cache = GlobalCache::of(Mutex::new(Vec::new()), AtomicU64::new(0));
    for number in 0..bundles {
        assert!(global_cache.put(Arc::new(Data::new(number)), 2).is_ok());
    }
    Arc::new(global_cache)
}

/// Writes to the bundle, to which no other thread has access.
fn use_it(bundle: &Bundle) {
    bundle.write(|content| *content += 10);
}

/// Takes all bundles out of the global cache. Returns the number of these bundles. Checks that every bundle that the
/// cache counts can be taken.
fn left(global_cache: &GlobalCache<Bundle>) -> usize {
    let shown = global_cache.len();
    let taken = std::iter::from_fn(|| global_cache.take()).inspect(use_it).count();
    assert_eq!(taken, shown);
    assert!(
        global_cache.put(Arc::new(Data::new(0)), 1).is_ok(),
        "a bundle is in the global cache, and no thread can take it"
    );
    taken
}

/// One thread takes the last bundle while another thread puts a bundle.
#[test]
fn a_bundle_that_is_put_while_the_last_one_is_taken_can_be_taken() {
    check_all(|| {
        let global_cache = global_cache(1);
        let other = {
            let global_cache = global_cache.clone();
            thread::spawn(move || global_cache.take().inspect(use_it).is_some())
        };
        let bundle = Arc::new(Data::new(1));
        use_it(&bundle);
        let has_put = global_cache.put(bundle, 2).inspect_err(use_it).is_ok();
        let has_taken = other.join().unwrap();
        assert_eq!(left(&global_cache) + usize::from(has_taken), 1 + usize::from(has_put));
    });
}

/// Each of two threads takes a bundle and puts it back.
#[test]
fn a_bundle_belongs_to_one_thread() {
    check(3, || {
        let global_cache = global_cache(1);
        let pass = |global_cache: &GlobalCache<Bundle>| match global_cache.take() {
            Some(bundle) => {
                use_it(&bundle);
                global_cache.put(bundle, 2).inspect_err(use_it).is_err()
            }
            None => false,
        };
        let other = {
            let global_cache = global_cache.clone();
            thread::spawn(move || pass(&global_cache))
        };
        let kept = [pass(&global_cache), other.join().unwrap()];
        let kept = kept.into_iter().filter(|kept| *kept).count();
        assert_eq!(left(&global_cache) + kept, 1);
    });
}
