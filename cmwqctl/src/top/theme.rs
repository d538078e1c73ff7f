//! Colours, or none.

use ratatui::style::{Color, Modifier, Style};

/// The styles of the view. If there are no colours, bold and reversed text replace them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(crate) coloured: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.coloured { Style::new().fg(colour) } else { Style::new() }
    }

    pub(crate) fn title(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn columns(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// Returns the style for the title of the column by which rows are sorted.
    pub(crate) fn sorted(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn selected(self) -> Style {
        if self.coloured {
            Style::new().bg(Color::Blue).fg(Color::White).add_modifier(Modifier::BOLD)
        } else {
            Style::new().add_modifier(Modifier::REVERSED)
        }
    }

    pub(crate) fn good(self) -> Style {
        self.colour(Color::Green)
    }

    pub(crate) fn warn(self) -> Style {
        self.colour(Color::Yellow)
    }

    pub(crate) fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn dim(self) -> Style {
        self.colour(Color::DarkGray)
    }

    pub(crate) fn key(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn bar(self) -> Style {
        self.colour(Color::Green)
    }
}
