use super::*;

fn at(micros: u64) -> Time {
    Time::default() + Duration::from_micros(micros)
}

fn running() -> WorkerState {
    WorkerState::new(Phase::Between).begin_item(Phase::Running)
}

const BOTH: Criteria = Criteria { sleepers: true, hogs: Some(Duration::from_millis(10)), cpus: 1 };

/// Threads with scripted facts: whether each worker's thread sleeps, the CPU time of each thread, and the number of
/// past sleeps, which is the same for all threads.
#[derive(Default)]
struct Threads {
    sleeps: Vec<Option<bool>>,
    cpu_micros: Vec<Option<u64>>,
    sleeps_so_far: u64,
    hides_sleeps_so_far: bool,
    asked: usize,
    clocks_read: usize,
    /// The pace of the workers' pool.
    pace: Pace,
}

impl Threads {
    fn of(sleeps: &[bool]) -> Self {
        Self {
            sleeps: sleeps.iter().copied().map(Some).collect(),
            cpu_micros: vec![Some(0); sleeps.len()],
            ..Self::default()
        }
    }
}

impl Facts for Threads {
    fn sleeps(&mut self, worker: WorkerId) -> Option<bool> {
        self.asked += 1;
        self.sleeps[worker as usize]
    }

    fn cpu_time(&mut self, worker: WorkerId) -> Option<Duration> {
        self.clocks_read += 1;
        self.cpu_micros[worker as usize].map(Duration::from_micros)
    }

    fn sleeps_so_far(&mut self, _worker: WorkerId) -> Option<u64> {
        (!self.hides_sleeps_so_far).then_some(self.sleeps_so_far)
    }
}

/// Checks the workers, and changes their words as the findings demand.
fn look(
    detector: &mut BlockingDetector,
    workers: &mut [(WorkerId, WorkerState)],
    criteria: Criteria,
    threads: &mut Threads,
    now: Time,
) -> (Vec<(WorkerId, Finding)>, Option<Time>) {
    let findings = detector.look(workers, (criteria, threads.pace), threads, now);
    threads.pace = findings.pace;
    for found in &findings.found {
        let (_, word) = workers.iter_mut().find(|(id, _)| *id == found.worker).unwrap();
        assert_eq!(*word, found.seen);
        *word = word.found(found.finding).expect("the finding is about this phase");
    }
    (findings.found.iter().map(|found| (found.worker, found.finding)).collect(), findings.next)
}

/// spec: S1
#[test]
fn a_sleeper_is_found_at_the_first_look_and_put_back_when_it_runs() {
    let mut workers = [(0, running())];
    let mut detector = BlockingDetector::default();
    let mut threads = Threads::of(&[true]);
    assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(0)).0, [(0, Finding::Asleep)]);
    assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(1000)).0, []);
    let asked = threads.asked;
    assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(2000)).0, []);
    assert_eq!(threads.asked, asked, "a thread whose CPU time has not changed still sleeps");
    (threads.sleeps[0], threads.cpu_micros[0]) = (Some(false), Some(10));
    assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(3000)).0, [(0, Finding::Runs)]);
    assert_eq!(workers[0].1.phase(), Phase::Running);
}

/// spec: S1 (a guard has already said that the worker blocks), C4
#[test]
fn no_facts_are_asked_about_workers_that_do_not_count_or_have_no_item() {
    let blocked = running().block().0;
    let intensive = running().uncount().0;
    let mut workers = [(0, blocked), (1, intensive), (2, running().end_item().0)];
    let mut threads = Threads::of(&[true; 3]);
    let mut detector = BlockingDetector::default();
    for now in [0, 20_000] {
        assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(now)), (vec![], None));
    }
    assert_eq!(threads.asked, 0);
}

/// spec: S1 (everywhere on Linux: without /proc, by CPU time)
#[test]
fn where_the_state_is_unknown_a_thread_without_progress_sleeps() {
    let mut workers = [(0, running()), (1, running())];
    let mut threads = Threads::of(&[true, true]);
    threads.sleeps = vec![None; 2];
    let mut detector = BlockingDetector::default();
    let two = Criteria { cpus: 2, ..BOTH };
    for now in [0, 1000, 2000] {
        threads.cpu_micros[1] = Some(now);
        let (found, next) = look(&mut detector, &mut workers, two, &mut threads, at(now));
        assert_eq!((found, next), (vec![], Some(at(3000))));
    }
    threads.cpu_micros[1] = Some(3000);
    assert_eq!(look(&mut detector, &mut workers, two, &mut threads, at(3000)).0, [(0, Finding::Asleep)]);
    assert_eq!(look(&mut detector, &mut workers, two, &mut threads, at(4000)).0, []);
    threads.cpu_micros = vec![Some(1), Some(4000)];
    assert_eq!(look(&mut detector, &mut workers, two, &mut threads, at(5000)).0, [(0, Finding::Runs)]);
}

