//! Planned faults: whether and when they happen, and how users' code and the engine handle them.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use cmwq::blocking::thread;
use cmwq::kernel::ExecutorExt;
use cmwq::testing::{self, FaultKind, Faults, Setup, advance};
use cmwq::{Executor, JoinError, QueueError, WhenFull, Work, WorkQueue, clock};

use super::support::{add, assert_says, message, ms, secs};

fn with(faults: Faults) -> Setup {
    Setup::new().faults(faults)
}

/// Returns the messages of the events that are faults.
fn faults_so_far() -> Vec<String> {
    let events = testing::events();
    let messages = events.iter().filter_map(|event| event.split_once("fault: "));
    messages.map(|(_, message)| message.to_owned()).collect()
}

/// spec: T3.2 (work waits for a thread, and is done when one can be made)
#[test]
fn threads_are_refused_from_a_number_on_for_a_time() {
    for seed in 0..20 {
        with(Faults::new().no_threads_from(2, secs(5))).seed(seed).run(|| {
            let begin = clock::now();
            let queue = WorkQueue::new("waits");
            let items: Vec<_> = (0..3).map(|number| queue.spawn(move || number).unwrap()).collect();
            let sum: u32 = items.into_iter().map(|item| item.join().unwrap()).sum();
            let took = clock::now() - begin;
            assert!(sum == 3 && took >= secs(5) && took < secs(7), "{took:?}");
            let faults = faults_so_far();
            assert!(faults.len() >= 5, "the manager tries again each second: {faults:?}");
            assert!(faults[0].starts_with("makes no thread \"cmwq/"), "{faults:?}");
        });
    }
}

/// spec: T3.2: a long time without threads is not mistaken for an endless wait.
#[test]
fn work_waits_long_for_a_thread() {
    for faults in
        [Faults::new().no_threads_from(2, secs(500)), Faults::new().no_threads_during(ms(1)..secs(500))]
    {
        with(faults).run(|| {
            let begin = clock::now();
            advance(ms(1));
            WorkQueue::new("waits").spawn(|| ()).unwrap().join().unwrap();
            let took = clock::now() - begin;
            assert!(took >= secs(499) && took < secs(510), "{took:?}");
        });
    }
}

/// spec: T3.2: the threads of users are refused, too, and so is the manager of an executor.
#[test]
fn any_thread_can_be_refused() {
    with(Faults::new().no_threads_during(secs(1)..secs(2)).no_threads_from(4, Duration::MAX)).run(|| {
        advance(secs(1));
        let told = message(|| drop(thread::spawn(|| ())));
        assert_says(&told, &["the system can make a thread"]);
        assert!(Executor::builder().build().is_err(), "its manager cannot be made");
        advance(secs(1));
        assert_eq!(thread::spawn(|| 3).join().unwrap(), 3);
        assert!(catch_unwind(|| thread::spawn(|| ())).is_err());
    });
}

/// spec: T3.2: a wait that can never end is reported, although the manager tries again and again to make a thread.
#[test]
fn work_without_any_worker_is_told() {
    let always = Faults::new().no_threads_during(secs(0)..Duration::MAX);
    assert_eq!(always.to_string(), "no thread can be made from 0ns on, for ever");
    let from = |nth: u64, time: Duration| Faults::new().no_threads_from(nth, time);
    let almost = Duration::MAX - Duration::from_nanos(1);
    for faults in [from(1, Duration::MAX), from(2, Duration::MAX), from(1, almost), always] {
        let told = message(|| {
            with(faults).run(|| {
                _ = WorkQueue::new("starves").spawn(|| ()).unwrap().join();
            });
        });
        assert_says(&told, &["all threads wait for ever", "waits for item testing::faults"]);
    }
}

