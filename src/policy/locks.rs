//! In which order a thread takes locks, so that no threads wait for each other's locks for ever.

#![forbid(unsafe_code)]

/// The place of a lock in the order. A thread that holds a lock takes only locks of higher ranks. The letters are those
/// of the legend in `engine`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// `W`: the register of waits, which debug builds keep.
    Waits,
    /// `M`: the shards, requested settings and attributes of a queue.
    Making,
    /// `R`: what a plugged route holds back.
    Route,
    /// `P`: the pools and classes of an executor.
    Pools,
    /// `C`: the pools of a class, and who uses it.
    Class,
    /// `S`: the state of a pool.
    Pool,
    /// `F`: the flushes of a queue.
    Flushes,
    /// `L`: the slow-path state of a reusable item.
    SlowState,
    /// All others: inside of them, a thread takes no lock.
    Last,
}

impl Rank {
    /// Returns whether a thread that holds a lock of the rank `held` may take one of this rank.
    #[cfg_attr(not(debug_assertions), allow(dead_code, reason = "debug builds check the order"))]
    pub(crate) fn may_follow(self, held: Self) -> bool {
        held < self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lock_is_taken_inside_of_one_of_its_own_rank_or_of_a_later_one() {
        assert!(Rank::Pool.may_follow(Rank::Class) && Rank::Last.may_follow(Rank::SlowState));
        assert!(!Rank::Class.may_follow(Rank::Pool) && !Rank::Pool.may_follow(Rank::Pool));
        assert!(!Rank::Last.may_follow(Rank::Last));
    }
}