#[test]
fn without_facts_there_are_no_findings() {
    let mut workers = [(0, running())];
    let mut threads = Threads { sleeps: vec![None], cpu_micros: vec![None], ..Threads::default() };
    let mut detector = BlockingDetector::default();
    for now in (0..100_000).step_by(1000) {
        assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(now)), (vec![], None));
    }
}

/// spec: S2: a worker is a hog when it has used 10 ms of CPU time without blocking.
#[test]
fn a_hog_is_found_when_it_has_used_the_threshold() {
    let mut workers = [(0, running())];
    let mut threads = Threads::of(&[false]);
    let mut detector = BlockingDetector::default();
    threads.cpu_micros[0] = Some(500);
    assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(0)), (vec![], None));
    // The worker's thread shared its CPU, and got half of the time.
    threads.cpu_micros[0] = Some(5500);
    assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(10_000)), (vec![], Some(at(15_000))));
    threads.cpu_micros[0] = Some(10_500);
    assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(15_000)).0, [(0, Finding::Hog)]);
    assert_eq!(workers[0].1.phase(), Phase::Hog);
    assert_eq!(look(&mut detector, &mut workers, BOTH, &mut threads, at(16_000)), (vec![], None));
}

/// spec: S2 (without blocking)
#[test]
fn a_worker_that_sleeps_in_between_is_no_hog() {
    let mut threads = Threads::of(&[false]);
    // After a check has seen a thread asleep, or its worker in a guard, the detector counts the thread's CPU time anew.
    let mut workers = [(0, running())];
    let mut detector = BlockingDetector::default();
    for millis in 0..50 {
        threads.cpu_micros[0] = Some(900 * millis);
        let (found, _) = look(&mut detector, &mut workers, BOTH, &mut threads, at(1000 * millis));
        assert_eq!(found, []);
        if millis % 5 == 4 {
            workers[0].1 = workers[0].1.block().0.unblock(false).0;
        }
    }
    // No check sees the thread asleep, but the system has counted its sleeps.
    let mut workers = [(0, running())];
    let mut detector = BlockingDetector::default();
    for millis in 0..50 {
        (threads.cpu_micros[0], threads.sleeps_so_far) = (Some(900 * millis), millis);
        let (found, _) = look(&mut detector, &mut workers, BOTH, &mut threads, at(1000 * millis));
        assert_eq!(found, []);
    }
}

/// spec: S2 (without blocking): a worker can use the whole threshold between two checks, because the threshold is short
/// or the manager is late. The second check does not know yet whether the worker has slept since the first one. So a
/// worker that does not sleep becomes a hog only at the third check.
#[test]
fn a_worker_that_uses_the_threshold_between_two_checks_is_a_hog_only_if_it_does_not_sleep() {
    let short = Criteria { hogs: Some(Duration::from_millis(1)), ..BOTH };
    for (criteria, period) in [(short, 3000), (BOTH, 15_000)] {
        for sleeps in [5, 0] {
            let mut workers = [(0, running())];
            let mut detector = BlockingDetector::default();
            let mut threads = Threads::of(&[false]);
            for check in 0..10 {
                (threads.cpu_micros[0], threads.sleeps_so_far) =
                    (Some(period * 9 / 10 * check), sleeps * check);
                let (found, _) =
                    look(&mut detector, &mut workers, criteria, &mut threads, at(period * check));
                // The worker that does not sleep is found when it has used the threshold once more.
                assert_eq!(
                    found.len(),
                    usize::from(sleeps == 0 && check == 2),
                    "{sleeps} sleeps, check {check}"
                );
            }
        }
    }
}

