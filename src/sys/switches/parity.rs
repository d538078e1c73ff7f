//! When the kernel wakes whoever listens to a ring, and how it is brought to wake for the right records.
//!
//! A listener that is woken when a thread *gets* its CPU, and runs on that very CPU, takes it away again: that makes a
//! record, and another one when the listener sleeps, which wakes it again, for ever. So it must be woken only when a
//! thread gives its CPU away. The kernel cannot be asked for that, but: records of a thread alternate, each has
//! [`RECORD`] bytes, and a wake-up comes whenever the ring's end is more than [`WATERMARK`] bytes behind a *mark*, which
//! then moves on by as much. So every second record wakes, counted from the third: the *outs*, if the first was one. (For the
//! first, there is another ring, which wakes once, whatever comes.)
//!
//! If the first was an *in*, the ins wake. One that does finds the thread running, mostly: the ring is made anew, and an
//! out comes first. But a listener on the thread's own CPU never meets it running. Then the ring is made anew and
//! *choked*: it looks full, and the kernel drops what comes. At the next look the ring is opened, and the next record, an
//! in again, comes together with a note that records were lost. That note is as long as three records, so that now the
//! outs wake. Either remedy may come too late, and is tried again then; each takes a wake-up, or two.
//!
//! What the kernel does is computed here from what it has written, so that whatever was wrong, it is seen.

/// Of a record of a switch, and the unit of all lengths here.
pub(super) const RECORD: u64 = 8;

/// Two records.
pub(super) const WATERMARK: u64 = 2 * RECORD;

/// The ring since it was made.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Parity {
    /// Where the next write begins.
    end: u64,
    /// Of what the kernel writes together with the next record.
    note: u64,
    mark: u64,
    last: Option<Last>,
    /// Somebody was woken by the last in.
    woke_in: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    In,
    Out { preempted: bool },
}

/// What is to be done to a ring, whose records were all read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// It wakes for the right records; or the next one will tell, and wake.
    Nothing,
    /// Make it anew: the thread runs.
    Renew,
    /// Make it anew, choked: the thread was preempted.
    Choke,
}

impl Parity {
    /// The kernel writes this together with the record that follows.
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

    /// Whether a write that ends there does.
    fn wakes(&self, end: u64) -> bool {
        end - self.mark > WATERMARK
    }

    /// Will the next out wake?
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
            // Most probably by who was woken.
            Last::Out { preempted: true } if self.woke_in => Remedy::Choke,
            // The in that comes will wake.
            Last::Out { .. } => Remedy::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel does: the ins and outs that wake, of a thread's life from when the ring was made.
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
