//! The worklist of a pool. In a managed pool of several CPUs, the worklist has several parts.
//! [`policy::parts`](crate::policy::parts) says what the parts are for, and decides from which part a worker takes
//! entries.
//!
//! A thread that checks whether the worklist is empty looks at one part after the other. So the checking thread may
//! miss an entry that another thread pushes during the check. The entry is not forgotten, because the pushing thread
//! looks at the pool's running word after each push.

use crossbeam_utils::CachePadded;

use crate::policy::parts::{Division, Seen, Stretch, choose};
use crate::sys::sync::{AtomicU64, Ordering};

use crate::engine::item::entry::Entry;
use crate::engine::item::entry_list::EntryList;

/// The worklist of one pool.
#[derive(Debug)]
pub(crate) struct Worklist {
    /// The first part, which each worklist has. This part is stored without a pointer, because most pools have no other
    /// part.
    first: Part, // A
    others: Box<[CachePadded<Part>]>, // I
    division: Division,               // I
}

#[derive(Debug)]
struct Part {
    list: EntryList, // A
    /// The number of times that workers have passed over the part since a worker last chose it. The number is a hint:
    /// if two workers change it at the same time, one change may be lost.
    passed_over: AtomicU64, // A
}

impl Part {
    fn seen(&self) -> Seen {
        Seen { has_entries: !self.list.is_empty(), passed_over: self.passed_over.load(Ordering::Relaxed) }
    }
}

impl Worklist {
    pub(super) fn new(division: Division) -> Self {
        let part = || Part { list: EntryList::new(), passed_over: AtomicU64::new(0) };
        let others = (1..division.parts()).map(|_| CachePadded::new(part())).collect();
        Self { first: part(), others, division }
    }

    /// Returns whether the worklist has only one part.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.division.parts() == 1
    }

    /// Returns the number of the part that belongs to this CPU.
    #[inline]
    pub(crate) const fn part_number(&self, cpu: usize) -> usize {
        self.division.part_of(cpu)
    }

    #[inline]
    fn part_of(&self, cpu: usize) -> &Part {
        self.part(self.part_number(cpu))
    }

    #[inline]
    fn part(&self, part: usize) -> &Part {
        match part {
            0 => &self.first,
            part => &self.others[part - 1],
        }
    }

    fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.first).chain(self.others.iter().map(|part| &**part))
    }

    /// Adds an entry to the end of its part. `cpu` is the CPU of the entry's shard.
    #[inline]
    pub(super) fn push(&self, entry: Entry, cpu: usize) {
        self.part_of(cpu).list.push(entry);
    }

    /// Returns whether the part of this CPU has an entry.
    #[inline]
    pub(crate) fn has_entries_of(&self, cpu: usize) -> bool {
        !self.part_of(cpu).list.is_empty()
    }

    /// Takes the first entry of a part.
    #[inline]
    pub(super) fn take_from(&self, part: usize) -> Option<Entry> {
        self.part(part).list.take()
    }

    /// Takes all entries that the parts have at the time of the call, and passes each entry to `take`. `take` gets the
    /// entries of one part in the order of the part.
    pub(super) fn take_all(&self, mut take: impl FnMut(Entry)) {
        // Entries that are pushed from now on stay on the worklist. So a stream of pushes cannot keep this thread busy.
        for part in self.parts() {
            (0..part.list.len()).map_while(|_| part.list.take()).for_each(&mut take);
        }
    }

    /// Takes an entry for a thread that takes single entries instead of stretches (several entries of one part, one
    /// after the other). The parts of the worklist take turns. Returns `None` only if each part was found empty.
    #[inline]
    pub(super) fn take(&self) -> Option<Entry> {
        if self.is_whole() { self.first.list.take() } else { self.take_in_turn() }
    }

    #[cold]
    fn take_in_turn(&self) -> Option<Entry> {
        loop {
            let entry = self.take_from(self.choose(0, Stretch::default(), 1)?);
            if entry.is_some() {
                return entry;
            }
        }
    }

    /// Chooses, for a worker on this CPU, a part that has entries. Counts each other part that has entries as passed
    /// over. `last` is the worker's last stretch (the entries that it took from one part). `span` is the number of
    /// items that the worker runs in 0.1 ms.
    #[inline(never)]
    pub(crate) fn choose(&self, cpu: usize, last: Stretch, span: u32) -> Option<usize> {
        let own = self.division.part_of(cpu);
        let chosen = choose(own, last, span, self.division.parts(), |part| self.part(part).seen())?;
        self.pass_over_others(chosen);
        let passed_over = &self.part(chosen).passed_over;
        if passed_over.load(Ordering::Relaxed) != 0 {
            passed_over.store(0, Ordering::Relaxed);
        }
        Some(chosen)
    }

    /// Counts each part with entries as passed over, except the chosen part.
    fn pass_over_others(&self, chosen: usize) {
        for (number, Part { list, passed_over }) in self.parts().enumerate() {
            if number != chosen && !list.is_empty() {
                passed_over.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns whether a worker on this CPU runs an heir (the entry that got the slot of its last item) before entries
    /// of the parts. The heir belongs to the part of the CPU `of`. If the heir comes first, counts each other part with
    /// entries as passed over. The count of the heir's part does not change, because the worker takes no entry from
    /// this part. `last` and `span` are as in [`choose`](Self::choose).
    #[inline(never)]
    pub(crate) fn heir_comes_first(&self, cpu: usize, of: usize, last: Stretch, span: u32) -> bool {
        let part_of_heir = self.division.part_of(of);
        let see = |part: usize| {
            let seen = self.part(part).seen();
            Seen { has_entries: seen.has_entries || part == part_of_heir, ..seen }
        };
        let chosen = choose(self.division.part_of(cpu), last, span, self.division.parts(), see);
        let comes_first = chosen == Some(part_of_heir);
        if comes_first {
            self.pass_over_others(part_of_heir);
        }
        comes_first
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.list.is_empty() && self.others.iter().all(|part| part.list.is_empty())
    }

    /// Returns the number of entries. The number is only a hint.
    pub(super) fn len(&self) -> usize {
        self.parts().map(|part| part.list.len()).sum()
    }
}
