//! When the kernel wakes whoever listens to a ring, and how it is brought to wake for the right records.
//!
//! A listener that is woken when a thread *gets* its CPU, and runs on that very CPU, takes it away again: that makes a
//! record, and another one when the listener sleeps, which wakes it again, for ever. So it must be woken only when a
//! thread gives its CPU away. The kernel cannot be asked for that, but: records of a thread alternate, each has
//! [`RECORD`] bytes, and a wake-up comes whenever the ring's end is more than [`WATERMARK`] bytes behind a *mark*, which
//! then moves on by as much. So every second record wakes, counted from the third: the *outs*, if the first was one.
//!
//! If the first was an *in*, the ins wake. Then the ring is *choked*, until the next look: it looks full, and the kernel drops what
//! comes. With the first record after that it writes a note that some were lost, which is as long as three records. So if an
//! even number was dropped, an in and an out, the outs wake now; if not, or if none came, that is tried again. (A ring made anew
//! would do as well, but whoever makes it waits for the kernel for milliseconds.)
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
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    In,
    Out,
}

/// What is to be done to a ring, whose records were all read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Remedy {
    /// It wakes for the right records; or the next one will tell.
    Nothing,
    /// Have some records dropped.
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

    pub(super) fn gave_away(&mut self) {
        self.wrote(Last::Out);
    }

    fn wrote(&mut self, last: Last) {
        self.end += self.note + RECORD;
        self.note = 0;
        self.last = Some(last);
        if self.wakes(self.end) {
            self.mark += WATERMARK;
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
            Some(Last::Out) => !self.wakes(self.end + RECORD) && self.wakes(self.end + 2 * RECORD),
        }
    }

    pub(super) fn remedy(&self) -> Remedy {
        if self.last.is_none() || self.is_primed() { Remedy::Nothing } else { Remedy::Choke }
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
                _ => parity.gave_away(),
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
    fn a_ring_that_begins_with_an_in_is_choked() {
        let mut parity = Parity::default();
        assert_eq!(woken_by(&mut parity, "i"), "");
        for life in ["op", "io", "i"] {
            assert_eq!((parity.is_primed(), parity.remedy()), (false, Remedy::Choke));
            woken_by(&mut parity, life);
        }
    }

    /// After records were dropped, the next one comes with a note.
    #[test]
    fn what_was_dropped_turns_it_round_if_it_was_even() {
        // What was seen, what was dropped, and what came then, with what wakes of it.
        for (seen, dropped, then, wakes) in [
            ("i", "oi", "oioi", "oo"),
            ("io", "io", "ioio", "oo"),
            ("ioi", "oioi", "oioi", "oo"),
            ("i", "o", "ioio", "ii"),
            ("io", "i", "oioi", "ii"),
        ] {
            let mut parity = Parity::default();
            woken_by(&mut parity, seen);
            parity.note(3 * RECORD);
            let woken = woken_by(&mut parity, then);
            assert!(woken.ends_with(wakes), "{seen} {dropped} {then}: {woken}");
            assert_eq!(parity.is_primed(), dropped.len() % 2 == 0, "{seen} {dropped} {then}");
        }
    }
}
