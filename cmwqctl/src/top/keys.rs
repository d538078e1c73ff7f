//! The effects of keys.

use cmwq::control::Attribute;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::attributes;
use super::columns::{Column, Sort};
use super::model::{Action, Dialog, Model, Page};
use super::rows;

/// The number of rows by which Page Up and Page Down move.
const SCREEN: usize = 10;
/// The maximum length of a typed text. This length suffices for a list of some hundred CPUs.
const LONGEST_TEXT: usize = 400;

impl Model {
    /// Handles a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Option<Action> {
        self.status = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Action::Quit),
                _ => None,
            };
        }
        match self.dialog.take() {
            None => self.key_of_page(key.code),
            Some(Dialog::Help) => None,
            Some(Dialog::Filter { before }) => {
                self.key_of_filter(key.code, before);
                None
            }
            Some(Dialog::Choose { queue, chosen }) => {
                self.key_of_choice(key.code, queue, chosen);
                None
            }
            Some(Dialog::Type { queue, attribute, text, shown }) => {
                self.key_of_value(key.code, queue, attribute, text, shown)
            }
        }
    }

    fn key_of_page(&mut self, code: KeyCode) -> Option<Action> {
        match code {
            KeyCode::Char('q') => return Some(Action::Quit),
            KeyCode::Esc | KeyCode::Backspace if self.detail.is_some() => self.detail = None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?') | KeyCode::F(1) => self.dialog = Some(Dialog::Help),
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('h') => return self.switch_histograms(),
            KeyCode::Char('e') => self.begin_edit(),
            KeyCode::Char('1') => self.turn_to(Page::Queues),
            KeyCode::Char('2') => self.turn_to(Page::Pools),
            KeyCode::Char('3') => self.turn_to(Page::Offenders),
            KeyCode::Tab => self.turn_to(Page::ALL[(self.page.number() + 1) % 3]),
            KeyCode::BackTab => self.turn_to(Page::ALL[(self.page.number() + 2) % 3]),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-(SCREEN as isize)),
            KeyCode::PageDown => self.move_by(SCREEN as isize),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            _ if self.detail.is_none() => self.key_of_table(code),
            _ => {}
        }
        self.follow_marked();
        None
    }

    fn key_of_table(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter if self.page == Page::Queues => {
                self.detail = self.subject();
                self.scrolled = 0;
            }
            KeyCode::Char('/') if self.page == Page::Queues => {
                self.dialog = Some(Dialog::Filter { before: self.filter.clone() });
            }
            KeyCode::Char('s') | KeyCode::Char('>') | KeyCode::Right => self.sort_by(1),
            KeyCode::Char('S') | KeyCode::Char('<') | KeyCode::Left => self.sort_by(-1),
            KeyCode::Char('r') => {
                let sort = &mut self.sorts[self.page.number()];
                sort.descending = !sort.descending;
            }
            _ => {}
        }
    }

    fn turn_to(&mut self, page: Page) {
        self.detail = None;
        self.page = page;
    }

    fn move_by(&mut self, rows: isize) {
        if self.detail.is_some() {
            let lines = rows.clamp(i16::MIN.into(), i16::MAX.into());
            self.scrolled = self.scrolled.saturating_add_signed(lines as i16);
        } else {
            let selected = &mut self.selected[self.page.number()];
            *selected = selected.saturating_add_signed(rows);
            self.keep_selection_in_range();
            self.mark_selected();
        }
    }

    fn sort_by(&mut self, step: isize) {
        fn next<R>(columns: &[Column<R>], sort: Sort, step: isize) -> Sort {
            let count = columns.len() as isize;
            Sort::by(columns, (sort.column as isize + step).rem_euclid(count) as usize)
        }
        let sort = &mut self.sorts[self.page.number()];
        *sort = match self.page {
            Page::Queues => next(rows::QUEUES, *sort, step),
            Page::Pools => next(rows::POOLS, *sort, step),
            Page::Offenders => next(rows::OFFENDERS, *sort, step),
        };
    }

    fn key_of_filter(&mut self, code: KeyCode, before: String) {
        let goes_on = !matches!(code, KeyCode::Enter | KeyCode::Esc);
        match code {
            KeyCode::Esc => self.filter.clone_from(&before),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.len() < LONGEST_TEXT => self.filter.push(c),
            _ => {}
        }
        self.dialog = goes_on.then_some(Dialog::Filter { before });
        self.follow_marked();
    }

    /// Returns the queue to which a change would apply. If there is no such queue, or if it cannot be changed, shows a
    /// message.
    fn changeable(&mut self) -> Option<u64> {
        let Some(number) = self.subject() else {
            self.say("choose a queue first: page 1");
            return None;
        };
        let queue = self.queue(number)?;
        if !queue.control {
            let text = format!("{:?} was not built with `control`: it can be read, not changed", queue.name);
            self.say(text);
            return None;
        }
        Some(number)
    }

    fn begin_edit(&mut self) {
        if let Some(queue) = self.changeable() {
            self.dialog = Some(Dialog::Choose { queue, chosen: 0 });
        }
    }

    fn switch_histograms(&mut self) -> Option<Action> {
        let number = self.changeable()?;
        let value = if self.queue(number)?.latency.is_some() { "0" } else { "1" };
        Some(Action::Set {
            queue: self.address(number)?,
            attribute: Attribute::Histograms,
            value: value.into(),
        })
    }

    fn key_of_choice(&mut self, code: KeyCode, queue: u64, chosen: usize) {
        let count = Attribute::ALL.len();
        let chosen = match code {
            KeyCode::Esc | KeyCode::Char('q') => return,
            KeyCode::Up | KeyCode::Char('k') => (chosen + count - 1) % count,
            KeyCode::Down | KeyCode::Char('j') => (chosen + 1) % count,
            KeyCode::Enter => {
                let attribute = Attribute::ALL[chosen];
                let text = self.queue(queue).and_then(|queue| attributes::value(queue, attribute));
                let text = text.unwrap_or_default();
                self.dialog = Some(Dialog::Type { queue, attribute, shown: text.clone(), text });
                return;
            }
            _ => chosen,
        };
        self.dialog = Some(Dialog::Choose { queue, chosen });
    }

    fn key_of_value(
        &mut self,
        code: KeyCode,
        queue: u64,
        attribute: Attribute,
        mut text: String,
        shown: String,
    ) -> Option<Action> {
        match code {
            KeyCode::Esc => return None,
            // A value in effect may be a default, which a set would turn into a value of the queue's own.
            KeyCode::Enter if text == shown => return None,
            KeyCode::Enter => {
                let address = self.address(queue);
                if address.is_none() {
                    self.say("the queue is gone");
                }
                return Some(Action::Set { queue: address?, attribute, value: text });
            }
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char(c) if text.len() < LONGEST_TEXT => text.push(c),
            _ => {}
        }
        self.dialog = Some(Dialog::Type { queue, attribute, text, shown });
        None
    }
}
