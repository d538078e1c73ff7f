//! A small HTTP service with a bounded queue behind it.
//!
//! ```text
//! cargo run --release --example service -- --listen 127.0.0.1:8080
//! curl http://127.0.0.1:8080/                             # a list of the requests
//! curl --data-binary @file http://127.0.0.1:8080/jobs     # the file's SHA-512
//! curl -d secret 'http://127.0.0.1:8080/jobs?rounds=100000'
//! curl http://127.0.0.1:8080/stats
//! curl http://127.0.0.1:8080/metrics                      # with --features metrics
//! kill -TERM ...                                          # finishes the accepted jobs, and ends
//! ```
//!
//! This example shows:
//!
//! * **Load shedding.** The queue's `max_pending` is the bound. Beyond it, `spawn` hands the closure back, with the
//!   request in it, which is answered with 503 and `Retry-After`.
//! * **Items that compute and block.** One item reads the body, computes and answers, written plainly. While it waits
//!   for the client it does not count, so slow clients cost no CPU, and as many jobs compute as there are CPUs.
//! * **Periodic work** beside it, on a queue of its own that costs no thread.
//! * **Metrics** (built with `--features metrics`): `GET /metrics`, for Prometheus, by the crates `metrics` and
//!   `metrics-exporter-prometheus`.
//! * **Control** (built with `--features control`): a Unix socket serves the executor. Clients can observe it, and
//!   change queues marked `control`. `--load 2000` gives more to observe:
//!
//!   ```text
//!   cargo run --release --example service --features control,metrics -- --load 2000
//!   cargo run --release -p cmwqctl -- top                   # in another terminal
//!   cargo run --release -p cmwqctl -- set mail max_active 8
//!   ```
//! * **A clean end.** On SIGTERM (or SIGINT) it stops accepting, and `GlobalExecutor::shutdown` finishes the accepted
//!   jobs. Jobs that take longer than `--grace` are dropped and reported; a dropped request is answered with 500.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod args;
mod jobs;
mod load;
#[cfg(feature = "metrics")]
mod numbers;
mod observed;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cmwq::{Executor, PeriodicHandle, QueueError, WorkQueue};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tiny_http::{Method, Request, Server};

use crate::args::{Args, HELP};
use crate::jobs::{Account, Jobs};
use crate::load::Load;
use crate::observed::Observed;

const ABOUT: &str = "POST /jobs           the SHA-512 of the body, in hexadecimal
POST /jobs?rounds=N  the SHA-512 of that, and so on: N times
GET  /stats          the counts of the jobs
GET  /metrics        numbers for Prometheus, if built with the feature metrics
";

fn main() -> ExitCode {
    let args = match args::parse(lexopt::Parser::from_env()) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("service: {error}\nTry 'service --help' for more information.");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("service: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let server = match Server::http(&args.listen) {
        Ok(server) => Arc::new(server),
        Err(error) => return Err(format!("cannot listen on {}: {error}", args.listen).into()),
    };
    // This value permits the program to end the executor that all its queues use.
    let executor = Executor::builder().build_global()?;
    let jobs = Jobs::new(args)?;
    let account = Arc::clone(jobs.account());
    let housekeeping = WorkQueue::new("housekeeping");
    let rate = measure_rate(&housekeeping, &account)?;
    let stopping = stop_on_signal(&server)?;
    println!("listening on http://{}", server.server_addr());
    // The load starts before the addresses are printed, so that clients find its queues.
    let load = if args.load > 0 { Some(Load::start(args.load)?) } else { None };
    let observed = Observed::start(&server)?;

    let ended = loop {
        match server.recv() {
            Ok(request) => route(request, &jobs, &observed),
            Err(_) if stopping.load(Relaxed) => break Ok(()),
            Err(error) => break Err(error),
        }
    };

    println!("stopping: {account}");
    // Requests that were not accepted are refused with an answer; connections that arrive now are closed.
    while let Ok(Some(request)) = server.try_recv() {
        jobs.refuse(request);
    }
    drop((server, rate, load));
    let report = executor.shutdown(args.grace)?;
    println!("stopped: {account}");
    println!("{report}");
    match report.is_complete() && account.accepted.load(Relaxed) == account.finished.load(Relaxed) {
        true => Ok(ended?),
        false => Err("not every accepted job was finished".into()),
    }
}

fn route(request: Request, jobs: &Jobs, observed: &Observed) {
    let path = request.url().split('?').next().unwrap_or_default();
    match (request.method(), path) {
        (Method::Post, "/jobs") => jobs.submit(request),
        (Method::Get, "/") => jobs.answer(request, 200, ABOUT.to_owned()),
        (Method::Get, "/stats") => jobs.answer(request, 200, format!("{}\n", jobs.account())),
        (Method::Get, "/metrics") => match observed.metrics() {
            Some(text) => jobs.answer_by(request, move || (200, text())),
            None => jobs.answer(request, 404, "this was built without the feature metrics\n".to_owned()),
        },
        (_, "/" | "/jobs" | "/stats" | "/metrics") => jobs.answer(request, 405, ABOUT.to_owned()),
        _ => jobs.answer(request, 404, ABOUT.to_owned()),
    }
}

/// Counts once a second how many jobs finished in that second.
fn measure_rate(queue: &WorkQueue, account: &Arc<Account>) -> Result<PeriodicHandle, QueueError> {
    let account = Arc::clone(account);
    let before = AtomicU64::new(0);
    let measure = move || {
        let finished = account.finished.load(Relaxed);
        account.rate.store(finished - before.swap(finished, Relaxed), Relaxed);
    };
    Ok(queue.item(measure).spawn_every(Duration::from_secs(1))?)
}

/// Starts a thread that waits for the signal and then wakes the accepting thread.
fn stop_on_signal(server: &Arc<Server>) -> Result<Arc<AtomicBool>, Box<dyn Error>> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let (server, stopping) = (Arc::downgrade(server), Arc::new(AtomicBool::new(false)));
    let stop = Arc::clone(&stopping);
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.store(true, Relaxed);
            if let Some(server) = server.upgrade() {
                server.unblock();
            }
        }
    });
    Ok(stopping)
}
