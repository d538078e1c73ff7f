//! The pools and classes of one executor.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::policy::locks::Rank;
use crate::sys::sync::{AtomicUsize, Mutex, Ordering};

use crate::engine::executor::core::Core;

use super::class::{Class, ClassKey, ClassUser};
use super::worker_pool::Pool;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) core: Arc<Core>, // I
    /// Lock order: this lock first, then those of classes.
    register: Mutex<Register>, // P
    /// The number of the next unbound pool; per-CPU pools come before.
    next_unbound_id: AtomicUsize, // A
}

#[derive(Debug, Default)]
struct Register {
    all: Vec<Weak<Pool>>,
    classes: HashMap<ClassKey, Weak<Class>>,
}

impl Pools {
    /// `first_unbound_id`: how many per-CPU pools are numbered before the unbound ones.
    pub(crate) fn new(core: Arc<Core>, first_unbound_id: usize) -> Self {
        let next_unbound_id = AtomicUsize::new(first_unbound_id);
        Self { core, register: Mutex::ranked(Rank::Pools, Register::default()), next_unbound_id }
    }

    /// Adds a new pool.
    pub(crate) fn add(&self, pool: &Arc<Pool>) {
        let mut register = self.register.lock();
        register.all.retain(|known| known.strong_count() > 0);
        register.all.push(Arc::downgrade(pool));
    }

    /// The pools that exist at the moment.
    pub(crate) fn all(&self) -> Vec<Arc<Pool>> {
        self.register.lock().all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns a user of the class with this key, and makes the class if there is none. The caller calls
    /// [`attend`](Class::attend) on it, with no lock held.
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
