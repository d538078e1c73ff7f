//! The unbound pools of one set of attributes: one for each pod, made when first used.
//!
//! Items of a strict queue stay in their pod. Otherwise, in a managed class, *items* move: a pool that has too much
//! offers it to a sibling that has room ([`Exchange`]). Threads stay where they are: to move one costs the system
//! milliseconds. An unmanaged class starts what comes at once, so nothing waits in a pod; there *threads* move, within
//! all CPUs of the class, as the system likes.
//!
//! A class has its pools open as long as it has *users*, and in memory as long as it has *keepers*, too: then it may have
//! users again. Until its end it is the only one of its key. Pools know their class, and the class its pools weakly, but
//! for the list that its end empties.

use std::sync::{Arc, OnceLock, Weak};

use crate::policy::attrs::{Moves, PoolAttrs};
use crate::policy::concurrency::PodId;
use crate::policy::cpu_set::CpuSet;
use crate::policy::locks::Rank;
use crate::policy::neighbours::{self, Neighbours};
use crate::policy::pods::Pods;
use crate::policy::topology::Topology;
use crate::protocol::exchange::{Exchange, Helpers};
use crate::sys::sync::Mutex;

use crate::engine::executor::placement::Placement;

use super::pools::Pools;
use super::spec::{PoolKind, PoolSpec};
use super::worker_pool::Pool;

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
    key: ClassKey, // I
    /// The pools of its executor, among which its own are.
    registered: Arc<Pools>, // I
    pods: Vec<Pod>, // I
    pub(crate) exchange: Exchange, // A
    /// By pod; made when first used.
    pools: Box<[OnceLock<Weak<Pool>>]>, // A, set under C
    members: Mutex<Members>, // C
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
    /// Without any, the pools are closed.
    users: usize,
    keepers: usize,
    /// There are none of both any more.
    is_over: bool,
    pools: Vec<Arc<Pool>>,
}

/// Keeps the pools of a class in memory, but not open.
#[derive(Debug)]
pub(crate) struct KeptClass(Arc<Class>);

/// Keeps the pools of a class open: they are closed with its last user.
#[derive(Debug)]
pub(crate) struct ClassUser(Arc<Class>);

/// The place of a pool in a class whose items move.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) class: Arc<Class>,
    pub(crate) pod: PodId,
    pub(crate) helpers: Helpers,
}

/// How attributes divide the CPUs, and the class of that.
#[derive(Debug)]
pub(crate) struct Division {
    attrs: PoolAttrs,
    pods: Pods,
    key: ClassKey,
    /// It, as it was found last.
    class: Weak<Class>,
}

impl Division {
    pub(crate) fn of(attrs: &PoolAttrs, topology: &Topology) -> Self {
        let machine = topology.cpus().iter().map(|cpu| cpu.id).collect();
        let pods = Pods::derive(topology, attrs.scope, &machine).restricted(&attrs.cpus);
        let moves = attrs.moves(pods.pods().len());
        let key = ClassKey {
            managed: attrs.managed,
            moves,
            nice: attrs.nice,
            pods: pods.pods().to_vec(),
            outside: pods.pods().len() > 1 && moves != Moves::Items,
        };
        Self { attrs: attrs.clone(), pods, key, class: Weak::new() }
    }

    pub(crate) fn is_of(&self, attrs: &PoolAttrs) -> bool {
        self.attrs == *attrs
    }

    /// The pod for items that are queued on `cpu`: its own, or that of all CPUs, or a near one.
    pub(crate) fn pod_for(&self, cpu: usize, topology: &Topology) -> PodId {
        let pods = self.pods.pods();
        let pod = match self.pods.pod_of(cpu) {
            Some(own) => own,
            None if self.key.outside => pods.len(),
            None => neighbours::nearest_pod(topology, pods, cpu),
        };
        pod as PodId
    }

    /// The pool for items of no pod, or of the only one, if it was made.
    pub(crate) fn default_pool(&self) -> Option<Arc<Pool>> {
        let pods = self.pods.pods().len();
        let at = if self.key.outside { pods } else { (pods == 1).then_some(0)? };
        self.class.upgrade()?.pools[at].get()?.upgrade()
    }

    /// Uses its class: that which was found last, as long as anybody keeps it.
    pub(crate) fn user(&mut self, find: impl FnOnce(ClassKey) -> ClassUser) -> ClassUser {
        let known = self.class.upgrade();
        known.and_then(|class| class.open()).unwrap_or_else(|| {
            let user = find(self.key.clone());
            self.class = Arc::downgrade(user.class());
            user
        })
    }
}

/// Where a shard's items go.
#[derive(Debug)]
pub(crate) struct PoolChoice {
    pub(crate) pool: Arc<Pool>,
    /// Keeps the pool open, if it is an unbound one.
    pub(crate) user: Option<ClassUser>,
}

impl PoolChoice {
    /// Returns the class, on which the caller calls [`attend`](Class::attend).
    pub(crate) fn class(&self) -> Option<Arc<Class>> {
        self.user.as_ref().map(|user| Arc::clone(user.class()))
    }
}

