//! Many items in flight, their results in the order in which they were queued.

use std::collections::VecDeque;
use std::io;

use cmwq::{JoinError, JoinHandle, WorkQueue};

use crate::screen::Screen;

/// How many results may wait for an earlier one. Each is a name and a digest, so a large file at the front does not
/// stop the others for long, and a tree of a million files does not pile up in memory.
const IN_FLIGHT: usize = 4096;

/// Runs the jobs on the queue and gives their results to `each`, in order, while later ones are computed.
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

/// Waits for the first result.
fn first<T>(flight: &mut VecDeque<JoinHandle<T>>, screen: &mut Screen) -> io::Result<Option<T>> {
    let Some(handle) = flight.pop_front() else { return Ok(None) };
    if !handle.is_finished() {
        // What is known so far is shown before a wait, as long as that may be.
        screen.flush()?;
    }
    match handle.join() {
        Ok(result) => Ok(Some(result)),
        Err(JoinError::Panicked(panic)) => std::panic::resume_unwind(panic.into_inner()),
        Err(error) => unreachable!("nobody cancels items, and this thread is none: {error}"),
    }
}
