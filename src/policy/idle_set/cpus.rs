//! The rules that decide on which CPU a woken worker begins, and which of too many running workers goes idle.

#![forbid(unsafe_code)]

use crate::policy::concurrency::Running;
use crate::policy::cpu_set::CpuSet;

/// Returns whether the worker on the CPU `mine` goes idle. The pool has more running workers than its limit allows.
/// `others` are the CPUs of the other running workers. A worker that is alone on its CPU keeps running if two other
/// workers share a CPU. If the lone worker went idle, the system would take milliseconds to move one of the two other
/// workers to the free CPU. All workers follow this rule, so one of the two workers that share a CPU goes idle.
///
/// The caller holds the pool's lock. So the function goes through `others` only once, and allocates memory only for
/// CPUs with high numbers.
pub(crate) fn should_shed(mine: usize, others: impl Iterator<Item = usize>) -> bool {
    let (mut low, mut high, mut two_share) = (0_u128, CpuSet::new(), false);
    for cpu in others {
        if cpu == mine {
            return true;
        }
        two_share |= if cpu < u128::BITS as usize {
            let before = low;
            low |= 1 << cpu;
            low == before
        } else {
            !high.insert(cpu)
        };
    }
    !two_share
}

/// Returns whether a woken worker has to begin on the CPU `left`, which its waker is about to leave. The
/// woken worker ran on the CPU `ran_on` last. `running` includes the reservation.
///
/// The system would put the woken worker on `ran_on`, behind the thread that runs there now, and would leave `left`
/// idle for milliseconds. But if another CPU of the pool is free, the system can choose that CPU.
///
/// The waker may be entering a blocking guard for a call that returns immediately. In that case, the waker stays on
/// `left` after all. The woken worker then waits on `left` for the end of one time slice, even if another CPU becomes
/// idle before that. A time slice is 0.7 ms long, or commonly 3 ms before Linux 6.12.
pub(crate) fn must_take(left: usize, ran_on: usize, running: Running) -> bool {
    ran_on != left && !running.has_free_cpu()
}

/// Returns a CPU where a woken worker may begin: `preferred` if that CPU is free, otherwise another free CPU, or `None`
/// if no CPU is free. A CPU is free if it is not in `taken`. If some CPUs of the pool's `home` are present, only these
/// CPUs are considered, because a woken worker begins in its pod.
pub(crate) fn free_cpu(
    present: &CpuSet,
    home: Option<&CpuSet>,
    taken: &CpuSet,
    preferred: usize,
) -> Option<usize> {
    let at_home = home.map(|home| present.intersection(home)).filter(|at_home| !at_home.is_empty());
    let free = |cpu: &usize| !taken.contains(*cpu);
    let among = at_home.as_ref().unwrap_or(present);
    Some(preferred).filter(|cpu| among.contains(*cpu) && free(cpu)).or_else(|| among.iter().find(free))
}