impl Class {
    pub(crate) fn new(
        key: ClassKey,
        topology: &Topology,
        placement: &Placement,
        registered: Arc<Pools>,
    ) -> Self {
        let all = || key.pods.iter().fold(CpuSet::new(), |all, pod| all.union(pod));
        let pod = |cpus: CpuSet| {
            let real = placement.real(&cpus);
            let reach = if key.moves == Moves::Threads { all() } else { cpus.clone() };
            Pod { cpus, real, reach }
        };
        let cpus = key.pods.iter().cloned().chain(key.outside.then(all));
        let pods: Vec<_> = cpus.map(pod).collect();
        let sharing = if key.moves == Moves::Items { &*key.pods } else { &[] };
        Self {
            exchange: Exchange::new(Neighbours::derive(topology, sharing), sharing.len()),
            pools: pods.iter().map(|_| OnceLock::new()).collect(),
            pods,
            members: Mutex::ranked(
                Rank::Class,
                Members { users: 0, keepers: 0, is_over: false, pools: Vec::new() },
            ),
            key,
            registered,
        }
    }

    /// The pool of a pod. `None` if the class has ended.
    #[inline]
    pub(crate) fn pool(self: &Arc<Self>, pod: PodId) -> Option<Arc<Pool>> {
        match self.pools[pod as usize].get() {
            Some(pool) => pool.upgrade(),
            None => self.make_pool(pod),
        }
    }

    #[cold]
    fn make_pool(self: &Arc<Self>, pod: PodId) -> Option<Arc<Pool>> {
        let mut members = self.members.lock();
        if let Some(pool) = self.pools[pod as usize].get() {
            return pool.upgrade();
        }
        if members.is_over {
            return None;
        }
        let core = &self.registered.core;
        let Pod { cpus, real, reach } = self.pods[pod as usize].clone();
        let spec = PoolSpec {
            kind: PoolKind::Unbound { id: self.registered.next_unbound_id() },
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
        if members.users == 0 {
            // Who opens the class opens it, too.
            pool.close();
        }
        let _set = self.pools[pod as usize].set(Arc::downgrade(&pool));
        drop(members);
        self.registered.add(&pool);
        if core.manager.is_stopped() {
            // Whoever closes all pools at a shutdown may have asked for them before this one was among them.
            pool.close();
        }
        // The CPUs may have changed since it was made, and before it could be found.
        pool.adapt(&core.environment.present());
        Some(pool)
    }

    /// Somebody uses it, and owes it an [`attend`](Self::attend). `None` if it has ended.
    pub(crate) fn open(self: &Arc<Self>) -> Option<ClassUser> {
        let mut members = self.members.lock();
        if members.is_over {
            return None;
        }
        members.users += 1;
        if members.users == 1 {
            members.pools.iter().for_each(|pool| pool.open());
        }
        Some(ClassUser(Arc::clone(self)))
    }

    /// It may have been opened again: whoever was reserved before is asked for. Owed with no lock held.
    pub(crate) fn attend(&self) {
        let pools = self.members.lock().pools.clone();
        pools.iter().for_each(|pool| pool.attend());
    }

    fn let_go(&self) {
        let mut members = self.members.lock();
        members.users -= 1;
        let closing = if members.users == 0 { members.pools.clone() } else { Vec::new() };
        let leaving: Vec<_> = closing.iter().flat_map(|pool| pool.send_idle_away()).collect();
        let pools = members.end();
        drop(members);
        leaving.iter().for_each(|worker| worker.unpark());
        drop((closing, pools));
    }

    /// Keeps its pools in memory.
    pub(crate) fn keep(self: &Arc<Self>) -> KeptClass {
        self.members.lock().keepers += 1;
        KeptClass(Arc::clone(self))
    }
}

impl Members {
    /// What is to be dropped, if that was the last one.
    fn end(&mut self) -> Vec<Arc<Pool>> {
        self.is_over = self.users + self.keepers == 0;
        if self.is_over { std::mem::take(&mut self.pools) } else { Vec::new() }
    }
}

impl KeptClass {
    /// Is it this one?
    pub(crate) fn is(&self, class: &Arc<Class>) -> bool {
        Arc::ptr_eq(&self.0, class)
    }

    /// Opens its pools, if they were closed. The caller owes the class an [`attend`](Class::attend).
    pub(crate) fn open(&self) -> ClassUser {
        self.0.open().expect("a class has not ended as long as it is kept")
    }

    /// Is it one of its pools?
    pub(crate) fn has(&self, pool: &Pool) -> bool {
        self.0.members.lock().pools.iter().any(|own| std::ptr::eq(&**own, pool))
    }
}

impl Drop for KeptClass {
    fn drop(&mut self) {
        let mut members = self.0.members.lock();
        members.keepers -= 1;
        let pools = members.end();
        drop(members);
        drop(pools);
    }
}

impl ClassUser {
    pub(crate) fn class(&self) -> &Arc<Class> {
        &self.0
    }

    /// The pool of a pod; it stays open as long as this does.
    pub(crate) fn pool(&self, pod: PodId) -> Arc<Pool> {
        self.0.pool(pod).expect("a class has not ended as long as it has a user")
    }
}

impl Drop for ClassUser {
    fn drop(&mut self) {
        self.0.let_go();
    }
}
