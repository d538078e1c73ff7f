//! Histograms of how long items wait and run, with exact times.

use cmwq::testing::{self, Setup, advance};
use cmwq::{Detection, Executor, Work, WorkQueue};

use super::support::{ms, secs};

/// Runs the test with a queue on a single CPU. An item keeps this CPU as long as it computes.
fn on_one_cpu(max_active: usize, test: impl FnOnce(&WorkQueue) + Send + 'static) {
    Setup::new().cpus(1).run(move || {
        let executor = Executor::builder().detection(Detection::Off).hog_threshold(None).build().unwrap();
        let queue = WorkQueue::per_cpu("q").max_active(max_active).histograms(true);
        test(&queue.build_on(&executor).unwrap());
    });
}

/// spec: O1.8 (queue-to-start)
#[test]
fn waiting_lasts_from_the_submission_to_the_start() {
    for max_active in [1, 256] {
        on_one_cpu(max_active, |queue| {
            queue.spawn_detached(|| testing::compute(ms(200))).unwrap();
            queue.spawn(|| ()).unwrap().join().unwrap();
            let latency = queue.latency().unwrap();
            let (waited, ran) = (latency.queue_to_start, latency.run);
            assert!((ms(200)..ms(220)).contains(&waited.max()), "{waited:?}");
            assert!((ms(200)..ms(220)).contains(&ran.max()), "the run time of the first item: {ran:?}");
            assert!(waited.quantile(0.5) < ms(1) && ran.quantile(0.5) < ms(1));
        });
    }
}

/// spec: O1.8: a submission that was cancelled, or was made while histograms were off, adds no time.
#[test]
fn an_item_is_timed_for_its_own_submission() {
    on_one_cpu(256, |queue| {
        queue.spawn_detached(|| testing::compute(ms(1))).unwrap();
        let work = Work::new(|| ());
        queue.enqueue(&work).unwrap();
        assert!(work.cancel());
        queue.flush().unwrap();
        advance(secs(1));
        queue.set_histograms(false);
        queue.enqueue(&work).unwrap();
        work.flush().unwrap();
        queue.set_histograms(true);
        queue.enqueue(&work).unwrap();
        work.flush().unwrap();
        let waited = queue.latency().unwrap().queue_to_start;
        assert_eq!(waited.count(), 2, "the first item, and the last submission");
        assert!(waited.max() < ms(10), "{waited:?}");
    });
}

/// spec: O1.8: an item queued again at its old place is timed from the second submission, not from the cancelled one.
#[test]
fn an_item_that_returns_to_its_place_is_timed_anew() {
    on_one_cpu(256, |queue| {
        queue.spawn_detached(|| testing::compute(secs(2))).unwrap();
        testing::run_until_idle();
        let works = [Work::new(|| ()), Work::new(|| ())];
        works.iter().for_each(|work| assert!(queue.enqueue(work).unwrap() && work.cancel()));
        advance(secs(1));
        queue.enqueue(&works[0]).unwrap();
        queue.item(&works[1]).reschedule().unwrap();
        queue.flush().unwrap();
        let waited = queue.latency().unwrap().queue_to_start;
        assert_eq!(waited.count(), 3, "the first item, and both others");
        assert!((secs(1)..ms(1100)).contains(&waited.max()), "{waited:?}");
    });
}
