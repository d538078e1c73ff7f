//! The number of times that the runs took each path.

#![forbid(unsafe_code)]

/// The number of times that the runs took each path. The runs must also take the rare paths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) flushes: usize,
    /// Flushes that began while another flush waited.
    pub(super) overlapping: usize,
    pub(super) tickets: usize,
    pub(super) waiting_items: usize,
    pub(super) abandoned: usize,
    /// Items that arrived while a thread was about to end the flushes' count of items.
    pub(super) late_ends: usize,
    /// Reusable items that got their former place in the list again.
    pub(super) revived: usize,
    /// Reusable items that did not get their former place, because a flush was waiting.
    pub(super) moved: usize,
    /// Cases in which two entries of one item on a list were popped in another order than they were pushed.
    pub(super) swapped: usize,
    /// Items that were held until earlier items had arrived.
    pub(super) held: usize,
}

impl Seen {
    pub(super) fn add(&mut self, other: &Self) {
        self.flushes += other.flushes;
        self.overlapping += other.overlapping;
        self.tickets += other.tickets;
        self.waiting_items += other.waiting_items;
        self.abandoned += other.abandoned;
        self.late_ends += other.late_ends;
        self.revived += other.revived;
        self.moved += other.moved;
        self.swapped += other.swapped;
        self.held += other.held;
    }

    pub(super) fn assert_complete(&self) {
        let Self { flushes, overlapping, tickets, waiting_items, abandoned, late_ends, .. } = *self;
        let Self { revived, moved, swapped, held, .. } = *self;
        let all = [
            flushes,
            overlapping,
            tickets,
            waiting_items,
            abandoned,
            late_ends,
            revived,
            moved,
            swapped,
            held,
        ];
        assert!(all.iter().all(|n| *n > 100), "{self:?}");
    }
}
