//! Computes when the kernel wakes the listener of a ring, and how to make it wake for the right records.
//!
//! The listener must be woken only when a thread gives its CPU away (an *out*), and not when it gets one (an *in*).
//! Otherwise, if both share a CPU, they wake each other for ever:
//!
//! ```text
//! thread:    gets the CPU         (a record, which wakes the listener)
//! listener:  takes the CPU away   (a record)
//! listener:  sleeps
//! thread:    gets the CPU         (a record, which wakes the listener)
//! ```
//!
//! The kernel offers no such choice. But ins and outs alternate, each record has [`RECORD`] bytes, and the kernel wakes
//! when the ring's end is more than the *watermark* behind a *mark*, which then moves on by the watermark. So the
//! watermark says which records wake:
//!
//! * Two records: the third, the fifth, and so on. That is right if the first record is an out, as for a thread that
//!   runs. (For this first record there is another ring, which wakes once, for any record.)
//! * A byte less: the second, the fourth, and so on. That is right if the first record is an in, as for a thread that
//!   sleeps or waits for the listener's own CPU. Each pair of records brings the mark a byte closer to the next in,
//!   which would wake after 55 pairs: half a record, less one. So records are as long as the kernel makes them.
//!
//! A ring that no longer wakes for the outs alone is made anew, by the last record: after an in the thread runs, after
//! an out it does not. If the thread switches in between, the new ring is wrong, too. That is noticed at the next
//! wake-up, because the state of the kernel is computed here from its records.

/// The length of a record of a switch, in bytes.
pub(super) const RECORD: u64 = 56;

/// The kind of a thread's next record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// It gets a CPU: it does not run at the moment.
    In,
    /// It gives its CPU away: it runs.
    Out,
}

impl Next {
    /// The watermark of a ring that begins with this record, in bytes.
    pub(super) fn watermark(self) -> u64 {
        match self {
            Self::In => 2 * RECORD - 1,
            Self::Out => 2 * RECORD,
        }
    }
}

/// The state of a ring since it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parity {
    watermark: u64,
    /// The position of the next write.
    end: u64,
    /// The length of the notes that the kernel writes together with the next record.
    note: u64,
    mark: u64,
    /// `None` before the first record.
    next: Option<Next>,
}

impl Parity {
    /// Of a ring that is expected to begin with this record.
    pub(super) fn new(first: Next) -> Self {
        Self { watermark: first.watermark(), end: 0, note: 0, mark: 0, next: None }
    }

    /// Adds a note that the kernel writes together with the next record.
    pub(super) fn note(&mut self, length: u64) {
        self.note += length;
    }

    /// The kernel wrote a record of a switch, after which `next` comes.
    pub(super) fn wrote(&mut self, next: Next) {
        self.end += self.note + RECORD;
        self.note = 0;
        self.next = Some(next);
        if self.wakes(self.end, self.mark) {
            self.mark += self.watermark;
        }
    }

    /// Returns whether a write that ends at `end` wakes the listener.
    fn wakes(&self, end: u64, mark: u64) -> bool {
        end - mark > self.watermark
    }

    /// Returns whether the next out will wake the listener, and no in before it. Before the first record, the answer is
    /// yes.
    pub(super) fn is_primed(&self) -> bool {
        let wakes = |records: u64| self.wakes(self.end + records * RECORD, self.mark);
        match self.next {
            None => true,
            Some(Next::Out) => wakes(1),
            Some(Next::In) => !wakes(1) && wakes(2),
        }
    }

    /// If the ring has to be made anew now that all its records were read: what it will begin with.
    pub(super) fn remedy(&self) -> Option<Next> {
        self.next.filter(|_| !self.is_primed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates the kernel: returns the ins and outs that wake, in a thread's life from when the ring was made.
    fn woken_by(parity: &mut Parity, life: &str) -> String {
        let mut woken = String::new();
        for record in life.chars() {
            let before = parity.mark;
            parity.wrote(if record == 'i' { Next::Out } else { Next::In });
            if parity.mark != before {
                woken.push(record);
            }
        }
        woken
    }

    /// spec: S1
    #[test]
    fn of_a_ring_that_begins_as_expected_only_outs_wake() {
        let mut parity = Parity::new(Next::Out);
        // Another ring wakes for this one.
        assert_eq!(woken_by(&mut parity, "o"), "");
        for _ in 0..1000 {
            assert_eq!((parity.is_primed(), parity.remedy()), (true, None));
            assert_eq!(woken_by(&mut parity, "i"), "");
            assert_eq!((parity.is_primed(), parity.remedy()), (true, None));
            assert_eq!(woken_by(&mut parity, "o"), "o");
        }
        let mut parity = Parity::new(Next::In);
        for _ in 0..55 {
            assert_eq!((parity.is_primed(), parity.remedy()), (true, None));
            assert_eq!(woken_by(&mut parity, "io"), "o");
        }
        assert!(parity.is_primed());
    }

    /// spec: S1: before an in wakes, the ring is made anew.
    #[test]
    fn a_ring_that_begins_with_an_in_is_made_anew_in_time() {
        let mut parity = Parity::new(Next::In);
        let pairs = (1..100).find(|_| {
            assert_eq!(woken_by(&mut parity, "io"), "o");
            !parity.is_primed()
        });
        assert_eq!((pairs, parity.remedy()), (Some(56), Some(Next::In)));
        assert_eq!(woken_by(&mut parity, "i"), "i");
    }

    #[test]
    fn a_ring_that_begins_otherwise_is_made_anew() {
        for (life, remedy) in [("i", Next::Out), ("io", Next::In), ("ioio", Next::In)] {
            let mut parity = Parity::new(Next::Out);
            assert_eq!(woken_by(&mut parity, life).replace('i', ""), "");
            assert_eq!(parity.remedy(), Some(remedy), "{life}");
        }
        for (life, remedy) in [("o", Next::In), ("oi", Next::Out), ("oio", Next::In)] {
            let mut parity = Parity::new(Next::In);
            assert_eq!(woken_by(&mut parity, life).replace('i', ""), "");
            assert_eq!(parity.remedy(), Some(remedy), "{life}");
        }
    }

    /// A note of lost records is longer than a record, so an in wakes. Another one turns it round again.
    #[test]
    fn lost_records_are_noticed() {
        let mut parity = Parity::new(Next::Out);
        assert_eq!(woken_by(&mut parity, "oio"), "o");
        parity.note(RECORD + 16);
        assert_eq!(woken_by(&mut parity, "i"), "i");
        parity.note(RECORD + 16);
        woken_by(&mut parity, "oi");
        assert_eq!(parity.remedy(), Some(Next::Out), "{parity:?}");
    }
}
