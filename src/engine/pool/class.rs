//! The unbound pools of one set of attributes. A class has one pool for each pod (a group of CPUs). Each pool is made
//! when a thread first uses it.
//!
//! Items of a strict queue stay in their pod. In a managed class of queues that are not strict, *items* move: a pool
//! with surplus items offers them to a sibling that has room ([`Exchange`]). The threads of a class whose items move
//! stay in their pods, because moving a thread costs the system milliseconds. An unmanaged class starts each item
//! immediately, so no item waits in a pod. In an unmanaged class, *threads* move: the system may run them on any CPU of
//! the class.
//!
//! The pools of a class are open as long as the class has *users*. The pools stay in memory as long as the class has
//! users or *keepers*, because a class that has keepers can get users again. Until a class ends, no other class has the
//! same key. Pools whose items move have strong references to their class. The class has weak references to its pools.
//! The class also has a list of strong references to its pools, which is emptied when the class ends.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_utils::CachePadded;

use crate::policy::attrs::{Moves, PoolAttrs};
use crate::policy::concurrency::PodId;
use crate::policy::cpu_set::CpuSet;
use crate::policy::locks::Rank;
use crate::policy::neighbours::{NearestPods, Neighbours};
use crate::policy::pods::Pods;
use crate::policy::topology::Topology;
use crate::protocol::exchange::{Exchange, Helpers};
use crate::sys::sync::Mutex;

use crate::engine::executor::placement::Placement;

use super::pools::Pools;
use super::spec::{PoolKind, PoolSpec};
use super::worker_pool::Pool;

/// The key by which a class is found. Attributes that lead to the same key share a class.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClassKey {
    managed: bool,
    moves: Moves,
    nice: i32,
    pods: Vec<CpuSet>,
    /// Whether there is one more pod, which has the CPUs of all pods. The pod of all CPUs serves issuers on a CPU that
    /// belongs to no other pod.
    outside: bool,
}

/// The unbound pools of one set of attributes.
#[derive(Debug)]
pub(crate) struct Class {
    key: ClassKey, // I
    /// The register of the executor's pools, which includes the pools of this class.
    registered: Arc<Pools>, // I
    pods: Vec<Pod>, // I
    /// The CPUs of all pods, numbered as in the topology.
    cpus: CpuSet, // I
    pub(crate) exchange: Exchange, // A
    /// The pools of the class, indexed by pod. Each pool is made when a thread first uses it. Every pool in this field
    /// is registered, so a shutdown and a new manager find each pool to which threads may push.
    pools: Box<[OnceLock<Weak<Pool>>]>, // A
    members: Mutex<Members>, // C
}

/// The CPUs of a pod.
#[derive(Clone, Debug)]
struct Pod {
    /// The pod's CPUs, numbered as in the topology.
    cpus: CpuSet,
    /// The pod's CPUs, numbered as in the operating system.
    real: CpuSet,
    /// The CPUs that the workers of the pod's pool may run on, numbered as in the topology.
    reach: CpuSet,
}

#[derive(Debug)]
struct Members {
    /// The number of users. While the class has no users, its pools are closed.
    users: usize,
    keepers: usize,
    /// Whether the class has ended, because it has neither users nor keepers any more.
    is_over: bool,
    /// The pools of the class that were made. The thread that made a pool may not have registered the pool yet.
    pools: BTreeMap<PodId, Arc<Pool>>,
}

/// Keeps the pools of a class in memory, but not open.
#[derive(Debug)]
pub(crate) struct KeptClass(Arc<Class>);

/// Keeps the pools of a class open. The pools are closed when the last user of the class is dropped.
#[derive(Debug)]
pub(crate) struct ClassUser(Arc<Class>);

/// The place of a pool in a class whose items move.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) class: Arc<Class>,
    pub(crate) pod: PodId,
    /// Threads of all pods change this number, so it has a cache line of its own.
    pub(crate) helpers: CachePadded<Helpers>,
}

