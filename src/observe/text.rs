//! Formatting helpers, which shorten long names and wrap long lists.

use std::fmt;
use std::time::Duration;

use super::snapshot::{RunningItem, WorkerSnapshot};

/// The width of names in tables, which has the same value as `WQ_NAME_LEN` in the kernel's tools.
pub(super) const NAME: usize = 24;

/// The maximum width of a line of a list. The list continues on the next line if an entry would exceed this width.
const WIDTH: usize = 100;

/// The last [`NAME`] characters of a name, padded to [`NAME`] characters. A long name loses its first characters,
/// because the last characters tell more.
pub(super) struct Name<'a>(pub(super) &'a str);

/// The name of a worker's thread, with the thread's number if it has one: `cmwq/0:1[4711]`.
pub(super) struct Thread<'a>(pub(super) &'a WorkerSnapshot);

/// The type, the description and the age of an item.
pub(super) struct Item<'a>(pub(super) &'a RunningItem);

/// A duration, in a form that people can read.
pub(super) struct For(pub(super) Duration);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.0.chars().count().saturating_sub(NAME);
        // A name must neither break the table nor exceed its column.
        let shown = |c: char| if c.is_control() { '\u{FFFD}' } else { c };
        let shown: String = self.0.chars().skip(skipped).map(shown).collect();
        write!(f, "{shown:NAME$}")
    }
}

impl fmt::Display for Thread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.thread)?;
        if let Some(id) = self.0.thread_id {
            write!(f, "[{id}]")?;
        }
        if self.0.is_rescuer { f.write_str("(RESCUER)") } else { Ok(()) }
    }
}

impl fmt::Display for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.item_type)?;
        if let Some(description) = &self.0.description {
            write!(f, " {description:?}")?;
        }
        match self.0.age {
            Some(age) => write!(f, " for {}", For(age)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for For {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nanoseconds are of no interest here, so a duration below a microsecond is shown as zero.
        let rounded = if self.0 < Duration::from_micros(1) { Duration::ZERO } else { self.0 };
        write!(f, "{rounded:.1?}")
    }
}

/// Writes `label` and then the entries, on as many lines as they need. Each later line begins below the first entry.
pub(super) fn list(
    f: &mut fmt::Formatter<'_>,
    label: &str,
    entries: impl IntoIterator<Item = String>,
) -> fmt::Result {
    f.write_str(label)?;
    let indent = label.chars().count();
    let mut column = indent;
    for entry in entries {
        let width = 1 + entry.chars().count();
        if column + width > WIDTH && column > indent {
            write!(f, "\n{:indent$}", "")?;
            column = indent;
        }
        write!(f, " {entry}")?;
        column += width;
    }
    writeln!(f)
}

/// Writes an underlined heading.
pub(super) fn heading(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    writeln!(f, "{text}\n{}", "=".repeat(text.chars().count()))
}
