//! A write-ahead log with one writer.
//!
//! Records are collected in memory. One reusable item, the commit, writes all collected records, and one fsync makes
//! them durable. Each record queues the item, but queueing a pending item has no effect. So all records that arrive
//! during an fsync share the next fsync. The queue is ordered, so any other operation on the file, such as ending the
//! log, comes before or after a commit and never within a commit.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cmwq::{Work, WorkQueue};

pub(crate) struct Log {
    queue: WorkQueue,
    commit: Work,
    shared: Arc<Shared>,
}

struct Shared {
    /// Records that are not written yet, one after the other.
    gathered: Mutex<Vec<u8>>,
    /// The file of the log. One item uses it at a time, so the lock is never contended.
    file: Mutex<File>,
    commits: AtomicU64,
    failure: Mutex<Option<io::Error>>,
}

impl Log {
    pub(crate) fn create(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let shared = Arc::new(Shared {
            gathered: Mutex::new(Vec::new()),
            file: Mutex::new(File::create(path)?),
            commits: AtomicU64::new(0),
            failure: Mutex::new(None),
        });
        let commit = {
            let shared = Arc::clone(&shared);
            Work::new(move || shared.commit())
        };
        Ok(Self { queue: WorkQueue::ordered("log").rescuer(true).build()?, commit, shared })
    }

    /// Appends a record. When this returns, the record is on the disk.
    pub(crate) fn append(&self, record: &str) -> Result<(), Box<dyn std::error::Error>> {
        {
            let mut gathered = self.shared.gathered.lock().unwrap();
            let sum = checksum(record);
            writeln!(gathered, "{sum:016x} {record}")?;
        }
        // After each submission, the item runs at least once more, and that run sees all records written before.
        self.queue.enqueue(&self.commit)?;
        // The flush waits for that run.
        self.commit.flush()?;
        self.check()
    }

    /// Writes a last line after all commits. Returns the number of commits.
    pub(crate) fn end(self) -> Result<u64, Box<dyn std::error::Error>> {
        let shared = Arc::clone(&self.shared);
        let last = self.queue.spawn(move || {
            shared.commit();
            let mut file = shared.file.lock().unwrap();
            cmwq::blocking(|| writeln!(file, "end").and_then(|()| file.sync_data()))
        })?;
        last.join()??;
        self.check()?;
        Ok(self.shared.commits.load(Ordering::Relaxed))
    }

    /// Returns an error if any commit has failed.
    fn check(&self) -> Result<(), Box<dyn std::error::Error>> {
        match &*self.shared.failure.lock().unwrap() {
            None => Ok(()),
            Some(error) => Err(format!("the log cannot be written: {error}").into()),
        }
    }
}

impl Shared {
    /// Writes the collected records and waits for the disk, in an item.
    fn commit(&self) {
        let batch = std::mem::take(&mut *self.gathered.lock().unwrap());
        if batch.is_empty() {
            return;
        }
        let mut file = self.file.lock().unwrap();
        // While the disk is busy, the worker does not count as running.
        if let Err(error) = cmwq::blocking(|| file.write_all(&batch).and_then(|()| file.sync_data())) {
            self.failure.lock().unwrap().get_or_insert(error);
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the FNV-1a checksum, which distinguishes torn records from complete records.
pub(crate) fn checksum(record: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    record.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
