//! The counter cells that one thread holds. Each cell belongs to an account, which has the counts of one shard. The
//! thread looks a cell up by the address of the cell's account.
//!
//! The thread's table of cells consists of sets of four places. The address of an account determines the account's set.
//! If this set is full, the thread gives up a cell of a shard that was freed. If the set has no cell of a freed shard,
//! the table grows, up to [`MOST_HELD`] places. A table of [`MOST_HELD`] places does not grow any more. Instead, the
//! thread settles one cell of the set for each new cell: it adds the settled cell's counts to the cell's account. Each
//! time, the thread takes the next of the four positions in a set. So a thread that alternates between a few shards
//! finds each shard's cell with a few loads. A thread that works for too many shards takes two locks for each new cell:
//! the lock of the new cell's account, and the lock of the settled cell's account.

use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use crate::protocol::counters::CounterCell;

use crate::engine::worker::shared::Worker;

use super::Account;

/// A thread holds at most this many cells.
pub(super) const MOST_HELD: usize = 256;
/// The number of places in a set.
const SET: usize = 4;

/// Identifies an account by its address. No other account gets that address as long as any thread holds a cell of this
/// account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AccountId(NonNull<Account>);

/// See the module.
#[derive(Debug)]
pub(super) struct Held {
    worker: Arc<Worker>,
    /// The table of cells. It is empty, or its number of sets is a power of two.
    places: Box<[Option<Holding>]>,
    /// The place that was last reused in a full set, as a position within this set.
    turn: usize,
}

#[derive(Debug)]
struct Holding {
    /// The cell's account. The pointer cannot be upgraded any more once the shard is freed.
    account: Weak<Account>,
    cell: Arc<CounterCell>,
}

impl AccountId {
    #[inline]
    pub(super) fn of(account: &Arc<Account>) -> Self {
        Self(NonNull::from(&**account))
    }

    fn of_held(held: &Holding) -> Self {
        let account = NonNull::new(held.account.as_ptr().cast_mut());
        Self(account.expect("a cell was opened for an account"))
    }

    /// Returns the index at which the account's set begins in a table of this many places. When the table doubles, the
    /// cells of set n go to the sets 2n and 2n + 1.
    #[inline]
    fn set(self, places: usize) -> usize {
        // All bits of the address are mixed, because the addresses that an allocator returns may have any pattern.
        let mixed = (self.0.addr().get() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let sets = (places / SET) as u64;
        ((u128::from(hash) * u128::from(sets)) >> 64) as usize * SET
    }
}

impl Held {
    pub(super) fn new(worker: Arc<Worker>) -> Self {
        Self { worker, places: Box::default(), turn: 0 }
    }

    /// Returns the thread's cell of an account, if the thread holds a cell of that account.
    #[inline]
    pub(super) fn find(&self, id: AccountId) -> Option<&Arc<CounterCell>> {
        let set = id.set(self.places.len());
        let held = self.places.get(set..set + SET)?.iter().flatten();
        held.into_iter().find(|held| held.account.as_ptr() == id.0.as_ptr()).map(|held| &held.cell)
    }

    /// Opens a cell for an account. The thread holds no cell of this account yet.
    #[cold]
    pub(super) fn open(&mut self, account: &Arc<Account>) -> &Arc<CounterCell> {
        let cell = Arc::new(CounterCell::new());
        account.open(Arc::clone(&cell), Arc::clone(&self.worker));
        let place = self.place_for(AccountId::of(account));
        if let Some(former) = self.places[place].take() {
            former.settle();
        }
        &self.places[place].insert(Holding { account: Arc::downgrade(account), cell }).cell
    }

    /// Finds a place for a new cell of this account. The place may still contain another cell, which the caller
    /// settles.
    fn place_for(&mut self, id: AccountId) -> usize {
        loop {
            let set = id.set(self.places.len());
            let places = self.places.get(set..set + SET).unwrap_or_default();
            if let Some(free) = places.iter().position(|held| held.as_ref().is_none_or(Holding::is_over)) {
                return set + free;
            }
            if self.places.len() == MOST_HELD {
                self.turn = (self.turn + 1) % SET;
                return set + self.turn;
            }
            self.grow();
        }
    }

