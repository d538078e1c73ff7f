//! An axum service whose work runs on cmwq.
//!
//! ```text
//! cargo run --release -- --listen 127.0.0.1:8080 --files /usr/share/doc/bash
//! curl --data-binary @file http://127.0.0.1:8080/hash     # the file's SHA-512
//! curl -d secret 'http://127.0.0.1:8080/hash?rounds=100000'
//! curl http://127.0.0.1:8080/files/copyright              # a file of the folder
//! curl http://127.0.0.1:8080/health
//! curl http://127.0.0.1:8080/metrics                      # for Prometheus
//! kill -TERM ...                                          # finishes the requests, and ends
//! ```
//!
//! tokio's threads only do HTTP. Code that computes or blocks is an item of a queue. The item's handle is a future,
//! which the request awaits. So the service answers `/health` even while all CPUs compute.
//!
//! * **A queue for each kind of work** (`work.rs`), each with a limit of its own. The items of `hashes` compute, so as
//!   many run as there are CPUs. The items of `files` block under a guard, and do not count as running while they
//!   block.
//! * **Load shedding** (`routes.rs`). Each request reserves a place in its queue before it reads the body. If the queue
//!   has no free place, `/hash` immediately answers 503 with `Retry-After`. `/files` first waits for a place for the
//!   time `--patience`, and then gives the same answer.
//! * **Clients that go away** (`work.rs`). If a client closes its connection, axum drops the future of the request. An
//!   item that has not begun is then cancelled, and an item that computes ends early.
//! * **A clean end.** On SIGTERM or SIGINT, the service accepts no more connections, finishes its requests, and shuts
//!   the executor down. Requests that take longer than `--grace` are cut off, and the exit code is 1.

mod args;
mod routes;
mod work;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use cmwq::Executor;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::args::{Args, HELP};
use crate::work::Work;

/// Receives the moment of the signal when the signal has come.
type Asked = watch::Receiver<Option<Instant>>;

fn main() -> ExitCode {
    let args = match args::parse(lexopt::Parser::from_env()) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("axum-service: {error}\nTry 'axum-service --help' for more information.");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("axum-service: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    // This value permits the program to end the executor that all its queues use.
    let executor = Executor::builder().build_global()?;
    let work = Work::new(args)?;
    let listener = TcpListener::bind(&args.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    let asked = asked_by_signal()?;
    println!("listening on http://{}", listener.local_addr()?);

    let end = asked.clone();
    let serve = axum::serve(listener, routes::router(work)).with_graceful_shutdown(async move {
        let _begin = moment(end).await;
    });
    let late = async { sleep_until(moment(asked.clone()).await + args.grace).await };
    let is_late = tokio::select! {
        served = serve => { served?; false }
        () = late => true,
    };
    println!("stopping{}", if is_late { ", with requests that took too long" } else { "" });

    // The shutdown gets the remaining part of the grace period, because items whose clients went away may still run.
    let begin = *asked.borrow();
    let rest = begin.map_or(Duration::ZERO, |begin| args.grace.saturating_sub(begin.elapsed()));
    let report = executor.shutdown_async(rest).await?;
    println!("{report}");
    if is_late || !report.is_complete() { Err("not every request was finished".into()) } else { Ok(()) }
}

/// Starts a task that waits for SIGTERM or SIGINT, which asks the service to end.
fn asked_by_signal() -> Result<Asked, Box<dyn Error>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (tell, told) = watch::channel(None);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tell.send_replace(Some(Instant::now()));
    });
    Ok(told)
}

/// Waits for the signal, and returns its moment.
async fn moment(mut asked: Asked) -> Instant {
    let moment = asked.wait_for(Option::is_some).await.ok().and_then(|moment| *moment);
    moment.unwrap_or_else(Instant::now)
}
