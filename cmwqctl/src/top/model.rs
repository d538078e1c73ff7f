//! The state of the live view: the samples, and the user's position. The model uses no clock, terminal or socket,
//! because all its input arrives as arguments.

use std::time::Duration;

use cmwq::control::{Attribute, Hello};
use cmwq::observe::QueueSnapshot;

use super::columns::Sort;
use super::rows::{self, OffenderRow, PoolRow, QueueRow, Sample};

/// The state of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Connected,
    /// The connection was lost, for this reason. The view tries to connect again whenever a sample is due.
    Lost(String),
}

/// A page of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Queues,
    Pools,
    Offenders,
}

impl Page {
    pub(crate) const ALL: [Self; 3] = [Self::Queues, Self::Pools, Self::Offenders];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Queues => "Queues",
            Self::Pools => "Pools",
            Self::Offenders => "Offenders",
        }
    }

    pub(crate) fn number(self) -> usize {
        Self::ALL.iter().position(|page| *page == self).unwrap_or(0)
    }
}

/// The dialog that receives the keys instead of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dialog {
    Help,
    /// The user is typing the filter. Esc restores the previous filter.
    Filter {
        before: String,
    },
    /// The user is choosing an attribute of this queue.
    Choose {
        queue: u64,
        chosen: usize,
    },
    /// The user is typing a value.
    Type {
        queue: u64,
        attribute: Attribute,
        text: String,
        /// The text with which the dialog began.
        shown: String,
    },
}

/// A message at the foot of the view, which is shown until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) text: String,
    pub(crate) good: bool,
}

/// An action that the caller has to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    Set { queue: String, attribute: Attribute, value: String },
}

/// The state of the view.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) hello: Hello,
    pub(crate) link: Link,
    pub(crate) interval: Duration,
    pub(crate) now: Option<Sample>,
    pub(crate) before: Option<Sample>,
    pub(crate) paused: bool,
    /// Whether the next sample is taken even during a pause, because it shows a change that the user has made.
    pub(crate) changed: bool,
    pub(crate) page: Page,
    /// The selected row of each page.
    pub(crate) selected: [usize; 3],
    /// The queue to which the user moved the selection. The selection stays on this queue when the order changes.
    /// `None` if the selection is at the top, where it stays on the first row.
    pub(crate) marked: Option<u64>,
    pub(crate) sorts: [Sort; 3],
    pub(crate) filter: String,
    /// The queue whose details are shown.
    pub(crate) detail: Option<u64>,
    /// The number of lines by which the details are scrolled.
    pub(crate) scrolled: u16,
    pub(crate) dialog: Option<Dialog>,
    pub(crate) status: Option<Status>,
}

impl Model {
    pub(crate) fn new(hello: Hello, interval: Duration) -> Self {
        Self {
            hello,
            link: Link::Connected,
            interval,
            now: None,
            before: None,
            paused: false,
            changed: false,
            page: Page::Queues,
            selected: [0; 3],
            marked: None,
            // At first, the busiest queues and the most frequent offenders come first, and pools are sorted by name.
            sorts: [Sort::by(rows::QUEUES, 2), Sort::by(rows::POOLS, 0), Sort::by(rows::OFFENDERS, 2)],
            filter: String::new(),
            detail: None,
            scrolled: 0,
            dialog: None,
            status: None,
        }
    }

    /// Takes a new sample. A pause keeps the shown sample, unless there is none or the user has made a change.
    pub(crate) fn sampled(&mut self, sample: Sample) {
        self.link = Link::Connected;
        if !self.paused || self.now.is_none() || self.changed {
            self.changed = false;
            self.before = self.now.replace(sample);
            self.follow_marked();
        }
    }

    /// Notes that the connection works again, perhaps with another process on the same path.
    pub(crate) fn connected(&mut self, hello: Hello) {
        if hello.pid != self.hello.pid {
            self.now = None;
            self.before = None;
            self.detail = None;
            self.dialog = None;
            self.marked = None;
        }
        self.hello = hello;
        self.link = Link::Connected;
    }

