//! An HTTP service on plain threads: requests, background tasks, periodic work, metrics, and a socket for its admin.
//!
//! ```text
//! cargo run --release --example service -- --listen 127.0.0.1:8080
//! curl http://127.0.0.1:8080/                             # a list of the requests
//! curl --data-binary @file http://127.0.0.1:8080/jobs     # the file's SHA-512
//! curl -d secret 'http://127.0.0.1:8080/tasks?rounds=9000000'
//! curl http://127.0.0.1:8080/tasks/1                      # its result, once there is one
//! curl -X DELETE http://127.0.0.1:8080/tasks/1            # asks it to stop
//! curl http://127.0.0.1:8080/stats
//! curl http://127.0.0.1:8080/metrics                      # with --features metrics
//! kill -TERM ...                                          # finishes the accepted work, and ends
//! ```
//!
//! This example shows:
//!
//! * **Load shedding** (`jobs.rs`). The queue's `max_pending` is the bound. Each job reserves its place by a permit. A
//!   request that gets no permit is answered with 503 and `Retry-After`, and the service does not read its body.
//! * **Items that compute and block.** One item reads the body, computes and answers, in plain code. While it waits for
//!   the client, it does not count as running. So slow clients cost no CPU, and other jobs compute meanwhile.
//! * **Slow clients** (`client.rs`). Answers that may wait for a body have a queue of their own, `bodies`. So slow
//!   clients do not delay the answers to requests without a body, such as `/health`. But the HTTP library has no
//!   timeouts. A client that withholds its body holds a place until it goes away: one of the `--active` places of the
//!   jobs, or one of the 64 places of `bodies`. If such clients hold all these places, other clients that send a body
//!   wait, even for longer than `--patience`. At the end, the service waits for such clients of jobs for `--grace`, and
//!   then fails. So a proxy with a timeout for reads belongs in front of the service.
//! * **Deadlines.** A job that has not ended after `--patience` is given up. If it has not begun, it does not run.
//!   Otherwise it stops at its next check of its token.
//! * **Every client is answered** (`client.rs`). The item owns the client. When the item is refused, comes too late or
//!   is dropped by the shutdown, the client's destructor queues the answer 503. The queues of these answers belong to a
//!   second executor, so that answers do not share the shutdown of the jobs. After the shutdown, the service waits for
//!   the last answers for a second at most. If clients that withhold a body hold all places of `bodies`, the last
//!   answers to other clients that send a body may come later, and are lost.
//! * **Background tasks** (`tasks.rs`). The answer contains the path at which the client finds the result later. A
//!   table keeps the `JoinHandle` of each task. A client can ask a task to stop.
//! * **Periodic work.** Periodic items compute the rate of the jobs, and remove old results. Their queue costs no
//!   thread.
//! * **Urgent answers.** The queue of `/health`, `/stats` and `/metrics` has high priority, so the service answers
//!   these requests even while all CPUs compute and many clients are slow. Answers on one connection wait for each
//!   other, so one client with many requests can fill this queue; a proxy prevents this.
//! * **Metrics** (built with `--features metrics`): `GET /metrics`, for Prometheus, by the crates `metrics` and
//!   `metrics-exporter-prometheus`.
//! * **Control** (built with `--features control`): a Unix socket serves the executor. Its clients can observe the
//!   executor, and change queues that are marked `control`. `--load 2000` adds work to observe:
//!
//!   ```text
//!   cargo run --release --example service --features control,metrics -- --load 2000
//!   cargo run --release -p cmwqctl -- top                   # in another terminal
//!   cargo run --release -p cmwqctl -- set mail max_active 8
//!   ```
//! * **A clean end.** On SIGTERM (or SIGINT) the service stops accepting, and `GlobalExecutor::shutdown` finishes the
//!   accepted work. Work that takes longer than `--grace` is dropped or asked to stop, and reported. A second signal
//!   cancels the token of all jobs and tasks, so that they stop immediately.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "stands in for a user of the crate")]

mod args;
mod client;
mod ending;
mod hash;
mod jobs;
mod load;
#[cfg(feature = "metrics")]
mod numbers;
mod observed;
mod routes;
mod tasks;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use cmwq::{Executor, PeriodicHandle, QueueError, WorkQueue};
use tiny_http::Server;

use crate::args::{Args, HELP};
use crate::client::Answers;
use crate::ending::Ending;
use crate::jobs::{Account, Jobs};
use crate::load::Load;
use crate::observed::Observed;
use crate::routes::Routes;
use crate::tasks::Tasks;

/// How long the service waits at most, after the shutdown, for the answers that are still queued.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

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
    // This value permits the program to end the executor that all queues use except those of the answers.
    let executor = Executor::builder().build_global()?;
    let answering = Executor::builder().thread_name_prefix("answers").build()?;
    let ending = Ending::on_signals(&server)?;
    let answers = Answers::new(&answering)?;
    let jobs = Jobs::new(args, &ending.hurry)?;
    let tasks = Arc::new(Tasks::new(args, &ending.hurry)?);
    let account = Arc::clone(jobs.account());
    let periodic = periodic_work(&account, &tasks)?;
    println!("listening on http://{}", server.server_addr());
    // The load starts before `Observed` prints its addresses, so that the clients of these addresses find the load's
    // queues.
    let load = if args.load > 0 { Some(Load::start(args.load)?) } else { None };
    let observed = Observed::start(&server, &account)?;
    let routes = Routes { jobs, tasks, answers, observed };

    let ended = loop {
        match server.recv() {
            Ok(request) => routes.take(request),
            Err(_) if ending.begun.is_cancelled() => break Ok(()),
            Err(error) => break Err(error),
        }
    };

    println!("stopping: {account}");
    // Requests that were not accepted get an answer that refuses them. Connections that arrive now are closed.
    while let Ok(Some(request)) = server.try_recv() {
        routes.refuse(request);
    }
    drop((server, periodic, load));
    let report = executor.shutdown(args.grace)?;
    let end = Instant::now() + LAST_ANSWERS;
    // Jobs that the shutdown has asked to stop still queue answers.
    routes.jobs.wait_until(end);
    routes.answers.wait_until(end);
    println!("stopped: {account}");
    println!("{report}");
    match report.is_complete() && account.is_closed() && !ending.hurry.is_cancelled() {
        true => Ok(ended?),
        false => Err("not every accepted job was finished".into()),
    }
}

/// Counts once a second how many jobs finished in that second, and removes old results of tasks.
fn periodic_work(account: &Arc<Account>, tasks: &Arc<Tasks>) -> Result<[PeriodicHandle; 2], QueueError> {
    const PERIOD: Duration = Duration::from_secs(1);
    let queue = WorkQueue::new("housekeeping");
    let (account, tasks, mut before) = (Arc::clone(account), Arc::clone(tasks), 0);
    let measure = move || {
        let finished = account.finished.load(Relaxed);
        account.rate.store(finished - before, Relaxed);
        before = finished;
    };
    let forget = move || cmwq::set_description(format_args!("{} tasks are known", tasks.forget_old()));
    Ok([queue.item(measure).spawn_every(PERIOD)?, queue.item(forget).spawn_every(PERIOD)?])
}
