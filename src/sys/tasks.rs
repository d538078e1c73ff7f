//! Reads how many threads the system permits the process to have.

#![allow(unsafe_code, reason = "libc's call for limits takes a raw pointer")]

use super::{cgroup, machine};

/// Returns the smallest limit on the number of threads that applies to the process. Each limit belongs to a cgroup or
/// to the user of the process, and may also count the threads of other processes. Returns `None` if no limit can be
/// read. A limit may change later.
pub(crate) fn limit() -> Option<u64> {
    if machine::listens() {
        return None;
    }
    [cgroup::task_limit(), of_user()].into_iter().flatten().min()
}

/// Returns `RLIMIT_NPROC`, the limit of the user. A privileged process can exceed this limit, but might lose the
/// privilege later.
#[cfg(all(target_os = "linux", not(cmwq_portable)))]
fn of_user() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer points to memory of the type that the call writes.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) };
    #[allow(clippy::useless_conversion, reason = "on 32-bit systems it is a u32")]
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then(|| u64::from(limit.rlim_cur))
}

#[cfg(not(all(target_os = "linux", not(cmwq_portable))))]
fn of_user() -> Option<u64> {
    None
}