/// spec: T3.3 (the n-th submission, by name)
#[test]
fn chosen_submissions_are_refused() {
    with(Faults::new().refuse("mail", 2).refuse("mail", 3).refuse("log", 1)).run(|| {
        let (mail, log) = (WorkQueue::new("mail"), WorkQueue::new("log"));
        let mut kept = vec![mail.spawn(|| 1).unwrap()];
        let refused = mail.spawn(|| 2).unwrap_err();
        assert_eq!(refused.error, QueueError::Full);
        assert_eq!((refused.into_closure())(), 2, "the closure comes back");
        let work = Work::new(|| ());
        assert_eq!(mail.enqueue(&work), Err(QueueError::Full));
        assert_eq!((mail.enqueue(&work), work.flush()), (Ok(true), Ok(true)));
        assert_eq!(log.item(&work).after(secs(0)).reschedule(), Err(QueueError::Full));
        assert_eq!(log.item(&work).after(secs(0)).reschedule(), Ok(false));
        kept.extend(mail.items((0..3).map(|number| move || number)).spawn().unwrap());
        assert_eq!(kept.into_iter().map(|item| item.join().unwrap()).sum::<u32>(), 4);
        let told = ["is refused by queue \"mail\""; 2].into_iter().chain(["is refused by queue \"log\""]);
        assert!(faults_so_far().iter().eq(told), "{:?}", faults_so_far());
    });
}

/// spec: T3.3: only submissions that need a place are refused.
#[test]
fn submissions_that_need_no_place_are_not_refused() {
    with(Faults::new().refuse_some("", 1000)).run(|| {
        let queue = WorkQueue::builder("all").max_pending(10).build().unwrap();
        assert!(queue.spawn(|| ()).is_err() && queue.try_reserve().is_err());
        let permit = queue.reserve().unwrap();
        let item = permit.spawn(|| 1).unwrap();
        assert_eq!(item.join().unwrap(), 1);
        let late = queue.item(|| 2).after(secs(1)).spawn().unwrap();
        assert_eq!(late.join().unwrap(), 2);
        let waits = WorkQueue::builder("waits").max_pending(10).when_full(WhenFull::Wait).build().unwrap();
        assert_eq!(waits.spawn(|| 3).unwrap().join().unwrap(), 3);
        let refused = queue.items((0..3).map(|number| move || number)).spawn().unwrap_err();
        assert_eq!((refused.accepted(), refused.into_parts().1.len()), (0, 3));
    });
}

/// spec: T3.3 (a rate from the seed)
#[test]
fn a_rate_of_submissions_is_refused() {
    let refused = |seed: Option<u64>| {
        let setup = with(Faults::new().refuse_some("ordered", 250).refuse_some("other", 1000));
        let setup = seed.map_or(setup.clone(), |seed| setup.seed(seed));
        setup.run(|| {
            let queue = WorkQueue::ordered("ordered").build().unwrap();
            (0..200_u64).filter(|_| queue.spawn_detached(|| ()).is_err()).collect::<Vec<_>>()
        })
    };
    let (one, other) = (refused(Some(1)), refused(Some(2)));
    assert!((20..90).contains(&one.len()), "{}", one.len());
    assert_ne!(one, other);
    assert_eq!(one, refused(Some(1)));
    assert_eq!(refused(None), refused(None));
}

/// spec: T3.4 (late timers)
#[test]
fn timers_are_late_within_the_bound() {
    let mut latest = Duration::ZERO;
    for seed in 0..20 {
        let late = with(Faults::new().late_timers(ms(300))).seed(seed).run(|| {
            let (begin, queue) = (clock::now(), WorkQueue::new("timers"));
            let timers: Vec<_> = (1..10)
                .map(|number| (secs(number), queue.item(clock::now).after(secs(number)).spawn().unwrap()))
                .collect();
            let late = timers.into_iter().map(|(after, timer)| {
                let took = timer.join().unwrap() - begin;
                assert!(took >= after, "{took:?} instead of {after:?}");
                took - after
            });
            late.max().unwrap()
        });
        assert!(late <= ms(300), "{late:?}");
        latest = latest.max(late);
    }
    assert!(latest > ms(200), "{latest:?}");
    // If one run of a periodic item is late, the following runs are not delayed.
    with(Faults::new().late_timers(ms(300))).run(|| {
        let ticks = WorkQueue::new("ticks").item(|| ()).spawn_every(secs(1)).unwrap();
        advance(secs(60) + ms(300));
        assert_eq!(ticks.runs(), 60);
    });
}

