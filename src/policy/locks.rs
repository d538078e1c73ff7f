//! Decides the order in which a thread takes locks, so that threads never wait for each other's locks for ever.

#![forbid(unsafe_code)]

/// The place of a lock in the order. A thread that holds a lock takes only locks of higher ranks. The letters are the
/// lock letters that the documentation of `engine` explains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// `W`: the register of waits, which debug builds keep.
    Waits,
    /// `M`: the shards, requested settings and attributes of a queue.
    Making,
    /// `R`: the plug of a route, which holds entries back.
    Route,
    /// `U`: the per-CPU pools of an executor.
    PerCpuPools,
    /// `P`: the pools and classes of an executor.
    Pools,
    /// `C`: the pools of a class, and the number of the class's users.
    Class,
    /// `S`: the state of a pool.
    Pool,
    /// `F`: the flushes of a queue.
    Flushes,
    /// `L`: the slow-path state of a reusable item.
    SlowState,
    /// All other locks. A thread that holds one of these locks takes no other lock.
    Last,
}

impl Rank {
    /// Returns whether a thread that holds a lock of the rank `held` may take a lock of this rank.
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
