//! The operations of drivers: one table, to which each group adds its operations.
//!
//! To add an operation, write a function of a [`Driver`] in the file of its group, and add a line to that group's
//! table. The function keeps the books: it counts the submissions that the queue accepted, refused, or gave back.

pub(crate) mod control;
pub(crate) mod one_shots;
pub(crate) mod placed;
pub(crate) mod scopes;
pub(crate) mod things;
pub(crate) mod timers;
pub(crate) mod works;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cmwq::{JoinHandle, PeriodicHandle, Work};

use crate::random::Random;
use crate::world::World;

/// An operation that a user may call at any moment.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// How often drivers call it, relative to other operations.
    pub(crate) weight: usize,
    pub(crate) perform: fn(&mut Driver),
}

/// A thread that performs operations.
pub(crate) struct Driver {
    pub(crate) world: Arc<World>,
    pub(crate) random: Random,
    /// Handles of items that the driver may still wait for.
    pub(crate) handles: VecDeque<JoinHandle<u64>>,
    /// Items that the driver has disabled, and will enable.
    pub(crate) disabled: Vec<Work>,
    pub(crate) periodic: VecDeque<PeriodicHandle>,
}

/// The largest number of handles that a driver keeps. For each further handle, the driver drops the oldest one.
const HANDLES: usize = 32;

/// All operations.
pub(crate) fn table() -> impl Iterator<Item = &'static Operation> {
    [
        one_shots::TABLE,
        works::TABLE,
        timers::TABLE,
        placed::TABLE,
        scopes::TABLE,
        things::TABLE,
        control::TABLE,
    ]
    .into_iter()
    .flatten()
}

/// The number of calls of each operation, in the order of the table.
pub(crate) struct Counts(Vec<AtomicU64>);

impl Counts {
    pub(crate) fn new() -> Self {
        Self(table().map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        table().map(|operation| operation.name).zip(self.0.iter().map(|count| count.load(Relaxed)))
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|count| count.load(Relaxed)).sum()
    }
}

impl Driver {
    pub(crate) fn new(world: Arc<World>, seed: u64) -> Self {
        let (handles, disabled, periodic) = Default::default();
        Self { world, random: Random::new(seed), handles, disabled, periodic }
    }

    /// Keeps a handle, so that the driver can wait for the item later.
    fn keep(&mut self, handle: JoinHandle<u64>) {
        self.handles.push_back(handle);
        if self.handles.len() > HANDLES {
            self.handles.pop_front();
        }
    }

    /// Draws an operation and performs it.
    pub(crate) fn step(&mut self, counts: &Counts) {
        let all: usize = table().map(|operation| operation.weight).sum();
        let mut drawn = self.random.below(all);
        for (operation, count) in table().zip(&counts.0) {
            if drawn < operation.weight {
                (operation.perform)(self);
                count.fetch_add(1, Relaxed);
                return;
            }
            drawn -= operation.weight;
        }
    }
}

impl Drop for Driver {
    /// Enables the items that the driver has disabled, so that other drivers do not find them disabled.
    fn drop(&mut self) {
        while !self.disabled.is_empty() {
            works::enable(self);
        }
    }
}