/// spec: T3.4: a CPU goes while items use it and are bound to it, and comes back.
#[test]
fn cpus_go_and_come_back() {
    for seed in 0..20 {
        with(Faults::new().no_cpu(0, secs(2)..secs(6)).no_cpu(1, secs(6)..secs(8))).seed(seed).run(|| {
            let begin = clock::now();
            let (bound, queue) = (WorkQueue::per_cpu("bound"), WorkQueue::new("free"));
            let bound = bound.build().unwrap();
            let bound: Vec<_> = (0..4)
                .map(|number| bound.item(|| testing::compute(secs(1))).on_cpu(number % 2).spawn().unwrap())
                .collect();
            // With the bound items, there are twelve seconds of work. Eight of them are done until second 6, and two
            // until second 8. Then two CPUs do the last two.
            queue.for_each(0..8, |_| testing::compute(secs(1))).unwrap();
            bound.into_iter().for_each(|item| item.join().unwrap());
            let took = clock::now() - begin;
            assert!(took >= secs(9) && took < secs(11), "{took:?}");
            let faults = ["CPUs that are away: 0", "CPUs that are away: 1", "all CPUs are back"];
            assert_eq!(faults_so_far(), faults);
        });
    }
}

/// spec: T3.4: an executor that is made while a CPU is away does not use this CPU.
#[test]
fn an_executor_is_made_while_a_cpu_is_away() {
    with(Faults::new().no_cpu(0, secs(0)..secs(2))).cpus(3).run(|| {
        assert_eq!(Executor::global().cpus().to_string(), "1-2");
        let items = WorkQueue::new("items");
        items.item(|| ()).on_cpu(0).spawn().unwrap().join().unwrap();
        advance(secs(3));
        let executor = Executor::builder().build().unwrap();
        assert_eq!(executor.cpus().to_string(), "0-2");
        assert_eq!(executor.run_on_cpu(0, || 5).unwrap(), 5);
    });
}

/// spec: T3.5 (by name, and by number)
#[test]
fn chosen_items_panic() {
    let faults = Faults::new().panic_at("of queue \"one\"", 2).panic_at("chosen_items_panic", 4);
    with(faults).run(|| {
        let (one, two) =
            (WorkQueue::ordered("one").build().unwrap(), WorkQueue::ordered("two").build().unwrap());
        let panics = |queue: &WorkQueue| {
            let joined = queue.spawn(|| ()).unwrap().join();
            matches!(&joined, Err(JoinError::Panicked(_)))
        };
        let all = [panics(&one), panics(&two), panics(&one), panics(&two), panics(&one)];
        assert_eq!(all, [false, false, true, true, false]);
        assert_eq!(one.counters().panicked + two.counters().panicked, 2);
        assert_eq!(faults_so_far().len(), 2);
        assert!(faults_so_far()[0].starts_with("lets item testing::faults::chosen_items_panic"));
    });
}

/// spec: T3.5: the panicking item's values are dropped, a reusable item can run again, and the test need not have a
/// panic handler.
#[test]
fn a_planned_panic_is_that_of_the_item() {
    let told = Arc::new(AtomicU32::new(0));
    let tells = Arc::clone(&told);
    with(Faults::new().panic_at("", 1).panic_at("", 2).panic_at("", 3)).run(move || {
        let _global = Executor::builder().panic_handler(move |_| add(&tells)).build_global().unwrap();
        let kept = Arc::new(());
        let item = Arc::clone(&kept);
        let queue = WorkQueue::new("panics");
        queue.spawn_detached(move || drop(item)).unwrap();
        queue.flush().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1);
        let runs = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&runs);
        let work = Work::new(move || add(&counts));
        for expected in [0, 0, 1] {
            queue.enqueue(&work).unwrap();
            work.flush().unwrap();
            assert_eq!(runs.load(Relaxed), expected);
        }
    });
    assert_eq!(told.load(Relaxed), 3);
    // Without a handler, no thread learns of the panic. But the run does not fail, because the test has planned the
    // panic.
    with(Faults::new().panic_at("", 1)).run(|| {
        let queue = WorkQueue::new("panics");
        queue.spawn_detached(|| ()).unwrap();
        queue.flush().unwrap();
        assert_eq!(queue.counters().panicked, 1);
    });
}

