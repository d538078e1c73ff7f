//! Files that are not in memory, if the system follows the request to drop them.

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
            // Only data that is on the disk can be dropped from memory.
            File::open(&path)?.sync_all()?;
        }
        Ok(pages)
    }

    /// Opens a file, and drops its contents from memory.
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

/// Asks the system to drop a file from memory. If the file stays in memory, the read does not block, and the item is
/// not listed as an offender.
#[cfg(target_os = "linux")]
fn forget(file: &File) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).ok();
}

#[cfg(not(target_os = "linux"))]
fn forget(_file: &File) {}
