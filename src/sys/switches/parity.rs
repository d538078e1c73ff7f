//! Chooses the watermark of a ring, so that the kernel wakes the ring's listener only at the right records.
//!
//! The listener must be woken only by an *out*: the record of a thread that gives its CPU away. An *in*, the record of
//! a thread that gets a CPU, must not wake the listener. If an in woke the listener, a listener and a thread that share
//! a CPU would take this CPU from each other for ever:
//!
//! ```text
//! thread:    gets the CPU         (a record, which wakes the listener)
//! listener:  takes the CPU away   (a record)
//! listener:  sleeps
//! thread:    gets the CPU         (a record, which wakes the listener)
//! ```
//!
//! The kernel cannot be told to wake the listener for outs only. But an out follows each in, and an in follows each
//! out. Each record is [`RECORD`] bytes long. The kernel wakes the listener when the end of the records is more than a
//! *watermark* past a *mark*. The kernel then moves the mark forward by the watermark. So the watermark decides which
//! records wake the listener:
//!
//! * With a watermark of two records, the third record wakes the listener, then the fifth, and so on. This watermark is
//!   right if the first record is an out, as for a thread that runs. (A second ring, which wakes the listener for any
//!   record, reports this first out.)
//! * With a watermark of one byte less than two records, the second record wakes the listener, then the fourth, and so
//!   on. This watermark is right if the first record is an in, as for a thread that sleeps or waits for the listener's
//!   own CPU. But with each pair of records, the mark falls one byte further behind the end. After [`RECORD`] pairs,
//!   the mark has fallen behind by the length of a record, and an in would wake the listener. To postpone this wake-up,
//!   the code requests records that are as long as the kernel permits.
//!
//! The ring is replaced if the next out will not wake the listener, or if the next in will wake the listener. The last
//! record tells how the new ring begins: an out follows an in, and an in follows an out. If the thread switches before
//! the new ring exists, the new ring begins with the wrong kind of record. The code notices the wrong kind at the next
//! wake-up, because [`Parity`] computes the kernel's state from the records.

/// The length of a record of a switch, in bytes.
pub(super) const RECORD: u64 = 56;

/// The kind of a thread's next record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// The thread will get a CPU, so it is not running now.
    In,
    /// The thread will give its CPU away, so it is running now.
    Out,
}

impl Next {
    /// Returns the watermark, in bytes, of a ring that begins with this record.
    pub(super) fn watermark(self) -> u64 {
        match self {
            Self::In => 2 * RECORD - 1,
            Self::Out => 2 * RECORD,
        }
    }
}

/// The state of a ring, computed from all records since the ring was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parity {
    watermark: u64,
    /// The position of the next write, in bytes.
    end: u64,
    /// The length, in bytes, of the notes about lost records that the kernel writes together with the next record.
    note: u64,
    mark: u64,
    /// The kind of the next record. `None` before the first record.
    next: Option<Next>,
}

impl Parity {
    /// Returns the state of a new ring that is expected to begin with the record `first`.
    pub(super) fn new(first: Next) -> Self {
        Self { watermark: first.watermark(), end: 0, note: 0, mark: 0, next: None }
    }

    /// Adds the length of a note about lost records, which the kernel writes together with the next record.
    pub(super) fn note(&mut self, length: u64) {
        self.note += length;
    }

    /// Computes the state after the kernel has written a record. `next` is the kind of the record that follows.
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

    /// Returns whether the next out will wake the listener, and no in will wake the listener before this out. Returns
    /// true before the first record.
    pub(super) fn is_primed(&self) -> bool {
        let wakes = |records: u64| self.wakes(self.end + records * RECORD, self.mark);
        match self.next {
            None => true,
            Some(Next::Out) => wakes(1),
            Some(Next::In) => !wakes(1) && wakes(2),
        }
    }

    /// If the ring must be replaced, returns the kind of record with which the new ring will begin. The caller must
    /// have read all records of the old ring.
    pub(super) fn remedy(&self) -> Option<Next> {
        self.next.filter(|_| !self.is_primed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a kernel that writes the records `life`, each of which is an in (`i`) or an out (`o`). Returns the
    /// records that wake the listener.
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
        // The second ring reports this first out.
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

    /// spec: S1: the ring is replaced before an in can wake the listener.
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

    /// A note about lost records is longer than a record, so the in that follows the note wakes the listener. After a
    /// second note, the next out would not wake the listener, so the ring is replaced.
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
