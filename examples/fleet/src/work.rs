//! The consumer. It fetches jobs, runs them, and takes over the jobs of consumers that died.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cmwq::{Executor, Permit, QueueError, WaitError, WorkQueue};
use redis::RedisError;

use crate::args::Work;
use crate::ending::Step;
use crate::hand::{Hand, Held};
use crate::job::Job;
use crate::link::Link;
use crate::store::{Finished, Store};
use crate::stream::{Abandoned, Entry, Stream};

/// The number of times in the time `--claim` that a consumer looks for abandoned jobs.
const LOOKS: u32 = 4;

struct Consumer<'a> {
    args: &'a Work,
    stream: &'a Stream,
    jobs: WorkQueue,
    hand: Arc<Hand>,
    store: Arc<Store>,
}

pub(crate) fn run(args: &Work, stream: &Stream, link: &Link) -> Result<(), Box<dyn Error + Send + Sync>> {
    // This value permits the program to end the executor that all its queues use.
    let executor = Executor::builder().build_global()?;
    let jobs = WorkQueue::builder("jobs").max_active_total(args.active).max_pending(args.pending).build()?;
    let (hand, store) = (Arc::new(Hand::default()), Arc::new(Store::new(stream, link)?));
    let consumer = Consumer { args, stream, jobs, hand, store };
    let mut requests = link.to("fetch jobs");
    let fetched = {
        let _heartbeat = consumer.hand.beat(stream, &args.name, args.claim, link)?;
        eprintln!("fleet: {} takes jobs", args.name);
        let fetched = consumer.fetch_until_asked(&mut requests);
        // The heartbeat continues until the last job is done.
        consumer.finish(fetched.is_ok());
        fetched
    };

    link.ending().set_over();
    let left = consumer.hand.ids().len();
    // Drops the jobs that have not begun. Jobs that run are not interrupted, and end with the process.
    executor.shutdown(Duration::ZERO)?;
    // This request gives back the jobs in hand, and jobs whose message was lost when the connection broke.
    match requests.attempt(|redis| stream.give_back(redis, &args.name, args.claim)) {
        // If this request fails, the consumer's name stays in Redis until another consumer removes it at its own end.
        Ok(0) => drop(requests.attempt(|redis| stream.leave(redis, &args.name, 100 * args.claim))),
        Ok(jobs) => eprintln!("fleet: {jobs} jobs are given back"),
        Err(error) => {
            eprintln!(
                "fleet: {left} jobs are taken over in {:?}, because they cannot be given back: {error}",
                args.claim
            );
        }
    }
    eprintln!("fleet: {} has ended", args.name);
    fetched
}

impl Consumer<'_> {
    fn fetch_until_asked(&self, link: &mut Link) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut next_look = Instant::now();
        loop {
            let mut permits = self.permits()?;
            if link.ending().has_come(Step::Asked) {
                return Ok(());
            }
            let fetched = if Instant::now() >= next_look && !permits.is_empty() {
                next_look = Instant::now() + self.args.claim / LOOKS;
                self.take_over(link, permits.len())
            } else if !permits.is_empty() {
                link.call(|redis| self.stream.fetch(redis, &self.args.name, permits.len()))
            } else {
                continue;
            };
            match fetched {
                Ok(entries) => entries.into_iter().try_for_each(|entry| self.begin(entry, permits.pop()))?,
                Err(_) if link.ending().has_come(Step::Asked) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the queue has room. Returns a permit for each job that fits, or no permits if the queue has no room
    /// for a while.
    fn permits(&self) -> Result<Vec<Permit>, QueueError> {
        let first = match self.jobs.reserve_timeout(Duration::from_millis(250)) {
            Ok(permit) => permit,
            Err(QueueError::Full) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut permits = vec![first];
        permits.extend(std::iter::from_fn(|| self.jobs.try_reserve().ok()).take(self.args.pending - 1));
        Ok(permits)
    }

    /// Takes over at most `count` jobs of silent consumers. Jobs that were tried too often are set aside.
    fn take_over(&self, link: &mut Link, count: usize) -> Result<Vec<Entry>, RedisError> {
        let Work { name, claim, attempts, .. } = self.args;
        let mut abandoned = link.call(|redis| self.stream.abandoned(redis, *claim, count))?;
        // After a long stall, this consumer's own jobs seem abandoned, too. The next heartbeat corrects that.
        abandoned.retain(|job| !self.hand.has(&job.id));
        let (hopeless, others): (Vec<Abandoned>, _) =
            abandoned.into_iter().partition(|job| job.deliveries >= *attempts);
        if !hopeless.is_empty() {
            let ids: Vec<String> = hopeless.into_iter().map(|job| job.id).collect();
            let moved = link.call(|redis| self.stream.set_aside(redis, name, *claim, &ids))?;
            eprintln!("fleet: set {moved} jobs aside, after {attempts} attempts: {}", ids.join(" "));
        }
        let ids: Vec<String> = others.iter().map(|job| job.id.clone()).collect();
        let taken = link.call(|redis| self.stream.take_over(redis, name, *claim, &ids))?;
        for job in others.iter().filter(|job| taken.iter().any(|entry| entry.id == job.id)) {
            eprintln!("fleet: took {} over from {}", job.id, job.consumer);
        }
        Ok(taken)
    }

    /// Queues a job in the place that the permit reserves.
    fn begin(&self, entry: Entry, permit: Option<Permit>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let permit = permit.ok_or("Redis has sent more jobs than it was asked for")?;
        let Some(held) = self.hand.take(entry.id.clone()) else { return Ok(()) };
        let store = Arc::clone(&self.store);
        permit.spawn_detached(move || {
            let id = held.id.clone();
            if let Err(error) = execute(held, &entry, &store) {
                // The job is not in hand any more. So after a while the job counts as abandoned, and is tried again.
                eprintln!("fleet: the job {id} has failed: {error}");
            }
        })?;
        Ok(())
    }

    /// Waits until all jobs in hand are done, or until the grace period is over.
    fn finish(&self, is_asked: bool) {
        if is_asked {
            eprintln!("fleet: stopping, with {} jobs in hand", self.hand.ids().len());
        }
        match self.jobs.drain_timeout(self.args.grace) {
            Ok(()) | Err(WaitError::TimedOut) => {}
            Err(error) => eprintln!("fleet: {error}"),
        }
    }
}

/// Runs a job and stores its result, in an item.
fn execute(held: Held, entry: &Entry, store: &Store) -> Result<(), Box<dyn Error + Send + Sync>> {
    let job = Job::parse(&entry.fields)?;
    let result = job.run();
    store.put(Finished { held, name: job.name, result })
}
