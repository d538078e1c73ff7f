//! The interface of `scheduled-thread-pool`, over cmwq.
//!
//! A job is an item with a timer. At the end of each run, a repeated job arms a timer for its next run, because its
//! function is an `FnMut` and its first delay may differ. Cancelling a job cancels its timer.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use cmwq::WorkQueue;

pub mod builder {
    //! Staged builder types.

    use super::{OnPoolDropBehavior, ScheduledThreadPool};

    pub struct NumThreadsStage(pub(crate) ());

    impl NumThreadsStage {
        pub fn num_threads<'a>(self, num_threads: usize) -> FinalStage<'a> {
            assert!(num_threads > 0, "num_threads must be positive");
            let on_drop_behavior = OnPoolDropBehavior::CompletePendingScheduled;
            FinalStage { num_threads, thread_name_pattern: None, on_drop_behavior }
        }
    }

    pub struct FinalStage<'a> {
        num_threads: usize,
        thread_name_pattern: Option<&'a str>,
        on_drop_behavior: OnPoolDropBehavior,
    }

    impl<'a> FinalStage<'a> {
        /// Names the queue. The threads belong to the executor.
        pub fn thread_name_pattern(mut self, thread_name_pattern: &'a str) -> Self {
            self.thread_name_pattern = Some(thread_name_pattern);
            self
        }

        pub fn on_drop_behavior(mut self, on_drop_behavior: OnPoolDropBehavior) -> Self {
            self.on_drop_behavior = on_drop_behavior;
            self
        }

        pub fn build(self) -> ScheduledThreadPool {
            let name = self.thread_name_pattern.unwrap_or("scheduled");
            ScheduledThreadPool::on(peer_queue::queue(name, self.num_threads), self.on_drop_behavior)
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnPoolDropBehavior {
    CompletePendingScheduled,
    DiscardPendingScheduled,
}

/// The handle of a job. Dropping it does not cancel the job.
#[derive(Debug)]
pub struct JobHandle(Arc<Mutex<Job>>);

impl JobHandle {
    pub fn cancel(&self) {
        end(&self.0);
    }
}

/// The part of a job that a cancellation changes.
#[derive(Debug, Default)]
struct Job {
    cancelled: bool,
    next: Option<cmwq::JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cancels a job. The job's function is dropped outside of the lock.
fn end(job: &Mutex<Job>) {
    let mut job = lock(job);
    job.cancelled = true;
    let next = job.next.take();
    drop(job);
    if let Some(handle) = next {
        handle.cancel();
    }
}

struct Shared {
    queue: WorkQueue,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shutdown: bool,
    jobs: Vec<Weak<Mutex<Job>>>,
}

pub struct ScheduledThreadPool {
    shared: Arc<Shared>,
    on_drop: OnPoolDropBehavior,
}

impl Drop for ScheduledThreadPool {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.shutdown = true;
        let jobs = mem::take(&mut state.jobs);
        drop(state);
        if self.on_drop == OnPoolDropBehavior::DiscardPendingScheduled {
            jobs.iter().filter_map(Weak::upgrade).for_each(|job| end(&job));
        }
    }
}

impl ScheduledThreadPool {
    pub fn new(num_threads: usize) -> Self {
        Self::builder().num_threads(num_threads).build()
    }

    pub fn builder() -> builder::NumThreadsStage {
        builder::NumThreadsStage(())
    }

    fn on(queue: WorkQueue, on_drop: OnPoolDropBehavior) -> Self {
        Self { shared: Arc::new(Shared { queue, state: Mutex::default() }), on_drop }
    }

    pub fn execute<F>(&self, job: F) -> JobHandle
    where
        F: FnOnce() + Send + 'static,
    {
        self.execute_after(Duration::ZERO, job)
    }

    pub fn execute_after<F>(&self, delay: Duration, job: F) -> JobHandle
    where
        F: FnOnce() + Send + 'static,
    {
        let mut job = Some(job);
        self.start(delay, move |_| {
            job.take().expect("it runs once")();
            None
        })
    }

    pub fn execute_at_fixed_rate<F>(&self, initial_delay: Duration, rate: Duration, mut f: F) -> JobHandle
    where
        F: FnMut() + Send + 'static,
    {
        self.start(initial_delay, move |due| {
            f();
            Some(due + rate)
        })
    }

    pub fn execute_at_dynamic_rate<F>(&self, initial_delay: Duration, mut f: F) -> JobHandle
    where
        F: FnMut() -> Option<Duration> + Send + 'static,
    {
        self.start(initial_delay, move |due| Some(due + f()?))
    }

    pub fn execute_with_fixed_delay<F>(&self, initial_delay: Duration, delay: Duration, mut f: F) -> JobHandle
    where
        F: FnMut() + Send + 'static,
    {
        self.start(initial_delay, move |_| {
            f();
            Some(Instant::now() + delay)
        })
    }

    pub fn execute_with_dynamic_delay<F>(&self, initial_delay: Duration, mut f: F) -> JobHandle
    where
        F: FnMut() -> Option<Duration> + Send + 'static,
    {
        self.start(initial_delay, move |_| Some(Instant::now() + f()?))
    }

    /// Starts a job. `run` gets the time at which it was due, and returns the time of its next run, or `None` for no
    /// further run.
    fn start(
        &self,
        delay: Duration,
        run: impl FnMut(Instant) -> Option<Instant> + Send + 'static,
    ) -> JobHandle {
        let job = Arc::new(Mutex::new(Job::default()));
        let mut state = lock(&self.shared.state);
        state.jobs.retain(|job| job.strong_count() > 0);
        state.jobs.push(Arc::downgrade(&job));
        drop(state);
        arm(Arc::clone(&self.shared), Arc::clone(&job), Instant::now() + delay, Box::new(run));
        JobHandle(job)
    }
}

type Run = Box<dyn FnMut(Instant) -> Option<Instant> + Send>;

fn arm(shared: Arc<Shared>, job: Arc<Mutex<Job>>, due: Instant, mut run: Run) {
    let queue = shared.queue.clone();
    let slot = Arc::clone(&job);
    // The lock is held until this function returns. So a cancellation either finds the new timer, or has set
    // `cancelled` before this check.
    let mut slot = lock(&slot);
    if slot.cancelled {
        return;
    }
    let item = move || {
        let Some(due) = run(due) else { return };
        if !lock(&shared.state).shutdown {
            arm(shared, job, due, run);
        }
    };
    let delay = due.saturating_duration_since(Instant::now());
    slot.next =
        Some(queue.item(|| peer_queue::run(item)).after(delay).spawn().expect("the queue accepts the job"));
}
