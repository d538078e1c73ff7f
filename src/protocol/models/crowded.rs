//! Models of [`CrowdedCell`](crate::protocol::crowded::CrowdedCell). A worker keeps entries on its local list.
//! Meanwhile another worker leaves the count of running workers, or the manager stops watching the pool or begins to
//! check the pool rarely.
//!
//! In the models, a local list is a count of entries. The list's owner stores this count without a read-modify-write.
//!
//! Red under: `kept-without-fence`, `rare-after-the-look`, `thief-hides-a-crowd`.

use std::sync::Arc;

use loom::thread;

use super::{check, check_all};
use crate::policy::concurrency::{Kick, Running};
use crate::protocol::crowded::CrowdedCell;
use crate::protocol::running::RunningCell;
use crate::sys::sync::{AtomicU64, Ordering};

struct Pool {
    running: RunningCell,
    crowded: CrowdedCell,
    list: AtomicU64,
}

impl Pool {
    /// Makes a pool with this running word.
    fn new(word: Running) -> Arc<Self> {
        Arc::new(Self {
            running: RunningCell::new(word),
            crowded: CrowdedCell::new(),
            list: AtomicU64::new(0),
        })
    }

    /// Puts this many entries on the list of worker 0.
    fn keep(&self, entries: u64) -> Kick {
        self.list.store(entries, Ordering::Release);
        let is_crowd = entries > 1;
        if is_crowd {
            self.crowded.name(0);
        }
        let kick = self.running.kept(is_crowd);
        let is_named_again = is_crowd && self.crowded.name_if_none(0);
        let second = if is_named_again { self.running.kept(true) } else { Kick::Enough };
        if matches!(kick, Kick::Wake(_)) || second == Kick::Enough { kick } else { second }
    }

    fn is_crowd(&self) -> bool {
        self.list.load(Ordering::Acquire) > 1
    }

    /// Removes the name of worker 0 from the cell, if this worker has at most one entry.
    fn unname_short(&self) -> Kick {
        let is_named_again = !self.is_crowd() && self.crowded.unname_short(0, || self.is_crowd());
        if is_named_again { self.running.kept(true) } else { Kick::Enough }
    }
}

/// spec: C5.1
#[test]
fn a_worker_leaves_while_another_worker_keeps_entries() {
    check_all(|| {
        let pool = Pool::new(Running::managed(2).unwatchable());
        for _ in 0..2 {
            pool.running.come_back();
        }
        let owner = {
            let pool = pool.clone();
            thread::spawn(move || matches!(pool.keep(2), Kick::Wake(_)))
        };
        pool.running.leave();
        let other = matches!(pool.running.look(|| pool.crowded.named().is_some()), Kick::Wake(_));
        let owner = owner.join().unwrap();
        assert!(owner || other, "a CPU is free, and no worker was woken for the entries");
    });
}

/// A worker has one entry. The cell still names this worker, because the worker had several entries. A thief, which is
/// a worker that steals entries, removes the name while the named worker adds a second entry.
///
/// spec: C5.1
#[test]
fn a_thief_removes_the_name_while_the_worker_keeps_a_second_entry() {
    check_all(|| {
        let pool = Pool::new(Running::managed(2).unwatchable());
        for _ in 0..2 {
            pool.running.come_back();
        }
        pool.list.store(1, Ordering::Release);
        pool.crowded.name(0);
        let owner = {
            let pool = pool.clone();
            thread::spawn(move || pool.keep(2))
        };
        let _kick = pool.unname_short();
        let _kick = owner.join().unwrap();
        assert_eq!(pool.crowded.named(), Some(0), "no thread finds the entries");
    });
}

/// A worker adds a second entry while a thief removes the worker's name and a third worker leaves the count. At least
/// one of these three workers wakes another worker for the entries.
///
/// spec: C5.1
#[test]
fn a_thief_removes_the_name_while_another_worker_leaves() {
    check(3, || {
        let pool = Pool::new(Running::managed(3).unwatchable());
        for _ in 0..3 {
            pool.running.come_back();
        }
        pool.list.store(1, Ordering::Release);
        pool.crowded.name(0);
        let wakes = |kick: Kick| matches!(kick, Kick::Wake(_));
        let owner = {
            let pool = pool.clone();
            thread::spawn(move || wakes(pool.keep(2)))
        };
        let thief = {
            let pool = pool.clone();
            thread::spawn(move || wakes(pool.unname_short()))
        };
        pool.running.leave();
        let other = wakes(pool.running.look(|| pool.crowded.named().is_some()));
        let (owner, thief) = (owner.join().unwrap(), thief.join().unwrap());
        assert!(owner || thief || other, "a CPU is free, and no worker was woken for the entries");
    });
}

/// A worker puts an entry on its local list while the manager calls `manage` and then reads the list. Either the
/// manager finds the entry, or the worker tells the manager of the entry.
fn an_entry_is_kept_while(manage: fn(&RunningCell)) {
    check_all(move || {
        let pool = Pool::new(Running::managed(2));
        pool.running.come_back();
        assert!(pool.running.watch());
        let owner = {
            let pool = pool.clone();
            thread::spawn(move || matches!(pool.keep(1), Kick::Watch))
        };
        manage(&pool.running);
        let found = pool.list.load(Ordering::Acquire) > 0;
        let told = owner.join().unwrap();
        assert!(told || found, "the manager does not know of the entry");
    });
}

/// spec: F8.6 (the time for which a local item waits)
#[test]
fn the_manager_stops_watching_while_a_worker_keeps_an_entry() {
    an_entry_is_kept_while(|running| {
        running.unwatch();
        _ = running.look(|| false);
    });
}

/// spec: S1.10, F8.6 (the time for which a local item waits)
#[test]
fn the_manager_checks_rarely_while_a_worker_keeps_an_entry() {
    an_entry_is_kept_while(RunningCell::check_rarely);
}

/// A worker that was woken starts while the manager begins to check the pool rarely. In the model, the worker's phase
/// is a flag, which the worker sets before it starts.
///
/// spec: S1.10
#[test]
fn the_manager_checks_rarely_while_a_worker_starts() {
    check_all(|| {
        let pool = Pool::new(Running::managed(2));
        assert!(pool.running.watch());
        let Kick::Wake(reserved) = pool.running.pushed() else { panic!("the pool is empty") };
        let worker = {
            let pool = pool.clone();
            thread::spawn(move || {
                pool.list.store(1, Ordering::Release);
                assert!(pool.running.start(reserved));
                pool.running.load().is_rarely_checked() && pool.running.check_often()
            })
        };
        pool.running.check_rarely();
        let found = pool.list.load(Ordering::Acquire) > 0;
        let told = worker.join().unwrap();
        assert!(told || found, "the manager checks rarely, and does not know of the worker");
    });
}
