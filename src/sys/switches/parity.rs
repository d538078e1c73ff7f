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
//! when the ring's end is more than [`WATERMARK`] bytes behind a *mark*, which then moves on by [`WATERMARK`]. So every
//! second record wakes, counted from the third: the outs, if the first record was an out. (For the first record there
//! is another ring, which wakes once, for any record.)
//!
//! If the first record was an in, the ins wake. A listener that an in wakes usually finds the thread running. Then the
//! ring is made anew, and its first record is an out. But a listener on the thread's own CPU never finds it running.
//! Then the ring is made anew and *choked*: it looks full, and the kernel drops records. At the next look the ring is
//! opened, and the next record, an in again, comes together with a note that records were lost. The note is as long as
//! three records, so that now the outs wake. Either remedy may come too late, and is tried again then. Each takes one
//! or two wake-ups.
//!
//! The state of the kernel is computed here from its records, so that a failed remedy is noticed.

/// The length of a record of a switch, in bytes, and the unit of all lengths here.
pub(super) const RECORD: u64 = 8;

/// Two records.
pub(super) const WATERMARK: u64 = 2 * RECORD;

/// The state of a ring since it was made.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Parity {
    /// The position of the next write.
    end: u64,
    /// The length of the notes that the kernel writes together with the next record.
    note: u64,
    mark: u64,
    last: Option<Last>,
    /// The last in has woken the listener.
    woke_in: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    In,
    Out { preempted: bool },
}

/// The remedy for a ring whose records were all read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// None: the ring wakes for the right records, or the next record wakes and will tell.
    Nothing,
    /// Make it anew: the thread runs.
    Renew,
    /// Make it anew, choked: the thread was preempted.
    Choke,
}

impl Parity {
    /// Adds a note that the kernel writes together with the next record.
    pub(super) fn note(&mut self, length: u64) {
        self.note += length;
    }

    pub(super) fn resumed(&mut self) {
        self.wrote(Last::In);
    }

    pub(super) fn gave_away(&mut self, preempted: bool) {
        self.wrote(Last::Out { preempted });
    }

    fn wrote(&mut self, last: Last) {
        self.end += self.note + RECORD;
        self.note = 0;
        self.last = Some(last);
        let wakes = self.wakes(self.end);
        if wakes {
            self.mark += WATERMARK;
        }
        if last == Last::In {
            self.woke_in = wakes;
        }
    }

    /// Returns whether a write that ends at `end` wakes the listener.
    fn wakes(&self, end: u64) -> bool {
        end - self.mark > WATERMARK
    }

    /// Returns whether the next out will wake the listener.
    pub(super) fn is_primed(&self) -> bool {
        match self.last {
            None => false,
            Some(Last::In) => self.wakes(self.end + RECORD),
            Some(Last::Out { .. }) => !self.wakes(self.end + RECORD) && self.wakes(self.end + 2 * RECORD),
        }
    }

    pub(super) fn remedy(&self) -> Remedy {
        let Some(last) = self.last else { return Remedy::Nothing };
        match last {
            _ if self.is_primed() => Remedy::Nothing,
            Last::In => Remedy::Renew,
            // Most probably by the listener itself, which was woken.
            Last::Out { preempted: true } if self.woke_in => Remedy::Choke,
            // The next in will wake the listener.
            Last::Out { .. } => Remedy::Nothing,
        }
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
            match record {
                'i' => parity.resumed(),
                other => parity.gave_away(other == 'p'),
            }
            if parity.mark != before {
                woken.push(record);
            }
        }
        woken
    }

    /// spec: S1
    #[test]
    fn of_a_ring_that_begins_with_an_out_only_outs_wake() {
        let mut parity = Parity::default();
        assert!(!parity.is_primed());
        assert_eq!(woken_by(&mut parity, "o"), "");
        for life in ["i", "o", "ipio", "ip"] {
            assert!(parity.is_primed());
            assert_eq!(parity.remedy(), Remedy::Nothing);
            assert_eq!(woken_by(&mut parity, life), life.replace('i', ""));
        }
    }

    #[test]
    fn a_ring_that_begins_with_an_in_is_made_anew() {
        let mut parity = Parity::default();
        assert_eq!(woken_by(&mut parity, "i"), "");
        assert_eq!((parity.is_primed(), parity.remedy()), (false, Remedy::Renew));
        assert_eq!(woken_by(&mut parity, "o"), "");
        assert_eq!((parity.is_primed(), parity.remedy()), (false, Remedy::Nothing));
        assert_eq!(woken_by(&mut parity, "ip"), "i");
        assert_eq!((parity.is_primed(), parity.remedy()), (false, Remedy::Choke));
    }

    #[test]
    fn a_note_of_lost_records_turns_it_round() {
        let after_a_note = || {
            let mut parity = Parity::default();
            parity.note(3 * RECORD);
            parity
        };
        let mut parity = after_a_note();
        assert_eq!(woken_by(&mut parity, "i"), "i");
        assert!(parity.is_primed());
        assert_eq!(woken_by(&mut parity, "oipio"), "opo");
        let mut parity = after_a_note();
        assert_eq!(woken_by(&mut parity, "o"), "o");
        assert!(!parity.is_primed());
        assert_eq!(woken_by(&mut parity, "ioip"), "ii");
        assert_eq!(parity.remedy(), Remedy::Choke);
    }
}
