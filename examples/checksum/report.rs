//! `--threads-report`: the cost of the run.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Counts the threads of the process until it is told to stop.
pub(crate) struct Sampler {
    began: Instant,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    end: AtomicBool,
    peak: AtomicU64,
}

/// The figures of a run.
pub(crate) struct Report {
    files: u64,
    bytes: u64,
    wall: Duration,
    cpu: Duration,
    /// The peak of the number of threads, or `None` if the system does not report threads.
    peak_threads: Option<u64>,
}

impl Sampler {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !seen.end.load(Relaxed) {
                seen.sample();
                std::thread::park_timeout(Duration::from_millis(2));
            }
        });
        Self { began: Instant::now(), shared, thread }
    }

    pub(crate) fn finish(self, files: u64, bytes: u64) -> Report {
        let wall = self.began.elapsed();
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        self.shared.sample();
        self.shared.end.store(true, Relaxed);
        self.thread.thread().unpark();
        // The sampler does not panic. Even if it did, the figures that it has collected would be valid.
        self.thread.join().ok();
        let peak = self.shared.peak.load(Relaxed);
        Report {
            files,
            bytes,
            wall,
            cpu: Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec as u32),
            // The sampler's own thread is not counted.
            peak_threads: peak.checked_sub(1),
        }
    }
}

impl Shared {
    fn sample(&self) {
        self.peak.fetch_max(threads().unwrap_or(0), Relaxed);
    }
}

/// Returns the present number of threads of the process.
fn threads() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        let wall = self.wall.as_secs_f64();
        writeln!(f, "files         {}", self.files)?;
        writeln!(f, "MiB           {mib:.1}")?;
        writeln!(f, "wall seconds  {wall:.3}")?;
        writeln!(f, "MiB/s         {:.1}", mib / wall)?;
        writeln!(f, "CPU seconds   {:.3} (user + system)", self.cpu.as_secs_f64())?;
        match self.peak_threads {
            Some(peak) => writeln!(f, "peak threads  {peak} (with main and the executor's manager)"),
            None => writeln!(f, "peak threads  unknown on this system"),
        }
    }
}
