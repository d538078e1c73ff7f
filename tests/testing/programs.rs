//! Small programs with mistakes that users make. Each program has a twin in which the mistake is mended. `explore`
//! finds the mistakes, and finds none in the twins. `make lab-mistakes` prints the table.

mod peers;
mod users;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;

use cmwq::WorkQueue;
use cmwq::testing;

use super::support::add;

/// The number of seeds with which the search for a mistake runs a program.
const RUNS: u64 = 1000;
/// The number of seeds with which a mended program runs.
const RUNS_OF_TWINS: u64 = if cfg!(debug_assertions) { 250 } else { 1000 };
/// The search may miss at most one mistake of this many.
const MISSED_IN: usize = 20;

struct Program {
    name: &'static str,
    /// The closed issue or the pull request whose mistake this program shows. Empty if there is none.
    after: &'static str,
    run: fn(bool),
}

macro_rules! programs {
    ($($module:ident::$name:ident $($after:literal)?,)*) => {
        &[$(Program { name: stringify!($name), after: concat!("" $(, $after)?), run: $module::$name }),*]
    };
}

const PROGRAMS: &[Program] = programs![
    users::a_check_and_an_act_under_two_locks,
    users::an_item_that_is_queued_too_early,
    users::locks_in_different_orders,
    users::a_join_under_a_lock,
    users::a_notification_of_the_wrong_waiter,
    users::a_value_that_is_stored_after_its_submission,
    users::channels_that_fill_each_other,
    users::an_order_that_only_ordered_queues_have,
    users::an_answer_and_a_timeout_at_once,
    users::a_tick_that_outlives_its_cancel,
    users::a_flush_instead_of_a_drain,
    users::a_submission_that_is_taken_for_a_run,
    users::a_service_that_starts_twice,
    users::a_debouncer_that_saves_too_early,
    users::a_timeout_behind_other_work,
    users::items_that_wait_for_each_other_in_a_narrow_queue,
    peers::a_notification_that_comes_early "pocoproject/poco#5213",
    peers::a_message_after_the_end "alitto/pond#43",
    peers::a_cancel_that_comes_too_late "tokio-rs/tokio#4853",
    peers::a_cache_that_computes_twice "jaredwray/cacheable#888",
    peers::a_stop_that_is_set_without_the_lock "bshoshany/thread-pool#93",
    peers::a_latch_that_wakes_one_waiter "softprops/waitout#2",
    peers::a_wait_that_counts_running_jobs_only "tghosgor/threadpool11#11",
    peers::items_that_wait_for_items_behind_them "rayon-rs/rayon#446",
    peers::a_tick_for_a_receiver_that_has_stopped "pingcap/ticdc#4640",
    peers::a_cancellation_that_is_overwritten "OpenLiberty/open-liberty#20441",
    peers::a_timer_that_is_noted_too_late "mrniko/netty-socketio#104",
    peers::a_timer_that_is_cancelled_for_another_entry "microsoft/libHttpClient#945",
    peers::a_wave_that_hides_the_end_of_another "rust-threadpool/rust-threadpool#89",
    peers::a_pool_that_stops_before_its_last_job "cppalliance/capy#339",
];

/// The results of a program.
struct Searched {
    /// The number of seeds that the search needed to find the mistake, if it was found.
    needed: Option<u64>,
    /// Whether a run of the mended twin has failed.
    is_false_alarm: bool,
}

impl Program {
    fn search(&self) -> Searched {
        let (run, runs) = (self.run, Arc::new(AtomicU32::new(0)));
        let counts = Arc::clone(&runs);
        let explores = || {
            testing::explore(RUNS, move || {
                add(&counts);
                run(false);
            });
        };
        let is_found = catch_unwind(AssertUnwindSafe(explores)).is_err();
        let twin = catch_unwind(|| testing::explore(RUNS_OF_TWINS, move || run(true)));
        Searched { needed: is_found.then(|| u64::from(runs.load(SeqCst))), is_false_alarm: twin.is_err() }
    }
}

/// spec: T2.2, T2.5: the search misses at most one mistake of twenty. No mended twin fails.
#[test]
fn mistakes_are_found_and_twins_are_not_flagged() {
    assert!(
        PROGRAMS.len() >= 20 && PROGRAMS.iter().filter(|program| !program.after.is_empty()).count() >= 10
    );
    println!("{:50} {:>6}  {:12} after", "mistake", "seeds", "mended twin");
    let (next, (tell, told)) = (AtomicUsize::new(0), mpsc::channel());
    thread::scope(|scope| {
        for _searcher in 0..thread::available_parallelism().map_or(2, |cpus| 2 * cpus.get()) {
            let tell = tell.clone();
            scope.spawn(|| {
                let tell = tell;
                while let Some(program) = PROGRAMS.get(next.fetch_add(1, SeqCst)) {
                    tell.send((program.name, program.after, program.search()))
                        .expect("the test waits for it");
                }
            });
        }
        drop(tell);
        let mut results = BTreeMap::new();
        for (name, after, searched) in told {
            let seeds = searched.needed.map_or("MISSED".to_owned(), |seeds| seeds.to_string());
            let twin = if searched.is_false_alarm { "FALSE ALARM" } else { "ok" };
            println!("{name:50} {seeds:>6}  {twin:12} {after}");
            results.insert(name, searched);
        }
        let count = |is: fn(&Searched) -> bool| results.values().filter(|searched| is(searched)).count();
        let (found, alarms) = (count(|searched| searched.needed.is_some()), count(|it| it.is_false_alarm));
        println!(
            "{found} of {} mistakes were found, with {RUNS} seeds; false alarms: {alarms}",
            PROGRAMS.len()
        );
        assert_eq!((results.len(), alarms), (PROGRAMS.len(), 0));
        assert!(PROGRAMS.len() - found <= PROGRAMS.len() / MISSED_IN, "too many mistakes were missed");
    });
}

/// Returns two handles to a shared number.
fn number() -> (Arc<AtomicU32>, Arc<AtomicU32>) {
    let number = Arc::new(AtomicU32::new(0));
    (Arc::clone(&number), number)
}

fn flag() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    (Arc::clone(&flag), flag)
}

/// A queue that runs its items at the same time.
fn queue() -> WorkQueue {
    WorkQueue::unbound("program").build().unwrap()
}

/// Runs both items, and waits for their ends.
fn both(one: impl FnOnce() + Send + 'static, two: impl FnOnce() + Send + 'static) {
    let queue = queue();
    let (one, two) = (queue.spawn(one).unwrap(), queue.spawn(two).unwrap());
    one.join().unwrap();
    two.join().unwrap();
}
