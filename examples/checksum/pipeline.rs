//! Runs many items at the same time, and returns their results in the order in which the items were queued.

use std::collections::VecDeque;
use std::io;

use cmwq::{JoinError, JoinHandle, WorkQueue};

use crate::screen::Screen;

/// The number of results that may wait for an earlier result. It is so large that a large file at the front rarely
/// stops the later files. It is bounded so that the results for a million files, each with a name and a digest, do not
/// fill the memory.
const IN_FLIGHT: usize = 4096;

/// Runs the jobs on the queue and passes their results to `each`, in order, while the queue runs later jobs.
pub(crate) fn in_order<J, T>(
    queue: &WorkQueue,
    jobs: impl Iterator<Item = J>,
    screen: &mut Screen,
    mut each: impl FnMut(&mut Screen, T) -> io::Result<()>,
) -> io::Result<()>
where
    J: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let mut flight: VecDeque<JoinHandle<T>> = VecDeque::new();
    for job in jobs {
        let handle = queue.spawn(job).expect("the queue takes as many as come");
        flight.push_back(handle);
        while flight.len() > IN_FLIGHT || flight.front().is_some_and(JoinHandle::is_finished) {
            let result = first(&mut flight, screen)?;
            result.map_or(Ok(()), |result| each(screen, result))?;
        }
    }
    while let Some(result) = first(&mut flight, screen)? {
        each(screen, result)?;
    }
    Ok(())
}

/// Returns the first result, and waits for it if necessary.
fn first<T>(flight: &mut VecDeque<JoinHandle<T>>, screen: &mut Screen) -> io::Result<Option<T>> {
    let Some(handle) = flight.pop_front() else { return Ok(None) };
    if !handle.is_finished() {
        // The results so far are written before the wait, because it may be long.
        screen.flush()?;
    }
    match handle.join() {
        Ok(result) => Ok(Some(result)),
        Err(JoinError::Panicked(panic)) => std::panic::resume_unwind(panic.into_inner()),
        Err(error) => unreachable!("no item is cancelled, and this thread runs none: {error}"),
    }
}
