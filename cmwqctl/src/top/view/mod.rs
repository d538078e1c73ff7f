//! Draws a frame from the model.

mod detail;
mod dialog;
mod header;
mod histogram;
mod table;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{Dialog, Model, Page};
use super::theme::Theme;

/// The smallest terminal on which the view shows anything useful.
const LEAST: (u16, u16) = (60, 16);
/// The minimum number of lines for which the pools are shown below the queues.
const SPLIT_FROM: u16 = 30;

/// Draws the whole view. Returns the number of lines by which the details are scrolled in this frame.
pub(crate) fn draw(model: &Model, theme: Theme, frame: &mut Frame<'_>) -> u16 {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("{}x{} is too small: {}x{} at least", area.width, area.height, LEAST.0, LEAST.1);
        frame.render_widget(Paragraph::new(text), area);
        return model.scrolled;
    }
    let [head, tabs, body, foot] = Layout::vertical([
        Constraint::Length(header::LINES),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    header::draw(model, theme, frame, head);
    self::tabs(model, theme, frame, tabs);
    let scrolled = self::body(model, theme, frame, body);
    self::foot(model, theme, frame, foot);
    dialog::draw(model, theme, frame, body);
    scrolled
}

fn tabs(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let mut spans = Vec::new();
    for page in Page::ALL {
        let style = if page == model.page { theme.selected() } else { theme.dim() };
        spans.push(Span::styled(format!(" {} {} ", page.number() + 1, page.title()), style));
        spans.push(Span::raw(" "));
    }
    if !model.filter.is_empty() || matches!(model.dialog, Some(Dialog::Filter { .. })) {
        spans.push(Span::styled(format!("/{}", model.filter), theme.warn()));
        if matches!(model.dialog, Some(Dialog::Filter { .. })) {
            spans.push(Span::raw("▏"));
        }
    }
    frame.render_widget(Line::from(spans), area);
    let rhythm = if model.paused {
        Span::styled("PAUSED ", theme.warn())
    } else {
        Span::styled(format!("every {:?} ", model.interval), theme.dim())
    };
    frame.render_widget(Line::from(rhythm).right_aligned(), area);
}

/// Draws the page or the details. Returns the number of lines by which the details are scrolled.
fn body(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) -> u16 {
    if model.now.is_none() {
        frame.render_widget(Paragraph::new("\n  waiting for the first sample"), area);
        return model.scrolled;
    }
    match model.detail.map(|number| model.queue(number)) {
        Some(Some(queue)) => return detail::draw(model, queue, theme, frame, area),
        Some(None) => frame.render_widget(Paragraph::new("\n  this queue is gone"), area),
        None => page(model, theme, frame, area),
    }
    model.scrolled
}

fn page(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    match model.page {
        Page::Queues if area.height >= SPLIT_FROM - 4 => {
            let pools = (model.pools().len() as u16 + 2).min(area.height / 3);
            let [upper, lower] =
                Layout::vertical([Constraint::Min(1), Constraint::Length(pools)]).areas(area);
            table::queues(model, theme, frame, upper);
            table::pools(model, theme, frame, lower);
        }
        Page::Queues => table::queues(model, theme, frame, area),
        Page::Pools => table::pools(model, theme, frame, area),
        Page::Offenders => table::offenders(model, theme, frame, area),
    }
}

/// Draws the last message, or the keys if there is no message.
fn foot(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    if let Some(status) = &model.status {
        let style = if status.good { theme.good() } else { theme.bad() };
        frame.render_widget(Line::styled(format!(" {}", status.text), style), area);
        return;
    }
    let keys: &[(&str, &str)] = match (&model.dialog, model.detail, model.page) {
        (Some(Dialog::Help), ..) => &[("any key", "back")],
        (Some(Dialog::Filter { .. }), ..) => &[("Enter", "keep"), ("Esc", "as before")],
        (Some(Dialog::Choose { .. }), ..) => &[("↑↓", "choose"), ("Enter", "change"), ("Esc", "back")],
        (Some(Dialog::Type { .. }), ..) => &[("Enter", "set"), ("Esc", "cancel")],
        (None, Some(_), _) => &[
            ("Esc", "back"),
            ("e", "change"),
            ("h", "histograms"),
            ("space", "pause"),
            ("?", "help"),
            ("q", "quit"),
        ],
        (None, None, Page::Queues) => &[
            ("Enter", "details"),
            ("s", "sort"),
            ("/", "filter"),
            ("e", "change"),
            ("space", "pause"),
            ("?", "help"),
            ("q", "quit"),
        ],
        (None, None, _) => &[
            ("Tab", "next"),
            ("s", "sort"),
            ("r", "reverse"),
            ("space", "pause"),
            ("?", "help"),
            ("q", "quit"),
        ],
    };
    let mut spans = Vec::new();
    for (key, effect) in keys {
        spans.push(Span::styled(format!(" {key}"), theme.key()));
        spans.push(Span::styled(format!(" {effect} "), theme.dim()));
    }
    frame.render_widget(Line::from(spans), area);
}
