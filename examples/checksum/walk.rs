//! The regular files under some paths, in the bytewise order of their full names.
//!
//! The walk itself produces the order. It sorts the entries of a directory as if the names of directories ended in `/`,
//! because the full names of the files below a directory continue with `/`. So the memory holds only the entries of the
//! directories on the way down, and not the whole tree.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A file to hash, or a path that could not be read, with the reason.
pub(crate) type Found = Result<PathBuf, (PathBuf, io::Error)>;

/// Returns all files under all paths. A file that is reached twice is returned twice.
pub(crate) fn files(paths: &[PathBuf]) -> impl Iterator<Item = Found> + use<> {
    // A path may lie below another path, so the files of the two walks interleave. The next file is always the smallest
    // among the next files of all walks.
    let heads = paths.iter().filter_map(|path| Head::of(Walk::new(path))).map(Reverse).collect();
    Merged { heads }
}

struct Merged {
    heads: BinaryHeap<Reverse<Head>>,
}

/// A walk, and the file that it found last.
struct Head {
    found: Found,
    rest: Walk,
}

/// A walk under one path.
struct Walk {
    /// The remaining steps. The last one is next.
    stack: Vec<Step>,
}

enum Step {
    Give(Found),
    /// Enters a directory, whose path ends in `/`.
    Enter(Vec<u8>),
}

impl Iterator for Merged {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let mut head = self.heads.peek_mut()?;
        match head.0.rest.next() {
            Some(next) => Some(std::mem::replace(&mut head.0.found, next)),
            None => Some(PeekMut::pop(head).0.found),
        }
    }
}

impl Head {
    fn of(mut walk: Walk) -> Option<Self> {
        let found = walk.next()?;
        Some(Self { found, rest: walk })
    }

    fn name(&self) -> &[u8] {
        let (Ok(path) | Err((path, _))) = &self.found;
        path.as_os_str().as_bytes()
    }
}

impl Walk {
    fn new(path: &Path) -> Self {
        let step = match fs::symlink_metadata(path) {
            // `-` means standard input, as in `sha512sum`.
            _ if path.as_os_str() == "-" => Step::Give(Ok(path.into())),
            Ok(about) if about.is_dir() => Step::Enter(with_slash(path.as_os_str().as_bytes().to_vec())),
            Ok(about) if about.is_file() => Step::Give(Ok(path.into())),
            // A file of this kind is skipped below a directory. But this file was named on the command line.
            Ok(about) => {
                let what = if about.is_symlink() {
                    "Is a symbolic link, which is not followed"
                } else {
                    "Not a regular file or directory"
                };
                Step::Give(Err((path.into(), io::Error::other(what))))
            }
            Err(error) => Step::Give(Err((path.into(), error))),
        };
        Self { stack: vec![step] }
    }

    /// Pushes the entries of a directory onto the stack.
    fn enter(&mut self, directory: Vec<u8>) {
        let path = path_of(directory.clone());
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) => return self.stack.push(Step::Give(Err((without_slash(directory), error)))),
        };
        let mut steps = Vec::new();
        for entry in entries {
            match entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?))) {
                Ok((name, kind)) => {
                    let mut full = directory.clone();
                    full.extend_from_slice(name.as_bytes());
                    if kind.is_dir() {
                        steps.push(Step::Enter(with_slash(full)));
                    } else if kind.is_file() {
                        steps.push(Step::Give(Ok(path_of(full))));
                    }
                }
                Err(error) => steps.push(Step::Give(Err((without_slash(directory.clone()), error)))),
            }
        }
        steps.sort_unstable_by(|a, b| b.name().cmp(a.name()));
        self.stack.append(&mut steps);
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            match self.stack.pop()? {
                Step::Give(found) => return Some(found),
                Step::Enter(directory) => self.enter(directory),
            }
        }
    }
}

impl Step {
    fn name(&self) -> &[u8] {
        match self {
            Self::Give(Ok(path) | Err((path, _))) => path.as_os_str().as_bytes(),
            Self::Enter(path) => path,
        }
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Head {}

fn with_slash(mut path: Vec<u8>) -> Vec<u8> {
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path
}

/// Returns the path for a message, as the command line or the parent directory named it.
fn without_slash(mut path: Vec<u8>) -> PathBuf {
    if path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    path_of(path)
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}