/// spec: S2: if the system no longer tells how many times the thread has slept, the CPU time alone decides whether the
/// worker is a hog.
#[test]
fn a_look_that_fails_hides_no_hog() {
    let mut workers = [(0, running())];
    let mut threads = Threads::of(&[false]);
    let mut detector = BlockingDetector::default();
    for millis in [0, 5, 10] {
        threads.cpu_micros[0] = Some(1000 * millis);
        threads.hides_sleeps_so_far = millis == 10;
        let (found, _) = look(&mut detector, &mut workers, BOTH, &mut threads, at(1000 * millis));
        assert_eq!(found.len(), usize::from(millis == 10));
    }
}

/// spec: S2: a worker can have the number and the word of an earlier worker. The earlier worker's CPU time does not
/// apply to the new worker.
#[test]
fn a_clock_that_goes_back_is_taken_for_another_threads() {
    let mut workers = [(0, running())];
    let mut threads = Threads::of(&[false]);
    let mut detector = BlockingDetector::default();
    for (millis, cpu_millis, hogs) in [(0, 9000, 0), (5, 0, 0), (10, 5, 0), (15, 10, 1)] {
        threads.cpu_micros[0] = Some(1000 * cpu_millis);
        let (found, _) = look(&mut detector, &mut workers, BOTH, &mut threads, at(1000 * millis));
        assert_eq!(found.len(), hogs, "{millis}");
    }
}

/// spec: C2.4 (`may_block`: 1 ms)
#[test]
fn a_worker_that_may_block_is_given_a_millisecond() {
    let mut workers = [(0, running().enter_may_block())];
    let mut threads = Threads::of(&[true]);
    let mut detector = BlockingDetector::default();
    let off = Criteria { sleepers: false, hogs: None, cpus: 1 };
    assert_eq!(look(&mut detector, &mut workers, off, &mut threads, at(0)), (vec![], Some(at(1000))));
    // The same item enters another guard.
    workers[0].1 = workers[0].1.leave_may_block().0.enter_may_block();
    assert_eq!(look(&mut detector, &mut workers, off, &mut threads, at(1000)), (vec![], Some(at(2000))));
    assert_eq!(look(&mut detector, &mut workers, off, &mut threads, at(2000)).0, [(0, Finding::Blocks)]);
    assert_eq!(threads.asked, 0);
}

/// spec: S5 (paced)
#[test]
fn of_many_sleepers_as_many_as_cpus_are_taken_out_at_once() {
    let mut workers: Vec<_> = (0..50).map(|id| (id, running())).collect();
    let mut threads = Threads::of(&[true; 50]);
    let mut detector = BlockingDetector::default();
    let two = Criteria { cpus: 2, ..BOTH };
    let (found, next) = look(&mut detector, &mut workers, two, &mut threads, at(0));
    assert_eq!(found, [(0, Finding::Asleep), (1, Finding::Asleep)]);
    assert_eq!(next, Some(at(200)));
    let (found, next) = look(&mut detector, &mut workers, two, &mut threads, at(200));
    assert_eq!((found, next), (vec![(2, Finding::Asleep)], Some(at(450))));
}

/// spec: S5: hogs are taken out of the count one by one, after growing gaps, so items that spin do not lead to many new
/// threads.
#[test]
fn hogs_are_paced_by_themselves() {
    let mut workers: Vec<_> = (0..5).map(|id| (id, running())).collect();
    let mut threads = Threads::of(&[false; 5]);
    let mut detector = BlockingDetector::default();
    let mut found_at = Vec::new();
    for millis in 0..100 {
        threads.cpu_micros.fill(Some(1000 * millis));
        let (found, _) = look(&mut detector, &mut workers, BOTH, &mut threads, at(1000 * millis));
        found_at.extend(found.into_iter().map(|(id, finding)| (id, finding, millis)));
    }
    let hog = |id, millis| (id, Finding::Hog, millis);
    assert_eq!(found_at, [hog(0, 10), hog(1, 20), hog(2, 35), hog(3, 58), hog(4, 92)]);
}

#[test]
fn progress_is_a_new_item_or_another_worker() {
    let mut threads = Threads::of(&[false; 3]);
    let mut detector = BlockingDetector::default();
    let mut progress = |workers: &[(WorkerId, WorkerState)]| {
        detector.look(workers, (BOTH, Pace::NEW), &mut threads, at(0)).progress
    };
    assert!(progress(&[(0, running())]));
    assert!(!progress(&[(0, running())]));
    assert!(!progress(&[(0, running().block().0)]), "the same item");
    assert!(progress(&[(0, running()), (2, running())]));
    assert!(progress(&[(2, running())]), "a worker has left");
    assert!(progress(&[(2, running().end_item().0.begin_item(Phase::Running))]));
}

