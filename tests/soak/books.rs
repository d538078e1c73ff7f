//! The accounts of a round: accepted submissions, and their outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// The counts of a round.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) run: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    /// Accepted submissions that the end of a queue or executor gave back.
    pub(crate) returned: AtomicU64,
    /// The largest number of accepted submissions that the ends of queues may have given up without counting them. Such
    /// an item was just being queued, or its timer was just firing.
    pub(crate) unsure: AtomicU64,
    pub(crate) panicked: AtomicU64,
    /// Runs of periodic items. They are not submissions, so the balance ignores them.
    pub(crate) ticks: AtomicU64,
    /// The number of existing closures of items.
    pub(crate) tickets: AtomicU64,
    /// The number of existing reusable items. When an item is freed, no list contains it, and no thread waits for it.
    pub(crate) works: AtomicU64,
    /// Runs that overlapped although they must not.
    pub(crate) overlaps: AtomicU64,
    /// Calls that gave a wrong answer.
    pub(crate) wrong: AtomicU64,
}

impl Books {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, SeqCst);
    }

    /// Returns the number of accepted submissions that still have no outcome.
    pub(crate) fn outstanding(&self) -> i64 {
        let [accepted, run, cancelled, returned] =
            [&self.accepted, &self.run, &self.cancelled, &self.returned].map(|count| count.load(SeqCst));
        accepted as i64 - run as i64 - cancelled as i64 - returned as i64
    }

    pub(crate) fn balance(&self) -> bool {
        (0..=self.unsure.load(SeqCst) as i64).contains(&self.outstanding()) && self.tickets.load(SeqCst) == 0
    }

    /// Returns the number of submissions that were given up without being counted. Valid only when the round is over.
    pub(crate) fn uncounted(&self) -> u64 {
        self.outstanding().max(0) as u64
    }

    /// Returns an error if a count is wrong.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        let (overlaps, wrong) = (self.overlaps.load(SeqCst), self.wrong.load(SeqCst));
        if self.balance() && overlaps == 0 && wrong == 0 {
            return Ok(());
        }
        Err(format!(
            "accepted {} = run {} + cancelled {} + returned {} does not hold ({} outstanding), or {} closures are \
             left, {overlaps} runs overlapped, {wrong} answers were wrong; {} may be uncounted",
            self.accepted.load(SeqCst),
            self.run.load(SeqCst),
            self.cancelled.load(SeqCst),
            self.returned.load(SeqCst),
            self.outstanding(),
            self.tickets.load(SeqCst),
            self.unsure.load(SeqCst),
        ))
    }
}

/// A part of each one-shot's closure. The books count the ticket while it exists, and count the run.
pub(crate) struct Ticket {
    books: Arc<Books>,
    used: bool,
}

impl Ticket {
    pub(crate) fn new(books: &Arc<Books>) -> Self {
        Books::add(&books.tickets);
        Self { books: Arc::clone(books), used: false }
    }

    /// Records that the item runs.
    pub(crate) fn run(&mut self) {
        if self.used {
            Books::add(&self.books.overlaps);
        }
        self.used = true;
        Books::add(&self.books.run);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.books.tickets.fetch_sub(1, SeqCst);
    }
}

/// A part of each reusable item. The books count the item while it exists.
pub(crate) struct Exists(Arc<Books>);

impl Exists {
    pub(crate) fn new(books: &Arc<Books>) -> Self {
        Books::add(&books.works);
        Self(Arc::clone(books))
    }
}

impl Drop for Exists {
    fn drop(&mut self) {
        self.0.works.fetch_sub(1, SeqCst);
    }
}

/// A section that at most one run may be in at a time. Other entries count as overlaps.
#[derive(Default)]
pub(crate) struct Cell(AtomicBool);

/// Marks a run as inside of a cell.
pub(crate) struct Inside<'a>(&'a Cell);

impl Cell {
    pub(crate) fn enter(&self, books: &Books) -> Inside<'_> {
        if self.0.swap(true, SeqCst) {
            Books::add(&books.overlaps);
        }
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, SeqCst);
    }
}