/// The way in which a queue's attributes divide the CPUs into pods, and the class that has these pods.
#[derive(Debug)]
pub(crate) struct Division {
    attrs: PoolAttrs,
    pods: Pods,
    /// The nearest pods of each CPU that belongs to no pod, if there is no pod of all CPUs.
    nearest: NearestPods,
    key: ClassKey,
    /// The class that the last call of `user` found.
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
        let nearest = if key.outside { NearestPods::default() } else { NearestPods::derive(topology, &pods) };
        Self { attrs: attrs.clone(), pods, nearest, key, class: Weak::new() }
    }

    pub(crate) fn is_of(&self, attrs: &PoolAttrs) -> bool {
        self.attrs == *attrs
    }

    /// Returns the pod for items that are queued on `cpu`. A CPU that belongs to a pod leads to that pod. Any other
    /// CPU leads to the pod of all CPUs or, if there is no such pod, to one of the nearest pods.
    pub(crate) fn pod_for(&self, cpu: usize) -> PodId {
        let pod = match self.pods.pod_of(cpu) {
            Some(own) => own,
            None if self.key.outside => self.pods.pods().len(),
            None => self.nearest.nearest(cpu),
        };
        pod as PodId
    }

    /// Returns the pool of the pod that has all CPUs. If the division has only one pod, that pod has all CPUs. Returns
    /// `None` if no pod has all CPUs, or if the pool of the pod with all CPUs has not been made.
    pub(crate) fn default_pool(&self) -> Option<Arc<Pool>> {
        let pods = self.pods.pods().len();
        let at = if self.key.outside { pods } else { (pods == 1).then_some(0)? };
        self.class.upgrade()?.pools[at].get()?.upgrade()
    }

    /// Returns a [`ClassUser`] of the class that was found last. If that class has ended, finds another class with
    /// `find`, and returns a `ClassUser` of that class.
    pub(crate) fn user(&mut self, find: impl FnOnce(ClassKey) -> ClassUser) -> ClassUser {
        let known = self.class.upgrade();
        known.and_then(|class| class.open()).unwrap_or_else(|| {
            let user = find(self.key.clone());
            self.class = Arc::downgrade(user.class());
            user
        })
    }
}

/// The pool to which a shard's items go.
#[derive(Debug)]
pub(crate) struct PoolChoice {
    pub(crate) pool: Arc<Pool>,
    /// Keeps the pool open if the pool is unbound. `None` if the pool is not unbound.
    pub(crate) user: Option<ClassUser>,
}

impl PoolChoice {
    /// Returns the class of the pool if the pool is unbound. The caller calls [`attend`](Class::attend) on the class.
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
        let all = key.pods.iter().fold(CpuSet::new(), |all, pod| all.union(pod));
        let pod = |cpus: CpuSet| {
            let real = placement.real(&cpus);
            let reach = if key.moves == Moves::Threads { all.clone() } else { cpus.clone() };
            Pod { cpus, real, reach }
        };
        let outside = key.outside.then(|| all.clone());
        let pods: Vec<_> = key.pods.iter().cloned().chain(outside).map(pod).collect();
        let sharing = if key.moves == Moves::Items { &*key.pods } else { &[] };
        Self {
            exchange: Exchange::new(Neighbours::derive(topology, sharing), sharing.len()),
            pools: pods.iter().map(|_| OnceLock::new()).collect(),
            pods,
            cpus: all,
            members: Mutex::ranked(
                Rank::Class,
                Members { users: 0, keepers: 0, is_over: false, pools: BTreeMap::new() },
            ),
            key,
            registered,
        }
    }

    /// Returns the pool of a pod, and makes the pool if it does not exist. Returns `None` if the class has ended.
    #[inline]
    pub(crate) fn pool(self: &Arc<Self>, pod: PodId) -> Option<Arc<Pool>> {
        match self.pools[pod as usize].get() {
            Some(pool) => pool.upgrade(),
            None => self.make_pool(pod),
        }
    }

    /// Makes the pool of a pod, registers it, and then lets other threads find it. If another thread has made the pool
    /// and not registered it yet, the calling thread registers it, too.
    #[cold]
    fn make_pool(self: &Arc<Self>, pod: PodId) -> Option<Arc<Pool>> {
        let pool = self.member(pod)?;
        // A thread that takes both locks takes the register's lock before the lock of the class. So the pool is
        // registered only after the lock of the class was released.
        self.registered.add(&pool);
        let _set = self.pools[pod as usize].set(Arc::downgrade(&pool));
        let core = &self.registered.core;
        if core.manager.is_stopped() {
            // A shutdown stops the manager, and then closes all registered pools. If the shutdown read the register
            // before this pool was added, the shutdown has not closed this pool.
            pool.close();
        }
        // The CPUs may have changed after the pool was made, and before the manager could find the pool in the
        // register.
        pool.adapt(&core.environment.present());
        Some(pool)
    }

    /// Returns the pool of a pod, which may not be registered yet. Makes the pool if it does not exist. Returns `None`
    /// if the class has ended.
    fn member(self: &Arc<Self>, pod: PodId) -> Option<Arc<Pool>> {
        let mut members = self.members.lock();
        if members.is_over {
            return None;
        }
        if let Some(pool) = members.pools.get(&pod) {
            return Some(Arc::clone(pool));
        }
        let Pod { cpus, real, reach } = self.pods[pod as usize].clone();
        let spec = PoolSpec {
            kind: PoolKind::Unbound { id: self.registered.next_unbound_id() },
            reach,
            of_queue: self.cpus.clone(),
            home: (self.key.moves == Moves::Threads).then_some(real),
            cpus,
            nice: self.key.nice,
            managed: self.key.managed,
        };
        let seat = (self.key.moves == Moves::Items).then(|| Seat {
            class: Arc::clone(self),
            pod,
            helpers: CachePadded::new(Helpers::new()),
        });
        let pool = Pool::new(spec, Arc::clone(&self.registered.core), seat);
        members.pools.insert(pod, Arc::clone(&pool));
        if members.users == 0 {
            // The thread that next opens the class also opens this pool.
            pool.close();
        }
        Some(pool)
    }

    /// Returns a new user of the class, and opens the pools of the class if the new user is the only one. The caller
    /// must then call [`attend`](Self::attend). Returns `None` if the class has ended.
    pub(crate) fn open(self: &Arc<Self>) -> Option<ClassUser> {
        let mut members = self.members.lock();
        if members.is_over {
            return None;
        }
        members.users += 1;
        if members.users == 1 {
            members.pools.values().for_each(|pool| pool.open());
        }
        Some(ClassUser(Arc::clone(self)))
    }

    /// Calls [`attend`](Pool::attend) on all pools of the class, because the class may have been opened again. The
    /// caller holds no lock.
    pub(crate) fn attend(&self) {
        let pools = self.members.lock().pools.clone();
        pools.values().for_each(|pool| pool.attend());
    }

    fn let_go(&self) {
        let mut members = self.members.lock();
        members.users -= 1;
        let closing = if members.users == 0 { members.pools.clone() } else { BTreeMap::new() };
        let leaving: Vec<_> = closing.values().flat_map(|pool| pool.send_idle_away()).collect();
        let pools = members.end();
        drop(members);
        leaving.iter().for_each(|worker| worker.unpark());
        drop((closing, pools));
    }

    /// Returns a keeper, which keeps the pools of the class in memory.
    pub(crate) fn keep(self: &Arc<Self>) -> KeptClass {
        self.members.lock().keepers += 1;
        KeptClass(Arc::clone(self))
    }
}

