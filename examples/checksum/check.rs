//! `-c`: verifies listings.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use cmwq::WorkQueue;

use crate::args::Args;
use crate::hash::{Digest, Hashed, Hasher};
use crate::names;
use crate::pipeline;
use crate::screen::{self, Screen};

/// Verifies every listing, and returns true if no file has changed.
pub(crate) fn check(
    args: &Args,
    queue: &WorkQueue,
    hasher: &Hasher,
    screen: &mut Screen,
) -> io::Result<bool> {
    let mut good = true;
    let mut format = Format::default();
    for list in &args.paths {
        good &= check_list(args, list, &mut format, queue, hasher, screen)?;
    }
    Ok(good)
}

/// The results of a listing.
#[derive(Default)]
struct Tally {
    proper: u64,
    improper: u64,
    matched: u64,
    mismatched: u64,
    unreadable: u64,
}

fn check_list(
    args: &Args,
    list: &Path,
    format: &mut Format,
    queue: &WorkQueue,
    hasher: &Hasher,
    screen: &mut Screen,
) -> io::Result<bool> {
    let is_stdin = list.as_os_str() == "-";
    let shown = if is_stdin { "'standard input'".into() } else { names::quoted(list) };
    let input: Box<dyn BufRead> = if is_stdin {
        Box::new(io::stdin().lock())
    } else {
        match File::open(list) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(error) => {
                screen.file_error(list, &error);
                return Ok(false);
            }
        }
    };

    let mut lines = Lines { input, number: 0, error: None };
    let mut tally = Tally::default();
    let mut improper = 0;
    let warnings = std::cell::RefCell::new(Vec::new());
    let jobs = std::iter::from_fn(|| {
        loop {
            let (number, line) = lines.next()?;
            match format.parse(&line).filter(|entry| !(is_stdin && entry.path.as_os_str() == "-")) {
                Some(entry) => {
                    let hasher = hasher.clone();
                    return Some(move || (entry.digest, hasher.hash(entry.path)));
                }
                None => {
                    improper += 1;
                    if args.warn {
                        warnings.borrow_mut().push(number);
                    }
                }
            }
        }
    });
    let tell = |screen: &Screen| {
        for number in warnings.borrow_mut().drain(..) {
            screen.message(&format!("{shown}: {number}: improperly formatted SHA512 checksum line"));
        }
    };
    pipeline::in_order(queue, jobs, screen, |screen, (expected, hashed)| {
        tell(screen);
        tally.take(args, screen, expected, hashed);
        screen.file_done()
    })?;
    tell(screen);
    tally.improper = improper;
    screen.flush()?;
    if let Some(error) = lines.error {
        screen.message(&format!("{shown}: read error: {}", screen::reason(&error)));
        return Ok(false);
    }
    Ok(tally.conclude(args, &shown, screen))
}

impl Tally {
    /// Counts and reports a file that has been hashed, or that could not be read.
    fn take(&mut self, args: &Args, screen: &mut Screen, expected: Digest, hashed: Hashed) {
        self.proper += 1;
        let verdict = match hashed.digest {
            Err(error) if args.ignore_missing && error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                self.unreadable += 1;
                screen.file_error(&hashed.path, &error);
                "FAILED open or read"
            }
            Ok(digest) if digest != expected => {
                self.mismatched += 1;
                "FAILED"
            }
            Ok(_) => {
                self.matched += 1;
                if args.quiet {
                    return;
                }
                "OK"
            }
        };
        if !args.status {
            screen.print(&names::verdict_line(&hashed.path, verdict));
        }
    }

    /// Reports the counts after the last file, and returns true on success.
    fn conclude(&self, args: &Args, shown: &str, screen: &Screen) -> bool {
        if self.proper == 0 {
            screen.message(&format!("{shown}: no properly formatted checksum lines found"));
            return false;
        }
        let warn = |count: u64, one: &str, many: &str| {
            if count > 0 && !args.status {
                screen.message(&format!("WARNING: {count} {}", if count == 1 { one } else { many }));
            }
        };
        warn(self.improper, "line is improperly formatted", "lines are improperly formatted");
        warn(self.unreadable, "listed file could not be read", "listed files could not be read");
        warn(self.mismatched, "computed checksum did NOT match", "computed checksums did NOT match");
        if args.ignore_missing && self.matched == 0 && !args.status {
            screen.message(&format!("{shown}: no file was verified"));
        }
        self.matched > 0
            && self.mismatched == 0
            && self.unreadable == 0
            && !(args.strict && self.improper > 0)
    }
}

/// The lines of a listing that are neither empty nor comments, with their numbers.
struct Lines {
    input: Box<dyn BufRead>,
    number: u64,
    error: Option<io::Error>,
}

impl Lines {
    fn next(&mut self) -> Option<(u64, Vec<u8>)> {
        loop {
            let mut line = Vec::new();
            match self.input.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    self.error = Some(error);
                    return None;
                }
            }
            self.number += 1;
            for end in [b'\n', b'\r'] {
                if line.last() == Some(&end) {
                    line.pop();
                }
            }
            if !line.is_empty() && line[0] != b'#' {
                return Some((self.number, line));
            }
        }
    }
}

/// A file, and its expected checksum.
struct Entry {
    digest: Digest,
    path: PathBuf,
}

/// The way in which lines separate the digest and the name. As in `sha512sum`, the first line decides for all lines of
/// all listings.
#[derive(Default)]
struct Format {
    /// Whether a single blank separates digest and name (BSD's `-r`), and not a blank and a mark.
    single_blank: Option<bool>,
}

impl Format {
    fn parse(&mut self, line: &[u8]) -> Option<Entry> {
        let line = line.trim_ascii_start();
        let (escaped, line) = match line {
            [b'\\', rest @ ..] => (true, rest),
            line => (false, line),
        };
        let (digits, name) = match line.strip_prefix(b"SHA512") {
            Some(rest) => Self::tagged(rest)?,
            None => self.plain(line)?,
        };
        let path = if escaped {
            names::unescape(name)?
        } else if name.contains(&0) {
            return None;
        } else {
            OsString::from_vec(name.to_vec()).into()
        };
        Some(Entry { digest: digest(digits)?, path })
    }

    /// Parses a line `SHA512 (name) = digits`, whose first word has been removed.
    fn tagged(rest: &[u8]) -> Option<(&[u8], &[u8])> {
        let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"(")?;
        let end = rest.iter().rposition(|byte| *byte == b')')?;
        let digits = rest[end + 1..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
        Some((digits, &rest[..end]))
    }

    /// Parses a line `digits name` or `digits *name`, or a line `digits name` of BSD's format.
    fn plain<'a>(&mut self, line: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let digits = line.get(..2 * size_of::<Digest>())?;
        digest(digits)?;
        let rest = &line[digits.len()..];
        let rest = rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"\t"))?;
        if rest.is_empty() {
            return None;
        }
        let marked = rest.len() > 1 && matches!(rest[0], b' ' | b'*');
        match (marked, self.single_blank) {
            (_, Some(true)) => {}
            (false, Some(false)) => return None,
            (marked, _) => self.single_blank = Some(!marked),
        }
        let name = if self.single_blank == Some(true) { rest } else { &rest[1..] };
        Some((digits, name))
    }
}

fn digest(digits: &[u8]) -> Option<Digest> {
    let mut digest = [0; size_of::<Digest>()];
    if digits.len() != 2 * digest.len() {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    for (byte, pair) in digest.iter_mut().zip(digits.chunks(2)) {
        *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
    }
    Some(digest)
}
