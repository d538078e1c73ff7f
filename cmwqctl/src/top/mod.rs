//! `cmwqctl top`: the live view. This module connects the model, its input and its drawing to a terminal.

mod attributes;
mod columns;
mod format;
mod keys;
mod model;
mod rows;
mod source;
#[cfg(test)]
mod tests;
mod theme;
mod view;

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use ratatui::backend::Backend;
use ratatui::crossterm::event::{self, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Terminal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::model::{Action, Model};
use self::source::{Change, News};
use self::theme::Theme;
use crate::args::Target;
use crate::failure::{Failure, Result};
use crate::process::{self, failure};

/// An event for which the view waits.
#[derive(Debug)]
pub(crate) enum Event {
    Key(KeyEvent),
    /// The terminal has another size.
    Resized,
    News(News),
    /// A signal has arrived, or the terminal is gone.
    End,
    /// The source's thread has panicked.
    Panicked,
}

/// Shows the process until the user quits.
pub(crate) fn run(target: &Target, interval: Duration) -> Result<()> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "top needs a terminal",
            "`cmwqctl monitor` and `cmwqctl dump` write into files and pipes.",
        ));
    }
    let mut client = process::connect(target)?;
    let hello = client.hello().map_err(failure)?;
    let pid = hello.pid;
    let model = Model::new(hello, interval);
    let (sender, events) = channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let theme = Theme { coloured: is_coloured() };
    let terminal = ratatui::try_init().map_err(Failure::from);
    let shown = terminal.and_then(|terminal| {
        let changes = source::start(client, pid, interval, sender.clone())?;
        let to_view = sender.clone();
        spawn("cmwqctl/signals", move || {
            signals.forever().next();
            let _ = to_view.send(Event::End);
        })?;
        spawn("cmwqctl/keys", move || read_keys(&sender))?;
        show(terminal, model, theme, &events, &changes)
    });
    // The terminal is restored even if it was only partly set up.
    ratatui::try_restore()?;
    shown
}

fn is_coloured() -> bool {
    match anstream::ColorChoice::global() {
        anstream::ColorChoice::Never => false,
        anstream::ColorChoice::Auto => std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        _ => true,
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

/// Reads keys until the receiver or the terminal is gone.
fn read_keys(events: &Sender<Event>) {
    loop {
        let event = match event::read() {
            Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
            Ok(event::Event::Resize(..)) => Event::Resized,
            Ok(_) => continue,
            Err(_) => Event::End,
        };
        let end = matches!(event, Event::End);
        if events.send(event).is_err() || end {
            return;
        }
    }
}

fn show(
    mut terminal: DefaultTerminal,
    mut model: Model,
    theme: Theme,
    events: &Receiver<Event>,
    changes: &Sender<Change>,
) -> Result<()> {
    loop {
        draw(&mut terminal, &mut model, theme)?;
        let Ok(first) = events.recv() else { return Ok(()) };
        // All events that have arrived meanwhile are handled before the next frame is drawn.
        for event in std::iter::once(first).chain(events.try_iter()) {
            if let ControlFlow::Break(end) = take(event, &mut model, changes) {
                return end;
            }
        }
    }
}

/// Draws a frame. Then the model knows how far the details are scrolled in this frame.
fn draw<B: Backend>(
    terminal: &mut Terminal<B>,
    model: &mut Model,
    theme: Theme,
) -> std::result::Result<(), B::Error> {
    let mut scrolled = 0;
    terminal.draw(|frame| scrolled = view::draw(model, theme, frame))?;
    model.scrolled = scrolled;
    Ok(())
}

/// Handles an event. Returns `Break` with the result of the view if the event ends the view.
fn take(event: Event, model: &mut Model, changes: &Sender<Change>) -> ControlFlow<Result<()>> {
    match event {
        Event::End => return ControlFlow::Break(Ok(())),
        Event::Panicked => return ControlFlow::Break(Err(Failure::Panicked)),
        Event::Resized => {}
        Event::News(news) => hear(model, news),
        Event::Key(key) => match model.key(key) {
            None => {}
            Some(Action::Quit) => return ControlFlow::Break(Ok(())),
            Some(Action::Set { queue, attribute, value }) => {
                // If the source's thread has panicked, the event that says so has arrived already.
                let _ = changes.send(Change { queue, attribute, value });
            }
        },
    }
    ControlFlow::Continue(())
}

fn hear(model: &mut Model, news: News) {
    match news {
        News::Sampled(sample) => model.sampled(*sample),
        News::Connected(hello) => model.connected(hello),
        News::Lost(why) => model.lost(why),
        News::Answered { queue, attribute, answer } => model.answered(&queue, attribute, answer),
    }
}
