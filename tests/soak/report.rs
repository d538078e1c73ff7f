//! The output: the seed at the start, a progress line from time to time, and a table at the end.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::books::Books;
use crate::operations::Counts;
use crate::process::Usage;

/// The sums of all rounds.
pub(crate) struct Report {
    pub(crate) operations: Counts,
    begun: Instant,
    seed: u64,
    drivers: usize,
    drivers_ended: AtomicUsize,
    rounds: AtomicUsize,
    sums: [AtomicU64; NAMES.len()],
    /// Whether the output is a terminal, on which each progress line replaces the one before.
    terminal: bool,
    next_line: Mutex<Instant>,
    most_threads: AtomicUsize,
}

const NAMES: [&str; 9] = [
    "accepted",
    "  run",
    "  cancelled",
    "  returned",
    "  returned unreported",
    "refused",
    "panicked",
    "ticks",
    "overlapping runs",
];

fn values(books: &Books) -> [u64; NAMES.len()] {
    let [accepted, run, cancelled, returned, refused, panicked, ticks, overlaps] = [
        &books.accepted,
        &books.run,
        &books.cancelled,
        &books.returned,
        &books.refused,
        &books.panicked,
        &books.ticks,
        &books.overlaps,
    ]
    .map(|count| count.load(SeqCst));
    [accepted, run, cancelled, returned, books.uncounted(), refused, panicked, ticks, overlaps]
}

impl Report {
    pub(crate) fn new(args: &Args, begun: Instant) -> Self {
        eprintln!(
            "soak: {} s, {} drivers; to repeat: --seed {}",
            args.duration.as_secs(),
            args.drivers,
            args.seed
        );
        Self {
            operations: Counts::new(),
            begun,
            seed: args.seed,
            drivers: args.drivers,
            drivers_ended: AtomicUsize::new(0),
            rounds: AtomicUsize::new(0),
            sums: Default::default(),
            terminal: std::io::stderr().is_terminal(),
            next_line: Mutex::new(begun + Duration::from_secs(1)),
            most_threads: AtomicUsize::new(0),
        }
    }

    pub(crate) fn drivers(&self) -> usize {
        self.drivers
    }

    pub(crate) fn drivers_ended(&self) -> usize {
        self.drivers_ended.load(SeqCst)
    }

    pub(crate) fn driver_ended(&self) {
        self.drivers_ended.fetch_add(1, SeqCst);
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.load(Relaxed)
    }

    pub(crate) fn round_ended(&self) {
        self.rounds.fetch_add(1, Relaxed);
    }

    /// Adds the books of a round that is over.
    pub(crate) fn add(&self, books: &Books) {
        self.sums.iter().zip(values(books)).for_each(|(sum, value)| {
            sum.fetch_add(value, Relaxed);
        });
    }

    /// Prints a line if it is time for one.
    pub(crate) fn progress(&self, books: &Books) {
        let usage = Usage::now();
        self.most_threads.fetch_max(usage.threads, Relaxed);
        let mut next = self.next_line.lock().unwrap();
        if Instant::now() < *next {
            return;
        }
        *next = Instant::now() + Duration::from_secs(if self.terminal { 1 } else { 10 });
        let run = self.sums[1].load(Relaxed) + books.run.load(SeqCst);
        let line = format!(
            "{:5} s  round {}  {} operations  {run} runs  {usage}",
            self.begun.elapsed().as_secs(),
            self.rounds(),
            self.operations.total(),
        );
        let (before, after) = if self.terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        drop(write!(std::io::stderr(), "{before}{line}{after}"));
    }

    /// Ends the process without waiting for its threads, because one of them hangs.
    pub(crate) fn give_up(&self, why: &str) -> ! {
        eprintln!("\nsoak: FAILED: {why}\nto repeat: --seed {}", self.seed);
        std::process::exit(1)
    }

    pub(crate) fn finish(&self, args: &Args, failure: Option<&str>, warm: Usage) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
        let now = Usage::now();
        if args.json {
            self.print_json(failure, warm, now);
        } else {
            self.print_table(warm, now);
        }
        if args.json {
            return;
        }
        let (verdict, passed, failed) = if failure.is_some() { ("FAILED", 0, 1) } else { ("ok", 1, 0) };
        println!("\ntest result: {verdict}. {passed} passed; {failed} failed\n");
        match failure {
            Some(failure) => println!("{failure}\nsoak: FAILED; to repeat: --seed {}", self.seed),
            None => println!("soak: ok: {}", self.line(warm, now)),
        }
    }

    /// Returns a line that sums up a successful run.
    fn line(&self, warm: Usage, now: Usage) -> String {
        let [accepted, run, cancelled, returned, uncounted, ..] =
            self.sums.each_ref().map(|sum| sum.load(Relaxed));
        format!(
            "{} s from seed {}, {} rounds, {} operations; {accepted} accepted = {run} run + {cancelled} cancelled + \
             {} returned ({uncounted} of them after the report), in every round; no overlapping runs, no report of the \
             progress check; {warm} after the warm-up, {now} at the end",
            self.begun.elapsed().as_secs(),
            self.seed,
            self.rounds(),
            self.operations.total(),
            returned + uncounted,
        )
    }

    fn sums(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.sums.iter().map(|sum| sum.load(Relaxed)))
    }

    fn print_table(&self, warm: Usage, now: Usage) {
        println!("{:.1} s, {} rounds", self.begun.elapsed().as_secs_f64(), self.rounds());
        println!("\noperation                        times");
        self.operations.each().for_each(|(name, count)| println!("{name:24} {count:13}"));
        println!("\nitems                           number");
        self.sums().for_each(|(name, count)| println!("{name:24} {count:13}"));
        println!("\nafter the warm-up: {warm}; at the end: {now}; at most {} threads", self.most());
    }

    fn most(&self) -> usize {
        self.most_threads.load(Relaxed)
    }

    fn print_json(&self, failure: Option<&str>, warm: Usage, now: Usage) {
        let object = |pairs: Vec<(&'static str, u64)>| {
            let fields: Vec<String> =
                pairs.into_iter().map(|(name, count)| format!("\"{}\":{count}", name.trim())).collect();
            format!("{{{}}}", fields.join(","))
        };
        println!(
            "{{\"seconds\":{:.1},\"seed\":{},\"rounds\":{},\"operations\":{},\"items\":{},\"warm_kib\":{},\
             \"end_kib\":{},\"most_threads\":{},\"end_threads\":{},\"ok\":{}}}",
            self.begun.elapsed().as_secs_f64(),
            self.seed,
            self.rounds(),
            object(self.operations.each().collect()),
            object(self.sums().collect()),
            warm.resident_kib,
            now.resident_kib,
            self.most(),
            now.threads,
            failure.is_none()
        );
    }
}
