//! A round: makes a world, lets drivers use it, balances the accounts, and ends all objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::clock::holds_within;
use crate::operations::Driver;
use crate::process::Usage;
use crate::random::Random;
use crate::report::Report;
use crate::world::World;

/// An operation that takes longer than this counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Drivers pause while more items than this are outstanding, because the round ends only after all of them have ended.
const BACKLOG: i64 = 3000;

/// Runs a round in which drivers work for this time. The error describes a failure.
pub(crate) fn play(
    random: &mut Random,
    drivers: usize,
    time: Duration,
    threads_before: usize,
    report: &Report,
) -> Result<(), String> {
    let world = World::new(random, report.rounds(), false);
    let stop = AtomicBool::new(false);
    let all_well = std::thread::scope(|scope| {
        let drive_one = |_| {
            let driver = Driver::new(Arc::clone(&world), random.next());
            let stop = &stop;
            scope.spawn(move || drive(driver, stop, report))
        };
        let threads: Vec<_> = (0..drivers).map(drive_one).collect();
        oversee(&world, time, &stop, report);
        {
            // All threads are joined, even if one of them has failed.
            let failed = threads.into_iter().filter_map(|thread| thread.join().err()).count();
            failed == 0
        }
    });
    if !all_well {
        return Err("a driver panicked: see above".into());
    }
    end(world, threads_before, report)
}

fn drive(mut driver: Driver, stop: &AtomicBool, report: &Report) {
    let _ended = Ended(report);
    while !stop.load(SeqCst) {
        if driver.world.books.outstanding() > BACKLOG {
            std::thread::sleep(Duration::from_micros(200));
        } else {
            driver.step(&report.operations);
        }
    }
}

/// Counts a driver as ended when it is dropped, even if the driver panics.
struct Ended<'a>(&'a Report);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.driver_ended();
    }
}

/// Lets the drivers work for this time, and waits until they have stopped.
fn oversee(world: &World, time: Duration, stop: &AtomicBool, report: &Report) {
    let end = Instant::now() + time;
    let ended_before = report.drivers_ended();
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20).min(time));
        report.progress(world.books.as_ref());
    }
    stop.store(true, SeqCst);
    // Every operation of a driver ends at the latest when all accepted items have run.
    let ended = holds_within(PATIENCE, || report.drivers_ended() - ended_before >= report.drivers());
    if !ended {
        report.give_up(&format!("a driver hangs\n{}", world.describe()));
    }
}

/// Waits until the accounts balance, drops all objects, and checks that all threads end.
fn end(world: Arc<World>, threads_before: usize, report: &Report) -> Result<(), String> {
    world.close();
    // Balanced books do not show that all items have ended, because a report may have left items uncounted.
    holds_within(PATIENCE, || world.books.balance() && !world.has_restless_item());
    let verdict = world.books.verdict().map_err(|complaint| format!("{complaint}\n{}", world.describe()));
    report.add(&world.books);
    verdict?;
    if world.has_restless_item() {
        return Err(format!("an item is pending, running or disabled\n{}", world.describe()));
    }
    world.clear();
    let books = Arc::clone(&world.books);
    drop(world);
    if !holds_within(PATIENCE, || Usage::now().threads <= threads_before) {
        return Err(format!("threads stay: {threads_before} before, {} now", Usage::now().threads));
    }
    let works = books.works.load(SeqCst);
    if works > 0 {
        return Err(format!("{works} reusable items are left without any handle"));
    }
    // The books are checked again, because the last destructors may have changed them.
    books.verdict()
}