    pub(crate) fn lost(&mut self, why: String) {
        self.link = Link::Lost(why);
    }

    /// Shows the answer of the process to an [`Action::Set`].
    pub(crate) fn answered(&mut self, queue: &str, attribute: Attribute, answer: Result<String, String>) {
        self.changed |= answer.is_ok();
        self.status = Some(match answer {
            Ok(value) => Status { text: format!("{queue}: {attribute} is {value} now"), good: true },
            Err(text) => Status { text, good: false },
        });
    }

    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.status = Some(Status { text: text.into(), good: false });
    }

    /// Returns the queues whose names contain the filter, in sorted order. The filter ignores case unless it contains
    /// capitals.
    pub(crate) fn queues(&self) -> Vec<QueueRow> {
        let Some(now) = &self.now else { return Vec::new() };
        let exact = self.filter.chars().any(char::is_uppercase);
        let mut rows = rows::queues(now, self.before.as_ref());
        rows.retain(|row| {
            if exact {
                row.name.contains(&self.filter)
            } else {
                row.name.to_lowercase().contains(&self.filter)
            }
        });
        self.sorts[Page::Queues.number()].apply(rows::QUEUES, &mut rows);
        rows
    }

    pub(crate) fn pools(&self) -> Vec<PoolRow> {
        let mut rows = self.now.as_ref().map(rows::pools).unwrap_or_default();
        self.sorts[Page::Pools.number()].apply(rows::POOLS, &mut rows);
        rows
    }

    pub(crate) fn offenders(&self) -> Vec<OffenderRow> {
        let now = self.now.as_ref();
        let mut rows = now.map(|now| rows::offenders(now, self.before.as_ref())).unwrap_or_default();
        self.sorts[Page::Offenders.number()].apply(rows::OFFENDERS, &mut rows);
        rows
    }

    /// Returns the number of rows on the page.
    pub(crate) fn len(&self) -> usize {
        match self.page {
            Page::Queues => self.queues().len(),
            Page::Pools => self.pools().len(),
            Page::Offenders => self.offenders().len(),
        }
    }

    pub(crate) fn selected(&self) -> usize {
        self.selected[self.page.number()]
    }

    pub(crate) fn keep_selection_in_range(&mut self) {
        let last = self.len().saturating_sub(1);
        let selected = &mut self.selected[self.page.number()];
        *selected = (*selected).min(last);
    }

    /// Marks the queue that the user has selected.
    pub(crate) fn mark_selected(&mut self) {
        if self.page == Page::Queues {
            let selected = self.selected[Page::Queues.number()];
            let row = self.queues().into_iter().nth(selected).filter(|_| selected > 0);
            self.marked = row.map(|row| row.number);
        }
    }

    /// Moves the selection to the marked queue after the order or the filter has changed. If the marked queue is gone
    /// or hidden, marks the queue that is selected instead.
    pub(crate) fn follow_marked(&mut self) {
        let marked = self.marked;
        let place = marked.and_then(|marked| self.queues().iter().position(|row| row.number == marked));
        if let Some(place) = place {
            self.selected[Page::Queues.number()] = place;
        }
        self.keep_selection_in_range();
        if place.is_none() && marked.is_some() {
            self.mark_selected();
        }
    }

    pub(crate) fn queue(&self, number: u64) -> Option<&QueueSnapshot> {
        self.now.as_ref()?.queue(number)
    }

    /// Returns the queue to which keys apply: the queue whose details are shown, or the selected queue.
    pub(crate) fn subject(&self) -> Option<u64> {
        match (self.detail, self.page) {
            (Some(number), _) => Some(number),
            (None, Page::Queues) => Some(self.queues().get(self.selected())?.number),
            _ => None,
        }
    }

    /// Returns the name by which a request refers to this queue.
    pub(crate) fn address(&self, number: u64) -> Option<String> {
        let queue = self.queue(number)?;
        let queues = &self.now.as_ref()?.snapshot.queues;
        let namesakes = queues.iter().filter(|other| other.name == queue.name).count();
        Some(if namesakes > 1 { format!("{}#{number}", queue.name) } else { queue.name.clone() })
    }
}
