//! The process in which one rival runs one case, and the observation of that process.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use testkit::stats;

use crate::effort::Effort;
use crate::system::{self, Memory, Usage};
use crate::unit::{Better, Measure, Unit};

/// The measures that every case has after its own measures.
pub(crate) const COMMON: [Measure; 10] = [
    Measure { name: "threads", unit: Unit::Count, better: Better::Less },
    Measure { name: "after 3 s", unit: Unit::Count, better: Better::Less },
    Measure { name: "voluntary switches", unit: Unit::Count, better: Better::Less },
    Measure { name: "involuntary", unit: Unit::Count, better: Better::Less },
    Measure { name: "CPU time", unit: Unit::Seconds, better: Better::Less },
    Measure { name: "RSS", unit: Unit::Megabytes, better: Better::Less },
    Measure { name: "memory grown", unit: Unit::Megabytes, better: Better::Less },
    Measure { name: "sleeper p50", unit: Unit::Microseconds, better: Better::Less },
    Measure { name: "sleeper p99", unit: Unit::Microseconds, better: Better::Less },
    Measure { name: "sleeper max", unit: Unit::Microseconds, better: Better::Less },
];

/// How long the rival's threads are left idle before they are counted again.
pub(crate) const SETTLED: Duration = Duration::from_secs(3);
/// The length of the sleeper's naps.
const NAP: Duration = Duration::from_millis(1);

/// The number of this program's own threads, which do not count as the rival's threads. The main thread is one of them.
static OURS: AtomicUsize = AtomicUsize::new(1);

pub(crate) struct Bed {
    pub(crate) effort: Effort,
    /// Whether an unrelated thread sleeps and wakes up during the work. Cases that measure a latency have no such
    /// thread, because it would keep CPUs awake.
    sleeper: bool,
    settles: bool,
    /// Anonymous memory in megabytes before the rival was made.
    begun_with: Option<f64>,
    seen: Cell<Seen>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    usage: Usage,
    threads: Option<usize>,
    peak: Option<f64>,
    anonymous: Option<f64>,
    sleeper: Option<[f64; 3]>,
}

impl Bed {
    pub(crate) fn new(effort: Effort, sleeper: bool, settles: bool) -> Self {
        let begun_with = system::memory(Memory::Anonymous);
        Self { effort, sleeper, settles, begun_with, seen: Cell::default() }
    }

    /// See [`Effort::of`].
    pub(crate) fn count(&self, full: usize) -> usize {
        self.effort.of(full)
    }

    /// Runs the work, observes the process meanwhile, and returns the duration of the work.
    pub(crate) fn watch(&self, work: impl FnOnce()) -> Duration {
        let sleeper = self.sleeper.then(Sleeper::start);
        let before = Usage::of_process();
        let begin = Instant::now();
        work();
        let time = begin.elapsed();
        let mut usage = Usage::of_process().without(before);
        let (mut threads, mut lateness) = (rivals_threads(), None);
        if let Some(slept) = sleeper.map(Sleeper::stop) {
            usage = usage.without(slept.usage);
            threads = threads.max(slept.threads);
            lateness = Some(slept.lateness);
        }
        let [peak, anonymous] = [Memory::Peak, Memory::Anonymous].map(system::memory);
        self.seen.set(Seen { usage, threads, peak, anonymous, sleeper: lateness });
        time
    }

    /// Runs and observes the same work as often as the effort requires. Returns the seconds of each repetition.
    pub(crate) fn repeat(&self, mut unit: impl FnMut()) -> Vec<f64> {
        let mut seconds = Vec::with_capacity(1024);
        self.watch(|| {
            let begin = Instant::now();
            while seconds.is_empty() || !self.effort.is_enough(begin.elapsed(), seconds.len()) {
                let begin = Instant::now();
                unit();
                seconds.push(begin.elapsed().as_secs_f64());
            }
        });
        seconds
    }

    /// Returns the CPU time of the observed work.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.seen.get().usage.cpu_seconds
    }

    /// Returns the observed values, in the order of [`COMMON`].
    pub(crate) fn common(&self) -> Vec<Option<f64>> {
        let seen = self.seen.get();
        let after = self.settles.then(|| {
            thread::sleep(SETTLED);
            rivals_threads()
        });
        let count = |threads: Option<usize>| threads.map(|threads| threads as f64);
        let mut values = vec![
            count(seen.threads),
            after.and_then(count),
            Some(seen.usage.voluntary),
            Some(seen.usage.involuntary),
            Some(seen.usage.cpu_seconds),
            seen.peak,
            seen.anonymous.zip(self.begun_with).map(|(ended, begun)| ended - begun),
        ];
        values.extend(seen.sleeper.map_or([None; 3], |late| late.map(Some)));
        values
    }
}

/// Runs `issuer` on this many threads of this program at the same time, and repeats that. Each thread passes its number
/// to `issuer`. `prepare` runs at the beginning of each repetition. Returns the seconds of each repetition, until
/// `over` has returned.
pub(crate) fn issue(
    bed: &Bed,
    issuers: usize,
    prepare: impl Fn(),
    issuer: impl Fn(usize) + Sync,
    over: impl Fn(),
) -> Vec<f64> {
    let (barrier, stop) = (Barrier::new(issuers + 1), AtomicBool::new(false));
    OURS.fetch_add(issuers, Relaxed);
    let seconds = thread::scope(|scope| {
        for number in 0..issuers {
            let (barrier, stop, issuer) = (&barrier, &stop, &issuer);
            // No thread ends before the last repetition, because its end would look like the end of a rival's thread.
            scope.spawn(move || {
                loop {
                    barrier.wait();
                    if stop.load(Relaxed) {
                        return;
                    }
                    issuer(number);
                }
            });
        }
        let seconds = bed.repeat(|| {
            prepare();
            barrier.wait();
            over();
        });
        stop.store(true, Relaxed);
        barrier.wait();
        seconds
    });
    OURS.fetch_sub(issuers, Relaxed);
    seconds
}

fn rivals_threads() -> Option<usize> {
    Some(system::threads()?.saturating_sub(OURS.load(Relaxed)))
}

/// A thread that is unrelated to the work and sleeps a millisecond at a time. After each sleep it counts the rival's
/// threads.
struct Sleeper {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Slept>,
}

struct Slept {
    usage: Usage,
    threads: Option<usize>,
    lateness: [f64; 3],
}

impl Sleeper {
    fn start() -> Self {
        OURS.fetch_add(1, Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || Self::sleep(&stopped));
        Self { stop, thread }
    }

    fn sleep(stopped: &AtomicBool) -> Slept {
        let mut late = Vec::with_capacity(1 << 16);
        let mut threads = None;
        while !stopped.load(Relaxed) {
            let begin = Instant::now();
            thread::sleep(NAP);
            late.push(begin.elapsed().saturating_sub(NAP).as_secs_f64());
            threads = threads.max(rivals_threads());
        }
        late.sort_by(f64::total_cmp);
        let lateness = [50, 99, 100].map(|percent| stats::percentile(&late, percent).unwrap_or(0.0));
        Slept { usage: Usage::of_this_thread(), threads, lateness }
    }

    fn stop(self) -> Slept {
        self.stop.store(true, Relaxed);
        let slept = self.thread.join().expect("the sleeper does not panic");
        OURS.fetch_sub(1, Relaxed);
        slept
    }
}
