//! The target of a submission: the shard, and the facts that are known about the item's entries on the shard's lists.

#![forbid(unsafe_code)]

/// The id of a shard. No other shard that exists has the same id. An item uses the id only while an entry of the item
/// lies on the shard's lists. The entry keeps the shard in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ShardId(pub(super) u64);

impl ShardId {
    /// The highest id. The id has 26 bits, and 2^26 shards would take more than 100 GiB. So no shard has the highest
    /// id.
    pub(crate) const MAX: u64 = (1 << 26) - 1;

    /// An id that stands for no shard.
    pub(crate) const UNKNOWN: Self = Self(Self::MAX);

    pub(crate) const fn new(id: u64) -> Self {
        assert!(id <= Self::MAX, "too many shards for the 26 bits of an item's word");
        Self(id)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shard that an item is queued to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) shard: ShardId,
    /// Whether the entries of the shard's queue begin in the order in which they were pushed.
    pub(crate) ordered: bool,
    /// Whether a submission may reuse a cancelled entry on the shard's lists. The value is false for an ordered queue,
    /// and while a flush of the queue waits.
    pub(crate) revives: bool,
}

/// The facts that the slow-path state knows about an item's entries on the lists of one shard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Known {
    /// Whether the slow-path state names the shard. If that state names the shard, a cancelled entry lies on the
    /// shard's lists. The entry at home (if there is one) is a further entry.
    pub(crate) named: bool,
    /// Whether the entry in question has the same ticket as the entry at home. The entry in question was popped, or is
    /// about to be pushed. The value is false if the queue is ordered, or if the slow-path state does not know the
    /// home entry's ticket.
    pub(crate) alike: bool,
}
