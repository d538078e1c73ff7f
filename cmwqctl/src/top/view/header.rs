//! The header, which shows the process and the totals of its queues.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::format;
use super::super::model::{Link, Model};
use super::super::theme::Theme;

pub(super) const LINES: u16 = 2;

pub(super) fn draw(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let lines = vec![Line::from(first(model, theme)), Line::from(second(model, theme))];
    frame.render_widget(Paragraph::new(lines), area);
}

fn first(model: &Model, theme: Theme) -> Vec<Span<'static>> {
    let mut spans = vec![
        Span::styled(format!(" {}", format::fit(&model.hello.program, 20)), theme.title()),
        Span::raw(format!("  pid {}", model.hello.pid)),
    ];
    if let Some(now) = &model.now {
        let snapshot = &now.snapshot;
        spans.push(Span::raw(format!("  {} threads", snapshot.threads)));
        let stalled = snapshot.pools.iter().filter(|pool| pool.stalled_for.is_some()).count();
        spans.push(match (stalled, snapshot.stalls) {
            (0, 0) => Span::styled("  no stalls", theme.good()),
            (0, past) => Span::styled(format!("  {past} stalls so far"), theme.warn()),
            (now, _) => Span::styled(format!("  {now} STALLED"), theme.bad()),
        });
        spans.push(Span::raw(format!(
            "  CPUs {}  detection {}",
            format::fit(&snapshot.cpus.to_string(), 20),
            snapshot.detection
        )));
    }
    spans
}

fn second(model: &Model, theme: Theme) -> Vec<Span<'static>> {
    if let Link::Lost(why) = &model.link {
        return vec![Span::styled(format!(" CONNECTION LOST, trying again: {why}"), theme.bad())];
    }
    let rows = match &model.now {
        Some(now) => super::super::rows::queues(now, model.before.as_ref()),
        None => Vec::new(),
    };
    let rate: f64 = rows.iter().filter_map(|row| row.rate).sum();
    let cpu: f64 = rows.iter().filter_map(|row| row.cpu).sum();
    let sum = |field: fn(&super::super::rows::QueueRow) -> u64| rows.iter().map(field).sum::<u64>();
    vec![Span::raw(format!(
        " {} queues  {} items/s  {} in flight  {} pending  {} inactive  CPU {cpu:.0} %",
        rows.len(),
        format::rate(rate),
        sum(|row| row.in_flight),
        format::count(sum(|row| row.pending)),
        format::count(sum(|row| row.inactive)),
    ))]
}
