//! The places where items start, and whether the pod of their issuer had room. The workload counts them, and not the
//! executor.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::machine;

/// The pods of a row. Until an item starts, it counts in the pod in which it was queued. From then on it counts in the
/// pod in which it runs.
pub(crate) struct Pods {
    pod_of_cpu: Vec<usize>,
    pods: Vec<Pod>,
}

#[derive(Default)]
struct Pod {
    cpus: usize,
    items: AtomicUsize,
    awake_issuers: AtomicUsize,
}

/// Facts about an item at the time of its submission.
#[derive(Clone, Copy)]
pub(crate) struct Ticket {
    home: usize,
    /// Whether the item's pod had more CPUs than items.
    room: bool,
}

/// An item that has started.
pub(crate) struct Started {
    at: usize,
    pub(crate) placed: Placed,
}

/// The numbers of items by the place where they started. Only items whose pod had room when they were queued count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Placed {
    pub(crate) home: u64,
    /// Items that started elsewhere although a CPU of their pod had neither an item nor an awake issuer at that moment.
    pub(crate) away: u64,
    /// Items that started elsewhere when every CPU of their pod had an item or an awake issuer.
    pub(crate) crowded_out: u64,
}

impl Pods {
    /// Makes the table of pods from real CPUs.
    pub(crate) fn new(pods: &[Vec<usize>]) -> Self {
        let highest = pods.iter().flatten().max().copied().unwrap_or(0);
        let pod_of = |cpu| pods.iter().position(|pod| pod.contains(&cpu)).unwrap_or(0);
        Self {
            pod_of_cpu: (0..=highest).map(pod_of).collect(),
            pods: pods.iter().map(|pod| Pod { cpus: pod.len(), ..Pod::default() }).collect(),
        }
    }

    /// Returns the pod of the calling thread's CPU.
    pub(crate) fn here(&self) -> usize {
        self.pod_of_cpu.get(machine::current_cpu()).copied().unwrap_or(0)
    }

    /// Records that an issuer in this pod wakes up.
    pub(crate) fn wakes(&self, home: usize) {
        self.pods[home].awake_issuers.fetch_add(1, Relaxed);
    }

    /// Records that an issuer in this pod goes to sleep.
    pub(crate) fn sleeps(&self, home: usize) {
        self.pods[home].awake_issuers.fetch_sub(1, Relaxed);
    }

    /// Records that an item is about to be queued.
    pub(crate) fn queued(&self, home: usize) -> Ticket {
        let pod = &self.pods[home];
        Ticket { home, room: pod.items.fetch_add(1, Relaxed) < pod.cpus }
    }

    /// Records that the item starts.
    pub(crate) fn started(&self, ticket: Ticket) -> Started {
        let at = self.here();
        let (mut placed, home) = (Placed::default(), &self.pods[ticket.home]);
        if at == ticket.home {
            placed.home = ticket.room.into();
        } else {
            let others = home.items.fetch_sub(1, Relaxed) - 1;
            self.pods[at].items.fetch_add(1, Relaxed);
            let idle = others + home.awake_issuers.load(Relaxed) < home.cpus;
            placed.away = (ticket.room && idle).into();
            placed.crowded_out = (ticket.room && !idle).into();
        }
        Started { at, placed }
    }

    /// Records that the item has ended.
    pub(crate) fn ended(&self, started: &Started) {
        self.pods[started.at].items.fetch_sub(1, Relaxed);
    }
}

impl std::ops::AddAssign for Placed {
    fn add_assign(&mut self, other: Self) {
        self.home += other.home;
        self.away += other.away;
        self.crowded_out += other.crowded_out;
    }
}
