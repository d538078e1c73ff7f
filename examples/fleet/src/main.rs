//! A fleet of consumers, for more jobs than one machine can run. Redis distributes the jobs, and on each machine cmwq
//! runs as many jobs as the machine can bear.
//!
//! ```text
//! cargo run --release -- work                      # on each machine, as often as you like
//! seq 1000 | cargo run --release -- add            # a job for each line
//! cargo run --release -- status
//! redis-cli XRANGE '{fleet}:results' - + COUNT 3   # what the jobs have computed
//! kill -TERM ...                                   # the consumer finishes its jobs, and ends
//! kill -KILL ...                                   # after a while, the other consumers take its jobs over
//! ```
//!
//! Each job runs **at least once**. A job runs again if, before the job is acknowledged, its consumer dies or is cut
//! off for longer than `--claim`. So a job must be *idempotent*: in this example, its result is stored only once, under
//! the name of the job. One command stores the result and acknowledges the job, so neither can happen alone.
//!
//! * **Permits decide how much is fetched** (`work.rs`). A consumer asks Redis for as many jobs as it has free places
//!   in its queue. Jobs that this machine cannot bear stay in Redis, where other machines see them.
//! * **One item stores the results of all jobs** (`store.rs`). Results that come while this item waits for Redis share
//!   the next command. The item runs on an unbound queue, so it never waits for a computing job. A job ends when its
//!   result is stored, so `--active` also bounds the jobs that are not acknowledged.
//! * **A heartbeat keeps slow jobs** with their consumer (`hand.rs`). It runs on an unbound queue, so it never waits
//!   for a computing job.
//! * **If Redis goes away** (`link.rs`), consumers keep their jobs and their results, print a message, and try again
//!   after growing pauses.
//! * **A job that fails, or kills its consumer**, is taken over after `--claim`, like the jobs of a consumer that died.
//!   After `--attempts`, the job is moved to a stream for failed jobs.
//! * **On SIGTERM**, a consumer fetches no more jobs, and finishes the jobs that it has. Jobs that take longer than
//!   `--grace` are given back, and other consumers take them over immediately.

mod args;
mod ending;
mod hand;
mod job;
mod link;
mod store;
mod stream;
mod work;

use std::error::Error;
use std::io::{self, BufRead};
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use crate::args::{Action, Add, Args, HELP};
use crate::ending::Ending;
use crate::link::Link;
use crate::stream::Stream;

fn main() -> ExitCode {
    let args = match args::parse(lexopt::Parser::from_env()) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("fleet: {error}\nTry 'fleet --help' for more information.");
            return ExitCode::from(2);
        }
    };
    // The main thread gets the signals. The program runs on another thread, because a signal that interrupts a wait for
    // Redis would lose the answer.
    match thread::spawn(|| run(args)).join() {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("fleet: {error}");
            ExitCode::FAILURE
        }
        Err(panic) => resume_unwind(panic),
    }
}

fn run(args: Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let stream = Stream::new(&args.fleet);
    let link = Link::new(args.redis, stream.clone(), Arc::new(Ending::on_signals()?));
    match args.action {
        Action::Work(work) => work::run(&work, &stream, &link),
        Action::Add(add) => add_jobs(add, &stream, link),
        Action::Status => {
            let mut link = link.to("read the status");
            print!("{}", link.call(|redis| stream.status(redis))?);
            Ok(())
        }
    }
}

/// Adds a job for each name. If Redis goes away during the call, some jobs may be added twice, but their results are
/// stored only once.
fn add_jobs(add: Add, stream: &Stream, link: Link) -> Result<(), Box<dyn Error + Send + Sync>> {
    /// The number of jobs in one request.
    const CHUNK: usize = 1000;
    let mut link = link.to("add jobs");
    let mut names = match add.names {
        names if names.is_empty() => io::stdin().lock().lines().collect::<Result<_, _>>()?,
        names => names,
    };
    let count = names.len();
    while !names.is_empty() {
        let chunk: Vec<String> = names.drain(..names.len().min(CHUNK)).collect();
        link.call(|redis| stream.add(redis, &chunk, add.rounds, add.pause))?;
    }
    println!("added {count}");
    Ok(())
}
