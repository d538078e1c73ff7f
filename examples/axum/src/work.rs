//! The queues of the service, and their items.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use cmwq::metrics::Collector;
use cmwq::{Attrs, Cancelled, Executor, JoinError, JoinHandle, Permit, QueueError, StopOnDrop, WorkQueue};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use sha2::{Digest, Sha512};

use crate::args::Args;

/// The longest accepted body, and the longest file, in bytes.
pub(crate) const MOST_BYTES: usize = 16 << 20;

/// The number of rounds between two checks of the token. A round takes a third of a microsecond, and a check some
/// nanoseconds.
const ROUNDS_BETWEEN_LOOKS: u64 = 64;

/// The queues, and the data that their items need. A clone is cheap, and each request has a clone.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) hashes: WorkQueue,
    pub(crate) files: WorkQueue,
    pub(crate) patience: Duration,
    folder: PathBuf,
    exporter: PrometheusHandle,
    collector: Arc<Mutex<Collector>>,
}

impl Work {
    pub(crate) fn new(args: &Args) -> Result<Self, Box<dyn Error>> {
        let queue =
            |name: &str| WorkQueue::builder(name).max_active_total(args.active).max_pending(args.pending);
        Ok(Self {
            // These items compute. Their nice level makes the system prefer the runtime's threads, which answer health
            // checks.
            hashes: queue("hashes").attrs(Attrs::new().nice(10)).build()?,
            files: queue("files").build()?,
            patience: args.patience,
            folder: args.files.clone(),
            exporter: PrometheusBuilder::new().install_recorder()?,
            collector: Arc::new(Mutex::new(Collector::new(Executor::global()))),
        })
    }

    /// Queues an item that computes a hash. The item uses the place that the permit reserves. It ends early if the
    /// client goes away or the grace period is over.
    pub(crate) fn hash(
        permit: Permit,
        data: impl AsRef<[u8]> + Send + 'static,
        rounds: u64,
    ) -> Running<Result<String, Cancelled>> {
        Running::new(permit, move || {
            let token = cmwq::cancel_token();
            let mut sum = Sha512::digest(data);
            for round in 1..rounds {
                if round % ROUNDS_BETWEEN_LOOKS == 0 {
                    token.check()?;
                }
                sum = Sha512::digest(sum);
            }
            Ok(sum.iter().map(|byte| format!("{byte:02x}")).collect())
        })
    }

    /// Queues an item that reads a file. The item uses the place that the permit reserves. While the item waits for the
    /// disk, its worker does not count as running, and another item runs.
    pub(crate) fn read(&self, permit: Permit, name: &Path) -> Running<io::Result<Vec<u8>>> {
        let path = self.folder.join(name);
        Running::new(permit, move || cmwq::blocking(|| read(&path)))
    }

    /// Returns the present numbers in the format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        self.collector.lock().unwrap_or_else(PoisonError::into_inner).collect();
        // An exporter with a listener does this itself, but this program has no listener.
        self.exporter.run_upkeep();
        self.exporter.render()
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    File::open(path)?.take(MOST_BYTES as u64 + 1).read_to_end(&mut data)?;
    if data.len() > MOST_BYTES { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(data) }
}

/// An item that a request awaits. If the client goes away, this value is dropped. The drop cancels an item that has not
/// begun, and asks an item that has begun to stop.
pub(crate) struct Running<T>(Result<StopOnDrop<T>, QueueError>);

/// The reason why a request has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    Refused(QueueError),
    Ended(JoinError),
}

impl<T: Send + 'static> Running<T> {
    fn new(permit: Permit, item: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(permit.spawn(item).map(JoinHandle::stop_on_drop).map_err(|refused| refused.error))
    }
}

impl<T> Future for Running<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(handle) => Pin::new(handle).poll(context).map_err(Failure::Ended),
            Err(error) => Poll::Ready(Err(Failure::Refused(*error))),
        }
    }
}
