//! The unbound pools of one set of attributes: one for each pod, made when first used.
//!
//! Items of a strict queue stay in their pod. Otherwise, in a managed class, *items* move: a pool that has too much
//! offers it to a sibling that has room ([`Exchange`]). Threads stay where they are: to move one costs the system
//! milliseconds. An unmanaged class starts what comes at once, so nothing waits in a pod; there *threads* move, within
//! all CPUs of the class, as the system likes.
//!
//! A class keeps its pools as long as it has users; then they are closed. Pools know their class, and the class its
//! pools weakly, but for the list that its end empties.

use std::sync::{Arc, OnceLock, Weak};

use crate::policy::attrs::{Moves, PoolAttrs};
use crate::policy::concurrency::PodId;
use crate::policy::cpu_set::CpuSet;
use crate::policy::neighbours::{self, Neighbours};
use crate::policy::pods::Pods;
use crate::policy::topology::Topology;
use crate::protocol::exchange::{Exchange, Helpers};
use crate::sys::sync::Mutex;

use super::core::Core;
use super::placement::Placement;
use super::pool::{Pool, PoolKind, PoolSpec};

/// What a class is known by: attributes that come to the same pods share it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClassKey {
    managed: bool,
    moves: Moves,
    nice: i32,
    pods: Vec<CpuSet>,
    /// For issuers on CPUs of no pod there is one more, of all CPUs.
    outside: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Class {
    key: ClassKey,
    pods: Vec<Pod>,
    pub(super) exchange: Exchange,
    /// By pod; made when first used.
    pools: Box<[OnceLock<Weak<Pool>>]>,
    members: Mutex<Members>,
}

/// The CPUs of a pod.
#[derive(Clone, Debug)]
struct Pod {
    /// By the numbers of the topology.
    cpus: CpuSet,
    /// By those of the operating system.
    real: CpuSet,
    /// Those that its workers may run on, by the numbers of the topology.
    reach: CpuSet,
}

#[derive(Debug)]
struct Members {
    /// Pools are made, and kept here.
    open: bool,
    pools: Vec<Arc<Pool>>,
}

/// Keeps the pools of a class open: they are closed with its last user.
#[derive(Debug)]
pub(crate) struct ClassUser {
    pub(crate) class: Arc<Class>,
    core: Arc<Core>,
}

/// The place of a pool in a class whose items move.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(super) class: Arc<Class>,
    pub(super) pod: PodId,
    pub(super) helpers: Helpers,
}

/// A class, and which of its pods is a CPU's.
pub(crate) struct Home {
    pub(crate) key: ClassKey,
    pub(crate) pod: PodId,
}

impl Home {
    /// Of items that are queued on `cpu`.
    pub(crate) fn of(cpu: usize, attrs: &PoolAttrs, topology: &Topology) -> Self {
        let machine = topology.cpus().iter().map(|cpu| cpu.id).collect();
        let pods = Pods::derive(topology, attrs.scope, &machine).restricted(&attrs.cpus);
        let moves = attrs.moves(pods.pods().len());
        let own = pods.pod_of(cpu);
        let outside = own.is_none() && moves != Moves::Items && pods.pods().len() > 1;
        let pod = match own {
            Some(pod) => pod,
            None if outside => pods.pods().len(),
            None => neighbours::nearest_pod(topology, pods.pods(), cpu),
        };
        let key = ClassKey {
            managed: attrs.managed,
            moves,
            nice: attrs.nice,
            pods: pods.pods().to_vec(),
            outside: pods.pods().len() > 1 && moves != Moves::Items,
        };
        Self { key, pod: pod as PodId }
    }
}

impl Class {
    pub(super) fn new(key: ClassKey, topology: &Topology, placement: &Placement) -> Self {
        let all = || key.pods.iter().fold(CpuSet::new(), |all, pod| all.union(pod));
        let pod = |cpus: CpuSet| {
            let real = placement.real(&cpus);
            let reach = if key.moves == Moves::Threads { all() } else { cpus.clone() };
            Pod { cpus, real, reach }
        };
        let cpus = key.pods.iter().cloned().chain(key.outside.then(all));
        let pods: Vec<_> = cpus.map(pod).collect();
        Self {
            exchange: Exchange::new(Neighbours::derive(topology, &key.pods), key.pods.len()),
            pools: pods.iter().map(|_| OnceLock::new()).collect(),
            pods,
            members: Mutex::new(Members { open: true, pools: Vec::new() }),
            key,
        }
    }

    /// The pool of a pod. `None` if the class has ended.
    #[inline]
    pub(super) fn pool(self: &Arc<Self>, pod: PodId, core: &Arc<Core>) -> Option<Arc<Pool>> {
        match self.pools[pod as usize].get() {
            Some(pool) => pool.upgrade(),
            None => self.make_pool(pod, core),
        }
    }

    #[cold]
    fn make_pool(self: &Arc<Self>, pod: PodId, core: &Arc<Core>) -> Option<Arc<Pool>> {
        let mut members = self.members.lock();
        if let Some(pool) = self.pools[pod as usize].get() {
            return pool.upgrade();
        }
        if !members.open {
            return None;
        }
        let Pod { cpus, real, reach } = self.pods[pod as usize].clone();
        let spec = PoolSpec {
            kind: PoolKind::Unbound { id: core.next_unbound_id() },
            reach,
            home: (self.key.moves == Moves::Threads).then_some(real),
            cpus,
            nice: self.key.nice,
            managed: self.key.managed,
        };
        let seat = (self.key.moves == Moves::Items).then(|| Seat {
            class: Arc::clone(self),
            pod,
            helpers: Helpers::new(),
        });
        let pool = Pool::new(spec, Arc::clone(core), seat);
        members.pools.push(Arc::clone(&pool));
        let _set = self.pools[pod as usize].set(Arc::downgrade(&pool));
        drop(members);
        core.register(&pool);
        // The CPUs may have changed since it was made, and before it could be found.
        pool.adapt(&core.environment.present());
        Some(pool)
    }

    fn close(&self) {
        let pools = {
            let mut members = self.members.lock();
            members.open = false;
            std::mem::take(&mut members.pools)
        };
        pools.iter().for_each(|pool| pool.close());
    }
}

impl ClassUser {
    pub(super) fn new(class: Class, core: Arc<Core>) -> Self {
        Self { class: Arc::new(class), core }
    }

    /// The pool of a pod; it stays open as long as this does.
    pub(crate) fn pool(&self, pod: PodId) -> Arc<Pool> {
        self.class.pool(pod, &self.core).expect("a class has not ended as long as it has a user")
    }
}

impl Drop for ClassUser {
    fn drop(&mut self) {
        self.core.class_ends(&self.class.key);
        self.class.close();
    }
}
