//! A gRPC service whose work runs on cmwq.
//!
//! ```text
//! cargo run --release -- --listen 127.0.0.1:50051
//! grpcurl -plaintext -proto digest.proto -d '{"data": "YWJj"}' 127.0.0.1:50051 digest.Digest/Sum
//! kill -TERM ...                                          # finishes the requests, and ends
//! ```
//!
//! tokio's threads only do HTTP. Code that computes is an item of a queue. The item's handle is a future, which the
//! call awaits. So the service answers health checks even while all CPUs compute.
//!
//! * **Load shedding.** `Sum` reserves a place in the queue. If the queue has no free place, the call answers
//!   UNAVAILABLE. The answer says when to retry, in the form that gRPC's retry policies understand.
//! * **Backpressure.** `Sums` awaits a place for each request of its stream. While requests wait for places, the call
//!   reads only a few further requests. So the window of the connection fills, and the client stops sending.
//! * **Calls that end early.** If the client cancels a call, or the call's deadline passes, tonic drops the call's
//!   future. An item that has not begun is then cancelled.
//! * **A clean end.** On SIGTERM or SIGINT, the health check says NOT_SERVING, and streams accept no further requests.
//!   The service finishes its calls, and shuts the executor down. Calls that take longer than `--grace` are cut off,
//!   and the exit code is 1.

mod args;
mod service;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use cmwq::{Attrs, Executor, WorkQueue};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_service::digest::digest_server::DigestServer;

use crate::args::{Args, HELP};
use crate::service::Service;

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
            eprintln!("tonic-service: {error}\nTry 'tonic-service --help' for more information.");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tonic-service: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    // This value permits the program to end the executor that all its queues use.
    let executor = Executor::builder().build_global()?;
    // The items compute. Their nice level makes the system prefer the runtime's threads, which answer health checks.
    let queue = WorkQueue::builder("sums")
        .max_active_total(args.active)
        .max_pending(args.pending)
        .attrs(Attrs::new().nice(10))
        .build()?;
    let listener = TcpListener::bind(&args.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<DigestServer<Service>>().await;
    let asked = asked_by_signal()?;
    println!("listening on http://{}", listener.local_addr()?);

    let end = {
        let asked = asked.clone();
        async move {
            moment(asked).await;
            health.set_not_serving::<DigestServer<Service>>().await;
        }
    };
    let serve = Server::builder()
        .add_service(health_service)
        .add_service(DigestServer::new(Service::new(queue, asked.clone())))
        .serve_with_incoming_shutdown(TcpIncoming::from(listener), end);
    let late = async { sleep_until(moment(asked.clone()).await + args.grace).await };
    let is_late = tokio::select! {
        served = serve => { served?; false }
        () = late => true,
    };
    println!("stopping{}", if is_late { ", with calls that took too long" } else { "" });

    // The shutdown gets the remaining part of the grace period, because items whose clients went away may still run.
    let begin = *asked.borrow();
    let rest = begin.map_or(Duration::ZERO, |begin| args.grace.saturating_sub(begin.elapsed()));
    let report = executor.shutdown_async(rest).await?;
    println!("{report}");
    if is_late || !report.is_complete() { Err("not every call was finished".into()) } else { Ok(()) }
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
