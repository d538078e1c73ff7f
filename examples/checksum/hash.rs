//! The item that hashes one file.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cmwq::blocking;
use sha2::{Digest as _, Sha512};

use crate::screen::Progress;

/// The number of files that may wait for the disk while one file for each CPU is hashed. It bounds the threads and the
/// memory, because each file occupies a thread and a chunk.
pub(crate) const MAX_WAITING_FILES: usize = 16;

/// The size of a chunk in bytes. It is so large that a guard around each read costs nothing compared with the hash of
/// the chunk.
const CHUNK: usize = 256 * 1024;

pub(crate) type Digest = [u8; 64];

/// The outcome for one file.
pub(crate) struct Hashed {
    pub(crate) path: PathBuf,
    pub(crate) digest: io::Result<Digest>,
}

/// Hashes files and updates the progress bar.
#[derive(Clone)]
pub(crate) struct Hasher {
    progress: Arc<Progress>,
}

thread_local! {
    /// The chunk of a worker, which keeps it from item to item.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Hasher {
    pub(crate) fn new(progress: Arc<Progress>) -> Self {
        Self { progress }
    }

    pub(crate) fn hash(&self, path: PathBuf) -> Hashed {
        let digest = BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(CHUNK, 0);
            self.stream(&path, buffer)
        });
        Hashed { path, digest }
    }

    fn stream(&self, path: &Path, buffer: &mut [u8]) -> io::Result<Digest> {
        // One guard covers as much as possible, because most files end within the first chunk.
        let (mut file, mut got) = blocking(|| {
            let mut file = open(path)?;
            let got = fill(&mut file, buffer)?;
            io::Result::Ok((file, got))
        })?;
        let mut hasher = Sha512::new();
        loop {
            hasher.update(&buffer[..got]);
            self.progress.hashed(got as u64);
            if got < buffer.len() {
                return Ok(hasher.finalize().into());
            }
            got = blocking(|| fill(&mut file, buffer))?;
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str() == "-" {
        return io::stdin().as_fd().try_clone_to_owned().map(File::from);
    }
    File::open(path)
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
