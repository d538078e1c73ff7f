//! The details of one queue.

use cmwq::control::Attribute;
use cmwq::observe::QueueSnapshot;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::model::Model;
use super::super::rows::kind_of;
use super::super::theme::Theme;
use super::super::{attributes, format};
use super::histogram;

/// The number of lines of the upper part, which shows the title, the attributes and the counters.
const FACTS: u16 = 7;
/// If fewer lines than this are left below the facts, no histogram is drawn.
const LEAST_HISTOGRAM: u16 = 4;

/// Draws the details. Returns the number of lines by which the shards are scrolled, which is less than the model says
/// if fewer lines are hidden.
pub(super) fn draw(
    model: &Model,
    queue: &QueueSnapshot,
    theme: Theme,
    frame: &mut Frame<'_>,
    area: Rect,
) -> u16 {
    let shards = shards(model, queue, theme);
    let rest = area.height.saturating_sub(FACTS);
    let wanted = match queue.latency {
        Some(_) => rest.saturating_sub(shards.len() as u16).max(rest * 3 / 5),
        None => 2,
    };
    let [facts, times, parts] =
        Layout::vertical([Constraint::Length(FACTS), Constraint::Length(wanted), Constraint::Min(2)])
            .areas(area);
    frame.render_widget(Paragraph::new(self::facts(queue, theme)), facts);
    self::times(queue, theme, frame, times);
    // Scrolling ends when the last line is visible.
    let scrolled = model.scrolled.min((shards.len() as u16).saturating_sub(parts.height));
    frame.render_widget(Paragraph::new(shards).scroll((scrolled, 0)), parts);
    scrolled
}

fn facts(queue: &QueueSnapshot, theme: Theme) -> Vec<Line<'static>> {
    let mut title = vec![
        Span::styled(format!(" {}", queue.name), theme.title()),
        Span::raw(format!("  #{}  {}", queue.number, kind_of(queue))),
    ];
    let flags = [
        (queue.high_priority, "high priority"),
        (queue.cpu_intensive, "CPU intensive"),
        (queue.freezable, "freezable"),
        (queue.rescuer.is_some(), "rescuer"),
        (queue.control, "control"),
    ];
    title.extend(flags.iter().filter(|(set, _)| *set).map(|(_, word)| Span::raw(format!("  {word}"))));
    let states = [(queue.frozen, "FROZEN"), (queue.draining, "DRAINING")];
    let states = states.iter().filter(|(set, _)| *set);
    title.extend(states.map(|(_, word)| Span::styled(format!("  {word}"), theme.warn())));
    let mut lines = vec![Line::from(title), Line::from(attribute_spans(queue, theme))];
    lines.extend(counters(queue).into_iter().map(|row| {
        let mut spans = Vec::new();
        for (name, value) in row {
            spans.push(Span::styled(format!(" {name} "), theme.dim()));
            spans.push(Span::raw(format!("{value:<8}")));
        }
        Line::from(spans)
    }));
    lines
}

fn attribute_spans(queue: &QueueSnapshot, theme: Theme) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for attribute in Attribute::ALL {
        if let Some(value) = attributes::value(queue, attribute) {
            spans.push(Span::styled(
                format!(" {} ", attribute.name().trim_start_matches("affinity_")),
                theme.dim(),
            ));
            spans.push(Span::raw(format::fit(&value, 20)));
        }
    }
    spans
}

fn counters(queue: &QueueSnapshot) -> Vec<Vec<(&'static str, String)>> {
    let counters = &queue.counters;
    let count = format::count;
    let bound = queue.max_pending.map_or("-".into(), |bound| bound.to_string());
    vec![
        vec![
            ("started  ", count(counters.started)),
            ("completed", count(counters.completed)),
            ("in flight", count(counters.in_flight())),
            ("CPU time ", format::duration(counters.cpu_time)),
        ],
        vec![
            ("active   ", count(queue.active as u64)),
            ("inactive ", count(queue.inactive as u64)),
            ("queued   ", count(queue.len as u64)),
            ("bound    ", bound),
        ],
        vec![
            ("away     ", count(counters.away)),
            ("stolen   ", count(counters.stolen)),
            ("home     ", count(counters.home())),
            ("wake-ups ", count(counters.concurrency_wakeups)),
        ],
        vec![
            ("hogs     ", count(counters.cpu_hogs)),
            ("undecl.  ", count(counters.undeclared_blocks)),
            ("maydays  ", count(counters.rescuer_calls)),
            ("rescued  ", count(counters.rescued)),
        ],
        vec![
            ("panicked ", count(counters.panicked)),
            ("cancelled", count(counters.cancelled)),
            ("repatr.  ", count(counters.brought_back)),
        ],
    ]
}

fn times(queue: &QueueSnapshot, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let Some(latency) = &queue.latency else {
        let text = if queue.control { "press h to record them" } else { "the queue does not record them" };
        let line = Line::styled(format!(" times: {text}"), theme.dim());
        frame.render_widget(Paragraph::new(vec![Line::raw(""), line]), area);
        return;
    };
    if area.height < LEAST_HISTOGRAM {
        return;
    }
    let [_, left, _, right] = Layout::horizontal([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(2),
        Constraint::Fill(1),
    ])
    .areas(Rect { y: area.y + 1, height: area.height - 1, ..area });
    // The first two lines are a title and the quantiles.
    let lines = usize::from(left.height).saturating_sub(2);
    for (title, times, area) in
        [("queued to start", &latency.queue_to_start, left), ("run time", &latency.run, right)]
    {
        frame.render_widget(Paragraph::new(histogram::lines(title, times, theme, area.width, lines)), area);
    }
}

fn shards(model: &Model, queue: &QueueSnapshot, theme: Theme) -> Vec<Line<'static>> {
    let pools = model.now.as_ref().map(|now| &now.snapshot.pools);
    let name = |id: usize| {
        let pool = pools.and_then(|pools| pools.iter().find(|pool| pool.id == id));
        pool.map_or_else(|| id.to_string(), |pool| pool.name.clone())
    };
    let title = format!(
        " {:>4}  {:<6} {:>7} {:>8} {:>9} {:>7} {:>7} {:>9}",
        "CPU", "POOL", "ACTIVE", "INACTIVE", "STARTED", "AWAY", "STOLEN", "CPU TIME"
    );
    let mut lines = vec![Line::styled(title, theme.columns())];
    lines.extend(queue.shards.iter().map(|shard| {
        let counters = &shard.counters;
        let items = |count: Option<usize>| count.map_or("-".into(), |count| format::count(count as u64));
        Line::raw(format!(
            " {:>4}  {:<6} {:>7} {:>8} {:>9} {:>7} {:>7} {:>9}",
            shard.cpu,
            name(shard.pool),
            items(shard.active),
            items(shard.inactive),
            format::count(counters.started),
            format::count(counters.away),
            format::count(counters.stolen),
            format::duration(counters.cpu_time),
        ))
    }));
    lines
}