    /// Doubles the table, and gives up the cells of shards that were freed.
    fn grow(&mut self) {
        let places = (2 * self.places.len()).max(SET);
        let former = std::mem::replace(&mut self.places, (0..places).map(|_| None).collect());
        for held in former.into_iter().flatten().filter(|held| !held.is_over()) {
            // The new set has a free place, because all its cells come from one former set.
            let place = self.place_for(AccountId::of_held(&held));
            self.places[place] = Some(held);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        std::mem::take(&mut self.places).into_iter().flatten().for_each(Holding::settle);
    }
}

impl Holding {
    fn is_over(&self) -> bool {
        self.account.strong_count() == 0
    }

    /// Adds the cell's counts to the account, unless the shard was freed.
    fn settle(self) {
        if let Some(account) = self.account.upgrade() {
            account.settle(&self.cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_deque::Worker as List;

    use crate::policy::idle_set::WorkerId;
    use crate::policy::worker::Phase;
    use crate::protocol::counters::Start;

    fn held() -> Held {
        Held::new(Arc::new(Worker::new(WorkerId::MAX, Phase::Between, List::new_fifo().stealer())))
    }

    fn accounts(count: usize) -> Vec<Arc<Account>> {
        (0..count).map(|_| Arc::new(Account::new())).collect()
    }

    /// Begins and ends an item of each account.
    fn work(held: &mut Held, accounts: &[Arc<Account>]) {
        for account in accounts {
            let known = held.find(AccountId::of(account)).cloned();
            let cell = known.unwrap_or_else(|| Arc::clone(held.open(account)));
            cell.start(Start::Home);
            cell.complete();
        }
    }

    fn counted(account: &Account) -> (u64, u64) {
        let mut owners = 0;
        let total = account.total(|_| owners += 1);
        assert_eq!(owners, 0, "no item is in flight");
        (total.started, total.completed)
    }

    /// spec: O1.11 (counters' memory): a thread that alternates between a few shards keeps at least half of their
    /// cells. The number of cells that the thread keeps depends on the accounts' addresses.
    #[test]
    fn a_thread_keeps_half_of_the_cells_of_a_few_shards() {
        let (mut held, accounts) = (held(), accounts(MOST_HELD / 4));
        for _ in 0..2 {
            work(&mut held, &accounts);
        }
        let twice = |account: &&Arc<Account>| {
            held.find(AccountId::of(account)).is_some_and(|cell| cell.started() == 2)
        };
        let kept = accounts.iter().filter(twice).count();
        assert!(kept >= accounts.len() / 2, "{kept} of {}", accounts.len());
    }

    /// spec: O1.11 (counters' memory, nothing is lost): a thread that works for many shards settles some cells while it
    /// works, and the remaining cells when it ends.
    #[test]
    fn no_count_is_lost_when_a_thread_works_for_many_shards() {
        let (mut held, accounts) = (held(), accounts(10 * MOST_HELD));
        for _ in 0..3 {
            work(&mut held, &accounts);
            assert_eq!(held.places.len(), MOST_HELD);
        }
        assert!(accounts.iter().all(|account| counted(account) == (3, 3)));
        drop(held);
        assert!(accounts.iter().all(|account| counted(account) == (3, 3)));
    }

    /// spec: O1.11 (counters' memory): the cells of shards that were freed make room for other cells. The table does
    /// not grow if the number of shards never exceeds the number of places in a set. This holds for any addresses of
    /// the accounts.
    #[test]
    fn cells_of_freed_shards_take_no_room() {
        let mut held = held();
        for _ in 0..1000 {
            work(&mut held, &accounts(SET));
        }
        assert_eq!(held.places.len(), SET);
    }

    /// spec: O1.3 (nothing is inherited): a thread's counts for a shard that was freed do not appear in another shard's
    /// account.
    #[test]
    fn counts_for_a_freed_shard_are_in_no_account() {
        let (mut held, mut accounts) = (held(), accounts(1));
        let late = Arc::clone(held.open(&accounts[0]));
        let id = AccountId::of(&accounts.remove(0));
        late.start(Start::Home);
        late.complete();
        assert!(held.find(id).is_some(), "no other account has its address meanwhile");
        let other = Arc::new(Account::new());
        assert_ne!(AccountId::of(&other), id);
        assert_eq!(counted(&other), (0, 0));
        drop(held);
        assert_eq!(late.load().completed, 1);
    }
}
