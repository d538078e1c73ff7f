//! Memory and threads of this process, as the system counts them.

use std::fmt;

/// The resources that the process uses, or zeros if the system does not report them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) resident_kib: u64,
    pub(crate) threads: usize,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        Self { resident_kib: field("VmRSS"), threads: field("Threads") as usize }
    }

    /// Reads the usage after the allocator has returned unused memory.
    pub(crate) fn at_rest() -> Self {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: the call only returns unused memory to the system, under the allocator's own locks.
        unsafe {
            libc::malloc_trim(0);
        }
        Self::now()
    }

    /// Returns whether the memory has grown by more than an eighth and 16 MiB, which is more than fragmentation
    /// explains.
    pub(crate) fn has_grown_since(self, before: Self) -> bool {
        self.resident_kib > before.resident_kib + before.resident_kib / 8 + (16 << 10)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MiB, {} threads", self.resident_kib as f64 / 1024.0, self.threads)
    }
}
