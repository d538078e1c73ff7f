//! The work that a request asks for.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha512};

/// The bytes that one step hashes.
const BLOCK: usize = 16 << 10;

/// A piece of work, which is the same for all engines.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Hashes 16 KiB this many times.
    Compute {
        hashes: u32,
    },
    Block {
        time: Duration,
    },
}

impl Work {
    /// Does the work on the calling thread.
    pub(crate) fn run(self) -> u64 {
        match self {
            Self::Compute { hashes } => hash(hashes),
            Self::Block { time } => {
                std::thread::sleep(time);
                0
            }
        }
    }
}

fn hash(count: u32) -> u64 {
    let data = vec![0xa5; BLOCK];
    (0..count).fold(0, |sum, _| {
        let digest = Sha512::digest(black_box(&data));
        sum ^ digest.iter().fold(0, |sum, byte| sum << 8 ^ u64::from(*byte))
    })
}

/// Returns how many hashes take this much CPU time, but at least one.
pub(crate) fn hashes_in(time: Duration) -> u32 {
    const TRIED: u32 = 64;
    // The fastest of several attempts is the least disturbed one.
    let attempt = |_| {
        let begin = cpu_time(ClockId::ThreadCPUTime);
        black_box(hash(TRIED));
        cpu_time(ClockId::ThreadCPUTime) - begin
    };
    let seconds = (0..20).map(attempt).fold(f64::INFINITY, f64::min);
    ((f64::from(TRIED) * time.as_secs_f64() / seconds) as u32).max(1)
}

/// Returns the CPU time of this thread or process so far, in seconds.
pub(crate) fn cpu_time(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
