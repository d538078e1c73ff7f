//! The same operations on machines of the test kit, in small programs. A program's seed determines it completely, and
//! repeats a failure exactly. Each bug that is found gets a test of its own, because a new operation changes the
//! programs of all seeds.

use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use cmwq::blocking::thread;
use cmwq::testing::{self, FaultKind, Faults, Setup};

use crate::clock;
use crate::operations::{Counts, Driver};
use crate::process::Usage;
use crate::random::Random;
use crate::world::World;

/// Of each `AGAIN` seeds, one is run twice, and the order of events must be the same.
const AGAIN: u64 = 50;

/// The faults that most seeds may draw. The books count their effects exactly.
const COUNTED: &[FaultKind] = &[FaultKind::Threads, FaultKind::Refusals, FaultKind::Timers, FaultKind::Cpus];

/// Of each `UNCOUNTED` seeds, one may also draw faults whose effects the books cannot count: planned panics and
/// shutdowns.
const UNCOUNTED: u64 = 4;

/// The longest time from the end of the drivers to the end of all items. Threads may be refused for two minutes.
const PATIENCE: Duration = Duration::from_secs(900);

/// Runs the programs of `seeds` seeds from `first` on, for at most this time. Prints the first failure. Succeeds only
/// if all programs have run.
pub(crate) fn search(first: u64, seeds: u64, time: Duration) -> ExitCode {
    clock::be_virtual();
    hush();
    let end =
        if time == Duration::MAX { String::new() } else { format!(", for {} s at most", time.as_secs()) };
    eprintln!("soak: the programs of {seeds} seeds from {first} on{end}");
    let (begun, counts) = (Instant::now(), Arc::new(Counts::new()));
    let mut progress = Progress::new(begun, seeds);
    for done in 0..seeds {
        let seed = first.wrapping_add(done);
        if begun.elapsed() >= time {
            println!("soak: the time is over after {done} of {seeds} seeds; to go on: --first {seed}");
            return ExitCode::FAILURE;
        }
        let run_again = || {
            let events = run(seed, &counts);
            let again = if seed % AGAIN == 0 { run(seed, &counts) } else { events.clone() };
            let differ = events.iter().zip(&again).find(|(one, other)| one != other);
            assert!(events.len() == again.len() && differ.is_none(), "the order is another one: {differ:?}");
        };
        if catch_unwind(AssertUnwindSafe(run_again)).is_err() {
            println!("soak: FAILED: the program of seed {seed}; to repeat: --seeds 1 --first {seed}");
            // The threads of a failed run stay, so the process ends without waiting for them.
            std::process::exit(1);
        }
        progress.tell(done + 1, &counts);
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "soak: ok: the programs of {seeds} seeds, {} operations, in {took:.0} s; {} at the end",
        counts.total(),
        Usage::at_rest()
    );
    ExitCode::SUCCESS
}

/// Runs the program of this seed on a new machine. Returns the last events of the run.
fn run(seed: u64, counts: &Arc<Counts>) -> Vec<String> {
    let mut random = Random::new(seed);
    let cpus = *random.pick(&[1, 2, 2, 4]);
    let (fails, is_uncounted) = (random.once_in(2), seed % UNCOUNTED == 0);
    let kinds = if is_uncounted { FaultKind::ALL } else { COUNTED };
    let faults = if fails { Faults::random(kinds) } else { Faults::new() };
    let setup = Setup::new().cpus(cpus).seed(seed).patience(Duration::from_secs(20)).faults(faults);
    let counts = Arc::clone(counts);
    setup.run(move || {
        program(&mut random, fails && is_uncounted, &counts);
        testing::events()
    })
}

/// Runs the program of a seed: some drivers, each of which performs some operations. Panics if the accounts are wrong.
/// `is_uncounted` says that an item may panic before its closure begins, and that the test kit may shut the executors
/// down.
fn program(random: &mut Random, is_uncounted: bool, counts: &Arc<Counts>) {
    let kind = random.below(6);
    let world = World::new(random, kind, is_uncounted);
    if is_uncounted {
        // A shutdown may give back any number of items, so their count is not checked. But each closure must be
        // dropped, and each join must return.
        world.books.unsure.fetch_add(u64::from(u32::MAX), SeqCst);
    }
    let operations = 1 + random.below(40);
    let drivers: Vec<_> = (0..1 + random.below(3))
        .map(|_| {
            let seed = random.next();
            insist(|| {
                let (mut driver, counts) = (Driver::new(Arc::clone(&world), seed), Arc::clone(counts));
                thread::spawn(move || (0..operations).for_each(|_| driver.step(&counts)))
            })
        })
        .collect();
    drivers.into_iter().for_each(|driver| driver.join().expect("drivers do not panic"));
    world.close();
    clock::holds_within(PATIENCE, || world.books.balance() && !world.has_restless_item());
    let verdict = |world: &World| world.books.verdict();
    if let Err(complaint) = verdict(&world) {
        panic!("{complaint}\n{}", world.describe());
    }
    assert!(!world.has_restless_item(), "an item is pending, running or disabled\n{}", world.describe());
    world.clear();
    let books = Arc::clone(&world.books);
    drop(world);
    let is_free = || books.works.load(SeqCst) == 0;
    assert!(clock::holds_within(PATIENCE, is_free), "reusable items are left without any handle");
    // The books are checked again, because the last destructors may have changed them.
    books.verdict().unwrap_or_else(|complaint| panic!("{complaint}"));
}

/// Calls `make`, which makes a thread. If the thread is refused, tries again once a second.
fn insist<T>(make: impl Fn() -> T) -> T {
    loop {
        match catch_unwind(AssertUnwindSafe(&make)) {
            Ok(made) => return made,
            Err(_) => clock::sleep(Duration::from_secs(1)),
        }
    }
}

/// Installs a panic hook that does not print the panics which the faults cause.
fn hush() {
    let usual = take_hook();
    set_hook(Box::new(move |info| {
        let payload = info.payload();
        let owned = payload.downcast_ref::<String>().map(String::as_str);
        let text = owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
        let is_planned = text == "a panic that the test has planned";
        if !is_planned && !text.starts_with("the system can make a thread") {
            usual(info);
        }
    }));
}

/// The progress line.
struct Progress {
    begun: Instant,
    next: Instant,
    seeds: u64,
    /// Whether the output is a terminal, on which each line replaces the one before.
    terminal: bool,
}

impl Progress {
    fn new(begun: Instant, seeds: u64) -> Self {
        Self { begun, next: begun + Duration::from_secs(1), seeds, terminal: std::io::stderr().is_terminal() }
    }

    /// Prints a line if it is time for one.
    fn tell(&mut self, done: u64, counts: &Counts) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + Duration::from_secs(if self.terminal { 1 } else { 30 });
        let seconds = self.begun.elapsed().as_secs_f64();
        let line = format!(
            "{seconds:5.0} s  {done} of {} seeds  {:.0} in a second  {} operations  {}",
            self.seeds,
            done as f64 / seconds,
            counts.total(),
            Usage::now()
        );
        let (before, after) = if self.terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        drop(write!(std::io::stderr(), "{before}{line}{after}"));
    }
}
