//! Names of files in the format of GNU's tools: escaped in listings, quoted for a shell in messages.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Returns a line of a listing, with digest and name. A name that would break the line is escaped, and the line is
/// marked.
pub(crate) fn listing_line(hex: &str, path: &Path) -> Vec<u8> {
    let name = path.as_os_str().as_bytes();
    let odd = name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'));
    let mut line = Vec::with_capacity(hex.len() + name.len() + 4);
    if odd {
        line.push(b'\\');
    }
    line.extend_from_slice(hex.as_bytes());
    line.extend_from_slice(b"  ");
    push_name(&mut line, name, odd);
    line.push(b'\n');
    line
}

/// Returns a line of a verification, with name and verdict. The name is escaped only if it contains a line break.
pub(crate) fn verdict_line(path: &Path, verdict: &str) -> Vec<u8> {
    let name = path.as_os_str().as_bytes();
    let odd = name.contains(&b'\n');
    let mut line = Vec::with_capacity(name.len() + verdict.len() + 4);
    if odd {
        line.push(b'\\');
    }
    push_name(&mut line, name, odd);
    line.extend_from_slice(b": ");
    line.extend_from_slice(verdict.as_bytes());
    line.push(b'\n');
    line
}

fn push_name(line: &mut Vec<u8>, name: &[u8], escape: bool) {
    for &byte in name {
        match byte {
            b'\\' if escape => line.extend_from_slice(b"\\\\"),
            b'\n' if escape => line.extend_from_slice(b"\\n"),
            b'\r' if escape => line.extend_from_slice(b"\\r"),
            _ => line.push(byte),
        }
    }
}

/// Returns the original name for an escaped name, or `None` if the escapes are invalid.
pub(crate) fn unescape(name: &[u8]) -> Option<PathBuf> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(&byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            0 => return None,
            byte => byte,
        });
    }
    Some(OsString::from_vec(plain).into())
}

/// Returns a name for a message. The name is unchanged if a shell would read it as it is, and otherwise it is quoted
/// for the shell.
pub(crate) fn quoted(path: &Path) -> String {
    let name = path.as_os_str().as_bytes();
    let mut pieces = Vec::new();
    for chunk in name.utf8_chunks() {
        pieces.extend(
            chunk.valid().chars().map(|c| if c.is_control() { Piece::Raw(c.into()) } else { Piece::Char(c) }),
        );
        pieces.extend(chunk.invalid().iter().map(|&byte| Piece::Byte(byte)));
    }
    let plain = pieces.iter().all(|piece| matches!(piece, Piece::Char(_)));
    let text = || String::from_utf8_lossy(name);
    if plain && !needs_quotes(&text()) {
        return text().into_owned();
    }
    if plain && name.contains(&b'\'') && text().chars().all(is_same_in_double_quotes) {
        return format!("\"{}\"", text());
    }
    let mut quoted = String::from("'");
    let mut in_escape = false;
    for piece in pieces {
        let escaped = match piece {
            Piece::Char(c) => {
                match (c, std::mem::take(&mut in_escape)) {
                    ('\'', _) => quoted.push_str("'\\''"),
                    (c, true) => quoted.extend(['\'', '\'', c]),
                    (c, false) => quoted.push(c),
                }
                continue;
            }
            Piece::Raw(text) => text.bytes().map(escape).collect(),
            Piece::Byte(byte) => escape(byte),
        };
        if !std::mem::replace(&mut in_escape, true) {
            quoted.push_str("'$'");
        }
        quoted.push_str(&escaped);
    }
    quoted + "'"
}

/// A part of a name.
enum Piece {
    Char(char),
    /// A control character.
    Raw(String),
    /// A byte that is not part of a character.
    Byte(u8),
}

/// Escapes a byte within `$'…'`.
fn escape(byte: u8) -> String {
    match byte {
        7 => "\\a".into(),
        8 => "\\b".into(),
        b'\t' => "\\t".into(),
        b'\n' => "\\n".into(),
        11 => "\\v".into(),
        12 => "\\f".into(),
        b'\r' => "\\r".into(),
        byte => format!("\\{byte:03o}"),
    }
}

fn needs_quotes(name: &str) -> bool {
    name.is_empty()
        || matches!(name, "{" | "}")
        || name.starts_with(['#', '~'])
        // In a message, a colon would look like the end of the name.
        || name.contains([' ', '!', '"', '$', '&', '\'', '(', ')', '*', ':', ';', '<', '=', '>', '?', '[', '\\', '^', '`', '|'])
}

/// Returns whether the character has no special meaning within double quotes, in a shell and in C.
fn is_same_in_double_quotes(c: char) -> bool {
    c.is_alphanumeric() || !c.is_ascii() || " '#~%+,-./:]_{}@".contains(c)
}
