//! Files to read, of which nothing is in memory, as far as the system does as it is told.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const PAGES: usize = 32;
const BYTES: usize = 1 << 20;

pub(crate) struct Pages {
    directory: PathBuf,
}

impl Pages {
    pub(crate) fn write() -> io::Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("cmwq-undeclared-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let pages = Self { directory: std::env::temp_dir().join(name) };
        fs::create_dir(&pages.directory)?;
        for number in 0..PAGES {
            let path = pages.path(number);
            fs::write(&path, vec![number as u8; BYTES])?;
            // What is not on the disk yet cannot be dropped.
            File::open(&path)?.sync_all()?;
        }
        Ok(pages)
    }

    /// A page, of which nothing is in memory.
    pub(crate) fn open(&self, number: usize) -> io::Result<File> {
        let file = File::open(self.path(number % PAGES))?;
        forget(&file);
        Ok(file)
    }

    fn path(&self, number: usize) -> PathBuf {
        self.directory.join(format!("page-{number}"))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("undeclared: {} is left behind: {error}", self.directory.display());
        }
    }
}

/// Best effort: a read from memory does not block, and nobody is to be listed for it.
#[cfg(target_os = "linux")]
fn forget(file: &File) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).ok();
}

#[cfg(not(target_os = "linux"))]
fn forget(_file: &File) {}