/// Runs a mail service, which the plan of faults shuts down. Returns whether the shutdown came before the last mail was
/// sent.
fn service() -> bool {
    let executor = Executor::builder().build_global().unwrap();
    let Ok(queue) = WorkQueue::ordered("mails").build_on(&executor) else { return true };
    let mails: Vec<_> = (0..5)
        .map(|_| {
            queue
                .spawn(|| thread::sleep(ms(1)))
                .map_err(|refused| assert_eq!(refused.error, QueueError::ShutDown))
        })
        .collect();
    let mut ends = mails.into_iter().map(|mail| {
        mail.is_ok_and(|mail| match mail.join() {
            Ok(()) => true,
            Err(JoinError::Cancelled) => false,
            Err(error) => panic!("{error}"),
        })
    });
    // An ordered queue sends the mails in their order, up to the shutdown.
    let sent = ends.by_ref().take_while(|sent| *sent).count();
    assert!(ends.all(|sent| !sent), "mail {sent} was not sent, but a later one was");
    sent < 5
}

/// spec: T3.6 (at any step)
#[test]
fn executors_are_shut_down_at_any_step() {
    let mut early = 0;
    for step in 1..60 {
        for seed in 0..4 {
            let setup = with(Faults::new().shutdown_at(step, Duration::ZERO)).seed(seed);
            early += u32::from(setup.run(service));
        }
    }
    assert!(early > 30, "{early}");
    // If the timeout is long enough, the accepted mails are sent.
    let fault = Faults::new().shutdown_at(12, secs(60));
    with(fault).run(|| {
        service();
        assert_eq!(faults_so_far(), ["shuts the executors down"]);
    });
    // A run that ends before the planned step ends without a shutdown.
    assert!(!with(Faults::new().shutdown_at(10_000, Duration::ZERO)).run(service));
}

/// spec: T3.7: faults of the system delay items, but queues keep their promises.
#[test]
fn faults_of_the_system_are_survived() {
    let faults = Faults::random(FaultKind::OF_THE_SYSTEM);
    with(faults).explore(300, || {
        let (free, ordered) = (WorkQueue::new("free"), WorkQueue::ordered("ordered").build().unwrap());
        let runs = Arc::new(AtomicU32::new(0));
        let count = |runs: &Arc<AtomicU32>| {
            let runs = Arc::clone(runs);
            move || {
                testing::compute(ms(3));
                add(&runs);
            }
        };
        for number in 0..5 {
            free.spawn_detached(count(&runs)).unwrap();
            ordered.spawn_detached(count(&runs)).unwrap();
            free.item(count(&runs)).on_cpu(1).spawn_detached().unwrap();
            free.item(count(&runs)).after(ms(number * 100)).spawn_detached().unwrap();
        }
        advance(secs(600));
        ordered.flush().unwrap();
        free.drain().unwrap();
        assert_eq!(runs.load(Relaxed), 20);
    });
}

/// spec: T3.7 (drawn by the seed, told with it, and repeated by it)
#[test]
fn drawn_faults_follow_from_the_seed() {
    let run = |seed: u64| {
        with(Faults::random(FaultKind::ALL)).seed(seed).run(|| {
            let queue = WorkQueue::new("drawn");
            let items: Vec<_> = (0..20).map(|_| queue.spawn(|| testing::compute(ms(20)))).collect();
            items.into_iter().flatten().for_each(|item| drop(item.join()));
            testing::events()
        })
    };
    let all: Vec<_> = (0..60).map(run).collect();
    let fault = |what: &str| all.iter().flatten().filter(|event| event.contains(what)).count();
    for what in ["makes no thread", "is refused", "are away", "lets item", "shuts the executors"] {
        assert!(fault(what) > 0, "{what}");
    }
    (0..60).zip(&all).for_each(|(seed, events)| assert!(run(seed) == *events, "seed {seed}"));
}

