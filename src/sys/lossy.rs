//! Reads text files of the system, whatever bytes they contain.

use std::path::Path;
use std::{fs, io};

/// Reads a file like [`fs::read_to_string`], but accepts any bytes. A sequence that is not UTF-8 becomes the character
/// U+FFFD. For example, the name of a thread and the path of a mount may have any bytes, and Linux writes them
/// unchanged. Linux may also have cut the name of a thread inside a character.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let text = String::from_utf8(fs::read(path)?);
    Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}