impl Members {
    /// Ends the class if it has no users and no keepers any more. Returns the pools of an ended class, which the caller
    /// must drop after it has released the lock of the class.
    fn end(&mut self) -> BTreeMap<PodId, Arc<Pool>> {
        self.is_over = self.users + self.keepers == 0;
        if self.is_over { std::mem::take(&mut self.pools) } else { BTreeMap::new() }
    }
}

impl KeptClass {
    /// Returns whether this value keeps the given class.
    pub(crate) fn is(&self, class: &Arc<Class>) -> bool {
        Arc::ptr_eq(&self.0, class)
    }

    /// Opens the pools of the class if they were closed. The caller must then call [`attend`](Class::attend) on the
    /// class.
    pub(crate) fn open(&self) -> ClassUser {
        self.0.open().expect("a class has not ended as long as it is kept")
    }

    /// Returns whether this pool belongs to the class.
    pub(crate) fn has(&self, pool: &Pool) -> bool {
        self.0.members.lock().pools.values().any(|own| std::ptr::eq(&**own, pool))
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

    /// Returns the pool of a pod. The pool stays open as long as this user exists.
    pub(crate) fn pool(&self, pod: PodId) -> Arc<Pool> {
        self.0.pool(pod).expect("a class has not ended as long as it has a user")
    }
}

impl Drop for ClassUser {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

#[cfg(test)]
mod tests {
    use testkit::eventually;

    use super::*;
    use crate::{Executor, TopologySource};

    /// While two threads make the same pool, the test's thread holds the lock of the register. A shutdown abandons the
    /// registered pools, so no thread may push an entry to the new pool before the pool is registered.
    #[test]
    fn a_pool_is_registered_before_other_threads_find_it() {
        let machine = TopologySource::Synthetic("l3:2 core:1 pu:1".into());
        let executor = Executor::builder().topology(machine).build().unwrap();
        let (pools, topology) = (&executor.inner.upkeep.pools, &executor.inner.topology);
        let class_of = |key| Class::new(key, topology, &executor.inner.placement, Arc::clone(pools));
        let key = |nice| ClassKey {
            managed: true,
            moves: Moves::Items,
            nice,
            pods: vec![CpuSet::single(0), CpuSet::single(1)],
            outside: false,
        };
        let user = pools.class(key(0), class_of);
        let (class, own) = (user.class(), user.pool(0));
        std::thread::scope(|scope| {
            let mut makers = None;
            let other = pools.class(key(1), |key| {
                makers = Some([(); 2].map(|()| scope.spawn(|| user.pool(1))));
                eventually("the pool is made", || class.members.lock().pools.contains_key(&1));
                assert!(class.pools[1].get().is_none(), "a thread finds the pool");
                class_of(key)
            });
            let [made, found] = makers.unwrap().map(|maker| maker.join().unwrap());
            assert!(Arc::ptr_eq(&made, &found));
            let expected = [&own, &made].map(Arc::as_ptr);
            assert_eq!(pools.all().iter().map(Arc::as_ptr).collect::<Vec<_>>(), expected);
            drop(other);
        });
    }
}