/// spec: T3.7: the message of a failure names the faults.
#[test]
fn a_failure_tells_the_faults() {
    const CHILD: &str = "CMWQ_TEST_IS_CHILD";
    let explored = || {
        let faults = Faults::random(&[FaultKind::Refusals]).late_timers(ms(5));
        with(faults).explore(100, || {
            let queue = WorkQueue::new("never full");
            (0..50).for_each(|_| queue.spawn_detached(|| ()).expect("a queue takes all"));
        });
    };
    if std::env::var_os(CHILD).is_some() {
        return explored();
    }
    let run = |set: Option<&str>| {
        let mut child = testkit::again("faults::a_failure_tells_the_faults");
        child.env(CHILD, "1").envs(set.map(|seed| ("CMWQ_TEST_SEED", seed)));
        let output = testkit::output(&mut child).unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let text = run(None);
    assert_says(
        &text,
        &["of 1000 submissions of any queue are refused, timers are up to 5ms late", "fault: is refused"],
    );
    let seed = text.split("the run of seed ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let faults =
        |text: &str| text.lines().find(|line| line.contains("the faults of this run")).map(str::to_owned);
    assert_eq!(faults(&run(Some(seed))), faults(&text));
}

/// spec: T3.8
#[test]
fn plans_that_make_no_sense_are_refused() {
    let refused = |plan: fn() -> Faults, reason: &str| assert_eq!(message(|| drop(plan())), reason);
    let numbered = "has the number 1, and none has the number 0";
    refused(|| Faults::new().refuse("q", 0), &format!("the first submission {numbered}"));
    refused(|| Faults::new().panic_at("q", 0), &format!("the first run {numbered}"));
    refused(|| Faults::new().no_threads_from(0, secs(1)), &format!("the first thread {numbered}"));
    refused(|| Faults::new().shutdown_at(0, secs(1)), &format!("the first step {numbered}"));
    refused(|| Faults::new().refuse_some("q", 1001), "a rate is at most 1000 of 1000 submissions, not 1001");
    let empty = "the times of a fault end after they begin, not 2s..2s";
    refused(|| Faults::new().no_cpu(0, secs(2)..secs(2)), empty);
    refused(|| Faults::new().no_threads_during(secs(2)..secs(2)), empty);
    refused(|| Faults::random(&[]), "there is no kind of faults to draw");
    let run = |faults: Faults| message(move || with(faults).run(|| ()));
    assert_eq!(
        run(Faults::new().no_cpu(2, secs(0)..secs(1))),
        "CPU 2 cannot go away: the CPUs of this run are 0 to 1"
    );
    let both = Faults::new().no_cpu(0, secs(1)..secs(5)).no_cpu(1, secs(4)..secs(9));
    assert_eq!(run(both.clone()), "at 4s, all CPUs would be away");
    with(both).cpus(3).run(|| ());
}

/// spec: T3.1 (nothing fails unless it is planned, nor after the end of the test)
#[test]
fn nothing_else_fails() {
    assert_eq!(
        testing::run(|| {
            WorkQueue::new("usual").for_each(0..100, |_| testing::compute(ms(1))).unwrap();
            faults_so_far()
        }),
        [""; 0]
    );
    let faults = Faults::new().panic_at("", 1).no_cpu(1, secs(1)..secs(100)).shutdown_at(1000, secs(1));
    assert_eq!(
        faults.to_string(),
        "CPU 1 is away from 1s to 100s, run 1 of any item or queue panics, step 1000 shuts the executors down, with a timeout of 1s"
    );
    let other = Executor::builder().build().unwrap();
    // This thread continues after the test's closure has returned, and then no faults happen.
    let made = Arc::new(AtomicU32::new(0));
    let makes = Arc::clone(&made);
    with(faults.no_threads_during(ms(1)..secs(100))).run(move || {
        drop(thread::spawn(move || {
            thread::sleep(secs(1));
            drop(thread::spawn(move || add(&makes)));
        }));
    });
    assert_eq!(made.load(Relaxed), 1);
    let queue = WorkQueue::builder("ordinary").build_on(&other).unwrap();
    assert_eq!(queue.spawn(|| 2).unwrap().join().unwrap(), 2);
}