/// spec: S5.3 (the pace depends on all hogs, including those with higher numbers)
#[test]
fn a_hog_is_paced_by_all_hogs_whatever_its_number() {
    let mut detector = BlockingDetector::default();
    let mut threads = Threads::of(&[false; 2]);
    let mut workers = vec![(1, running())];
    let mut at_millis = |workers: &mut [(WorkerId, WorkerState)], millis: u64| {
        threads.cpu_micros.fill(Some(1000 * millis));
        look(&mut detector, workers, BOTH, &mut threads, at(1000 * millis)).0
    };
    assert_eq!(at_millis(&mut workers, 0), []);
    workers.insert(0, (0, running()));
    assert_eq!(at_millis(&mut workers, 5), []);
    assert_eq!(at_millis(&mut workers, 10), [(1, Finding::Hog)]);
    assert_eq!(at_millis(&mut workers, 15), [], "five milliseconds after the last one");
    assert_eq!(at_millis(&mut workers, 20), [(0, Finding::Hog)]);
}

/// spec: S5 (threads do not multiply, even if the pool is quiet in between): another watch continues with the pace of
/// the last watch. The workers' words tell which workers are out of the count, and the pool's pace tells when a worker
/// was last taken out.
#[test]
fn another_watch_goes_on_with_the_pace_of_the_last_one() {
    let mut workers: Vec<_> = (0..3).map(|id| (id, running())).collect();
    let mut threads = Threads::of(&[false; 3]);
    let mut found_at = Vec::new();
    let mut detector = BlockingDetector::default();
    for millis in 0..60 {
        if millis % 13 == 0 {
            detector = BlockingDetector::default();
        }
        threads.cpu_micros.fill(Some(1000 * millis));
        let (found, _) = look(&mut detector, &mut workers, BOTH, &mut threads, at(1000 * millis));
        found_at.extend(found.into_iter().map(|(id, _)| (id, millis)));
    }
    assert_eq!(found_at, [(0, 10), (1, 23), (2, 38)]);
}

fn asleep() -> WorkerState {
    running().found(Finding::Asleep).expect("a running worker may be found asleep")
}

/// spec: S5.1: a sleeper that comes back counts only once, whether it has begun another item or has left the pool.
#[test]
fn each_sleeper_that_comes_back_lets_one_more_leave() {
    let (mut detector, sleepers) = (BlockingDetector::default(), Criteria { hogs: None, ..BOTH });
    let mut workers: Vec<_> = (0..10).map(|id| (id, asleep())).collect();
    let mut threads = Threads::of(&[true; 20]);
    threads.pace.took(Why::Asleep, at(0));
    assert_eq!(look(&mut detector, &mut workers, sleepers, &mut threads, at(1000)).0, []);
    // Two sleepers come back, and two leave the pool.
    workers.truncate(8);
    for (_, word) in &mut workers[..2] {
        *word = word.end_item().0.begin_item(Phase::Running);
    }
    for micros in [2000, 3000] {
        let _ = look(&mut detector, &mut workers, sleepers, &mut threads, at(micros));
    }
    let spared = (0..).find(|out| threads.pace.next(Why::Asleep, *out, 1) > at(3000));
    assert_eq!(spared, Some(1 + 4));
}

/// spec: S1.8: a sleeper that runs again is noticed within 2 ms, and the clocks of many sleepers are not read at each
/// check.
#[test]
fn the_clocks_of_many_sleepers_are_read_together_and_rarely() {
    let sleepers = Criteria { hogs: None, ..BOTH };
    for (count, micros) in [(1, 250), (100, 1000), (200, 2000), (400, 2000)] {
        let mut workers: Vec<_> = (0..count).map(|id| (id, asleep())).collect();
        let (mut detector, mut threads) = (BlockingDetector::default(), Threads::of(&vec![true; 400]));
        for now in (0..40).map(|check| at(10_000 + 250 * check)) {
            let (found, next) = look(&mut detector, &mut workers, sleepers, &mut threads, now);
            assert_eq!(found, []);
            assert!(next.is_none_or(|next| next.since(now) <= RECHECK));
        }
        assert_eq!(threads.clocks_read, count as usize * 10_000 / micros, "{count} sleepers");
    }
}
