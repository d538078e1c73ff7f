//! The documented timelines of three items, which are queued at time 0 on one CPU, in order.
//!
//! `w0` burns 5 ms of CPU time, sleeps 10 ms, burns 5 ms and finishes. `w1` and `w2` burn 5 ms, sleep 10 ms and finish.
//! The documents assume simple FIFO scheduling.

/// The length of a burn, in milliseconds of CPU time.
pub const BURN: u64 = 5;
/// The length of a sleep, in milliseconds.
pub const SLEEP: u64 = 10;
/// The items of every timeline.
pub const ITEMS: [&str; 3] = ["w0", "w1", "w2"];

/// The times of an item's events, in milliseconds since the first item was queued.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub start: f64,
    pub sleep: f64,
    pub wake: f64,
    /// The time when the item finishes. It equals `wake` where the documents say "wakes, finishes".
    pub finish: f64,
}

/// The events of an item, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Start,
    Sleep,
    Wake,
    Finish,
}

/// One of the documents' examples.
pub struct Timeline {
    pub key: char,
    pub title: &'static str,
    /// The limit of the queue, or `None` for the default limit.
    pub max_active: Option<usize>,
    /// Whether `w1` and `w2` are queued on a CPU-intensive queue of their own.
    pub cpu_intensive: bool,
    pub documented: [Times; 3],
    /// The differences that a real machine shows, and the reasons why they are right.
    pub note: Option<&'static str>,
}

const fn times(start: f64, sleep: f64, wake: f64, finish: f64) -> Times {
    Times { start, sleep, wake, finish }
}

/// All timelines, in the documents' order.
pub static TIMELINES: [Timeline; 4] = [
    Timeline {
        key: 'a',
        title: "max_active = 1: one context, nothing fills the sleeps",
        max_active: Some(1),
        cpu_intensive: false,
        documented: [
            times(0.0, 5.0, 15.0, 20.0),
            times(20.0, 25.0, 35.0, 35.0),
            times(35.0, 40.0, 50.0, 50.0),
        ],
        note: None,
    },
    Timeline {
        key: 'b',
        title: "max_active >= 3: each sleep is filled",
        max_active: None,
        cpu_intensive: false,
        documented: [
            times(0.0, 5.0, 15.0, 20.0),
            times(5.0, 10.0, 20.0, 20.0),
            times(10.0, 15.0, 25.0, 25.0),
        ],
        note: None,
    },
    Timeline {
        key: 'c',
        title: "max_active = 2: the third item waits for a slot",
        max_active: Some(2),
        cpu_intensive: false,
        documented: [
            times(0.0, 5.0, 15.0, 20.0),
            times(5.0, 10.0, 20.0, 20.0),
            times(20.0, 25.0, 35.0, 35.0),
        ],
        note: Some(
            "At 20 ms, w0's slot goes to w2, which starts before w1 has the CPU to finish: w1 then finishes\n\
             between 20 and 25 ms.",
        ),
    },
    Timeline {
        key: 'd',
        title: "w1 and w2 on a CPU-intensive queue: they share the CPU",
        max_active: None,
        cpu_intensive: true,
        documented: [times(0.0, 5.0, 15.0, 20.0), times(5.0, 10.0, 20.0, 20.0), times(5.0, 15.0, 25.0, 25.0)],
        note: Some(
            "From 5 to 15 ms, w1 and w2 share the CPU. The documents assume FIFO; a fair scheduler interleaves\n\
             them, so that their sleeps begin between 10 and 15 ms and end between 20 and 25 ms.",
        ),
    },
];

impl Event {
    pub const ALL: [Self; 4] = [Self::Start, Self::Sleep, Self::Wake, Self::Finish];

    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "starts",
            Self::Sleep => "sleeps",
            Self::Wake => "wakes",
            Self::Finish => "finishes",
        }
    }
}

impl Times {
    pub fn at(&self, event: Event) -> f64 {
        match event {
            Event::Start => self.start,
            Event::Sleep => self.sleep,
            Event::Wake => self.wake,
            Event::Finish => self.finish,
        }
    }

    /// Returns the times at which the item burns.
    fn burns(&self) -> impl Iterator<Item = (f64, f64)> {
        [(self.start, self.sleep), (self.wake, self.finish)].into_iter().filter(|(from, to)| from < to)
    }
}

impl Timeline {
    pub fn makespan(&self) -> f64 {
        self.documented.iter().map(|times| times.finish).fold(0.0, f64::max)
    }

    /// Returns the range in which an event may come if the documents hold but the scheduler need not be FIFO.
    pub fn range(&self, item: usize, event: Event) -> (f64, f64) {
        let at = self.documented[item].at(event);
        if self.cpu_intensive && item > 0 {
            // The two items share the CPU. Each may end its burn and begin its sleep at any time from 10 to 15 ms.
            return match event {
                Event::Start => (at, at),
                Event::Sleep => (10.0, 15.0),
                Event::Wake | Event::Finish => (20.0, 25.0 + self.lateness(item, event)),
            };
        }
        (at, at + self.lateness(item, event))
    }

    /// Returns how late an event may come. If another item burns when this item wakes or finishes, that event may wait
    /// for the CPU, but not longer than the burn. The events after it may be as late.
    fn lateness(&self, item: usize, event: Event) -> f64 {
        let documented = &self.documented[item];
        let others = || self.documented.iter().enumerate().filter(|(other, _)| *other != item);
        let shares =
            |at: f64| others().any(|(_, times)| times.burns().any(|(from, to)| from <= at && at <= to));
        let late = match event {
            Event::Start | Event::Sleep => false,
            Event::Wake => shares(documented.wake),
            Event::Finish => shares(documented.wake) || shares(documented.finish),
        };
        if late { BURN as f64 } else { 0.0 }
    }
}
