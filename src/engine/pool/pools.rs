//! The register of the pools and classes of one executor.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::policy::locks::Rank;
use crate::sys::sync::{AtomicUsize, Mutex, Ordering};

use crate::engine::executor::core::Core;

use super::class::{Class, ClassKey, ClassUser};
use super::worker_pool::Pool;

/// The register of the pools and classes of one executor.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) core: Arc<Core>, // I
    /// A thread that takes both the register's lock and the lock of a class takes the register's lock first.
    register: Mutex<Register>, // P
    /// The number of the next unbound pool. Per-CPU pools have lower numbers.
    next_unbound_id: AtomicUsize, // A
}

#[derive(Debug, Default)]
struct Register {
    all: Vec<Weak<Pool>>,
    classes: HashMap<ClassKey, Weak<Class>>,
}

impl Pools {
    /// Makes an empty register. `first_unbound_id` equals the count of per-CPU pools, because these pools have the
    /// lowest numbers.
    pub(crate) fn new(core: Arc<Core>, first_unbound_id: usize) -> Self {
        let next_unbound_id = AtomicUsize::new(first_unbound_id);
        Self { core, register: Mutex::ranked(Rank::Pools, Register::default()), next_unbound_id }
    }

    /// Adds a new pool to the register. Another thread may have added the same pool already.
    pub(crate) fn add(&self, pool: &Arc<Pool>) {
        let mut register = self.register.lock();
        register
            .all
            .retain(|known| known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), &raw const **pool));
        register.all.push(Arc::downgrade(pool));
    }

    /// Returns the pools that exist at the moment.
    pub(crate) fn all(&self) -> Vec<Arc<Pool>> {
        self.register.lock().all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns a user of the class with this key. If there is no such class, makes the class with `make`. The caller
    /// then releases all its locks, and calls [`attend`](Class::attend) on the class.
    pub(crate) fn class(&self, key: ClassKey, make: impl FnOnce(ClassKey) -> Class) -> ClassUser {
        let mut register = self.register.lock();
        let known = register.classes.get(&key).and_then(Weak::upgrade);
        if let Some(user) = known.and_then(|class| class.open()) {
            return user;
        }
        register.classes.retain(|_, class| class.strong_count() > 0);
        let class = Arc::new(make(key.clone()));
        register.classes.insert(key, Arc::downgrade(&class));
        class.open().expect("no other thread knows the class yet, so it has not ended")
    }

    /// Returns a number for a new unbound pool.
    pub(crate) fn next_unbound_id(&self) -> usize {
        self.next_unbound_id.fetch_add(1, Ordering::Relaxed)
    }
}
