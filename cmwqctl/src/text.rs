//! Makes texts from other processes safe for this terminal.

/// Replaces control characters in names that a process has chosen, so that they do not control the terminal. Keeps
/// newlines, which [`word`] replaces as well.
pub(crate) fn lines(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// Replaces control characters and newlines, so that the text fits into a line.
pub(crate) fn word(text: &str) -> String {
    lines(text).replace('\n', "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left() {
        let hostile = "a\x1b]0;title\x07\r\n\u{9b}2J\x7fé…";
        assert_eq!(lines(hostile), "a\u{FFFD}]0;title\u{FFFD}\u{FFFD}\n\u{FFFD}2J\u{FFFD}é…");
        assert!(!word(hostile).contains(char::is_control));
    }
}
