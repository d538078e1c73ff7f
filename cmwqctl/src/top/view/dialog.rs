//! The dialogs over the page: the help, and the dialogs for the change of an attribute.

use cmwq::control::Attribute;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::super::attributes;
use super::super::model::{Dialog, Model};
use super::super::theme::Theme;

const HELP: &[(&str, &str)] = &[
    ("1 2 3, Tab", "queues, pools, offenders"),
    ("↑ ↓, k j, PgUp PgDn, g G", "move"),
    ("Enter, Esc", "details of a queue, and back"),
    ("s S, → ←", "sort by the next or previous column"),
    ("r", "reverse the order"),
    ("/", "show only queues whose names contain a text"),
    ("e", "change an attribute of the queue"),
    ("h", "switch the queue's histograms on or off"),
    ("space", "pause, go on"),
    ("q, Ctrl-C", "quit"),
    ("", ""),
    ("*", "behind a name: the queue may be changed"),
    ("RATE/s, CPU%", "since the last sample; 100 is one CPU"),
    ("INFL PEND INACT", "running, waiting for a worker, waiting for a slot"),
    ("HOGS UNDECL", "used a CPU too long; blocked without a guard"),
    ("SCOPE!", "strict: items stay in their pod"),
];

pub(super) fn draw(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    match &model.dialog {
        None | Some(Dialog::Filter { .. }) => {}
        Some(Dialog::Help) => help(theme, frame, area),
        Some(Dialog::Choose { queue, chosen }) => choose(model, *queue, *chosen, theme, frame, area),
        Some(Dialog::Type { queue, attribute, text, .. }) => {
            type_value(model, *queue, *attribute, text, theme, frame, area);
        }
    }
}

/// Draws a framed window of this size in the middle of the area, or a smaller one if there is not enough room.
fn window(title: String, lines: Vec<Line<'_>>, width: u16, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (width.min(area.width), (lines.len() as u16 + 2).min(area.height));
    let window =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let block = Block::bordered().title(Line::styled(title, theme.title())).border_style(theme.columns());
    frame.render_widget(Clear, window);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), window);
}

fn help(theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let line = |&(key, effect): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!(" {key:<25}"), theme.key()), Span::raw(effect)])
    };
    window(" Keys ".into(), HELP.iter().map(line).collect(), 78, theme, frame, area);
}

fn choose(model: &Model, number: u64, chosen: usize, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let Some(queue) = model.queue(number) else { return };
    let line = |(n, attribute): (usize, Attribute)| {
        let value = attributes::value(queue, attribute).unwrap_or("-".into());
        let style = if n == chosen { theme.selected() } else { Default::default() };
        Line::styled(format!(" {:<16} {value:<26} ", attribute.name()), style)
    };
    let lines = Attribute::ALL.into_iter().enumerate().map(line).collect();
    window(format!(" Change {} ", queue.name), lines, 48, theme, frame, area);
}

fn type_value(
    model: &Model,
    number: u64,
    attribute: Attribute,
    text: &str,
    theme: Theme,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let name = model.queue(number).map_or("", |queue| &queue.name);
    let lines = vec![
        Line::from(vec![
            Span::raw(format!(" {attribute} = ")),
            Span::styled(text.to_owned(), theme.key()),
            Span::raw("▏"),
        ]),
        Line::styled(format!(" {}", attributes::possible(attribute)), theme.dim()),
    ];
    window(format!(" Change {name} "), lines, 66, theme, frame, area);
}
