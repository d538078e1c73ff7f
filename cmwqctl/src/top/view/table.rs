//! The three tables.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::super::columns::{Column, Sort, fitting};
use super::super::format;
use super::super::model::{Model, Page};
use super::super::rows::{self, OffenderRow, PoolRow, QueueRow};
use super::super::theme::Theme;
use crate::text;

/// The number of pending entries for which a bar is full.
const FULL_BAR: usize = 256;
/// The maximum length of a bar.
const LONGEST_BAR: u16 = 40;

/// A table that is about to be drawn.
struct Face<'a, R: 'static> {
    columns: &'static [Column<R>],
    rows: &'a [R],
    sort: Sort,
    /// The selected row, or `None` if keys do not apply to this table.
    selected: Option<usize>,
    /// Returns the style of a row.
    style: fn(&R, Theme) -> Style,
}

impl<R> Face<'_, R> {
    /// Draws the table. `tail` draws the last column, which has the given width.
    fn draw(
        &self,
        theme: Theme,
        frame: &mut Frame<'_>,
        area: Rect,
        (title, width, tail): (&'static str, u16, impl Fn(&R) -> String),
    ) {
        let room = area.width.saturating_sub(if width > 0 { width + 1 } else { 0 });
        let (shown, first) = fitting(self.columns, room);
        let aligned = |column: &Column<R>, text: String| {
            let side = if column.numeric { Alignment::Right } else { Alignment::Left };
            Text::from(text).alignment(side)
        };
        let titles = shown.iter().map(|number| {
            let (column, sorted) = (&self.columns[*number], self.sort.column == *number);
            let style = if sorted { theme.sorted() } else { theme.columns() };
            Cell::from(aligned(column, column.title.into())).style(style)
        });
        let behind = (width > 0).then(|| Cell::from(title).style(theme.columns()));
        let header = Row::new(titles.chain(behind));
        let lines = self.rows.iter().map(|row| {
            let cells = shown.iter().enumerate().map(|(place, number)| {
                let column = &self.columns[*number];
                let width = usize::from(if place == 0 { first } else { column.width });
                let (cell, mark) = (text::word(&(column.cell)(row)), (column.mark)(row));
                let cell = format::fit(&cell, width.saturating_sub(mark.len())) + mark;
                Cell::from(aligned(column, cell))
            });
            let bar = (width > 0).then(|| Cell::from(Span::styled(tail(row), theme.bar())));
            Row::new(cells.chain(bar)).style((self.style)(row, theme))
        });
        let widths = shown.iter().enumerate().map(|(place, number)| {
            Constraint::Length(if place == 0 { first } else { self.columns[*number].width })
        });
        let table = Table::new(lines, widths.chain((width > 0).then_some(Constraint::Length(width))))
            .header(header)
            .column_spacing(1)
            .row_highlight_style(theme.selected());
        let mut state = TableState::new().with_selected(self.selected);
        frame.render_stateful_widget(table, area, &mut state);
    }
}

pub(super) fn queues(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let rows = model.queues();
    let face = Face {
        columns: rows::QUEUES,
        rows: &rows,
        sort: model.sorts[Page::Queues.number()],
        selected: Some(model.selected[Page::Queues.number()]),
        style: |row: &QueueRow, theme| {
            if row.in_flight == 0 && row.rate.unwrap_or(0.0) == 0.0 { theme.dim() } else { Style::new() }
        },
    };
    face.draw(theme, frame, area, ("", 0, |_: &QueueRow| String::new()));
    if rows.is_empty() {
        let text = if model.filter.is_empty() { "no queues" } else { "no queue's name contains this" };
        hint(text, theme, frame, area);
    }
}

pub(super) fn pools(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let rows = model.pools();
    let own = model.page == Page::Pools;
    // If the pools are shown below the queues, an empty line separates the two tables.
    let area = if own { area } else { Rect { y: area.y + 1, height: area.height - 1, ..area } };
    let face = Face {
        columns: rows::POOLS,
        rows: &rows,
        sort: model.sorts[Page::Pools.number()],
        selected: own.then(|| model.selected()),
        style: |row: &PoolRow, theme| if row.stalled.is_some() { theme.bad() } else { Style::new() },
    };
    let others: u16 = rows::POOLS.iter().map(|column| column.width + 1).sum();
    let width = area.width.saturating_sub(others).min(LONGEST_BAR);
    face.draw(theme, frame, area, ("", width, |row: &PoolRow| bar(row.pending, FULL_BAR, width)));
    if rows.is_empty() {
        hint("no pool has been needed yet", theme, frame, area);
    }
}

pub(super) fn offenders(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let rows = model.offenders();
    let face = Face {
        columns: rows::OFFENDERS,
        rows: &rows,
        sort: model.sorts[Page::Offenders.number()],
        selected: Some(model.selected[Page::Offenders.number()]),
        style: |row: &OffenderRow, theme| if row.more > 0 { theme.warn() } else { Style::new() },
    };
    face.draw(theme, frame, area, ("", 0, |_: &OffenderRow| String::new()));
    if rows.is_empty() {
        hint("no item has hogged a CPU or blocked without a guard", theme, frame, area);
    }
}

fn hint(text: &'static str, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    if area.height > 2 {
        let area = Rect { y: area.y + 2, height: area.height - 2, ..area };
        frame.render_widget(Paragraph::new(Line::styled(format!("  {text}"), theme.dim())), area);
    }
}

/// Returns a bar with a resolution of an eighth of a column, so that small numbers are visible.
pub(super) fn bar(value: usize, full: usize, width: u16) -> String {
    let eighths = (value.min(full) * usize::from(width) * 8).div_ceil(full.max(1));
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_in_proportion_and_never_too_long() {
        assert_eq!(bar(0, 256, 10), "");
        assert_eq!(bar(1, 256, 10), "▏");
        assert_eq!(bar(128, 256, 10), "█████");
        assert_eq!(bar(usize::MAX >> 8, 256, 10), "██████████");
        assert_eq!(bar(7, 256, 0), "");
    }
}
