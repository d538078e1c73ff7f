//! Shows a program's own queues as the kernel's `wq_monitor` shows workqueues, with a row for each queue each second.
//!
//! ```text
//! cargo run --release --example monitor                                # until it is interrupted
//! cargo run --release --example monitor -- -i 0.5 -n 4 mail index      # four times, of two queues
//! cargo run --release --example monitor --features serde -- --json -n 1 | jq .queues[0]
//! cargo run --release --example monitor -- -n 1 --dump                 # ends with a complete dump
//! ```
//!
//! The program keeps five queues busy, with items that block, that compute, and that come in bursts or one by one.
#![allow(clippy::disallowed_methods, reason = "stands in for a user of the crate")]

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use cmwq::kernel;
use cmwq::observe::MonitorReport;
use cmwq::{Executor, PeriodicHandle, WorkQueue, blocking, set_description};

const HELP: &str = "\
Usage: monitor [-i SECONDS] [-n TIMES] [--json] [--dump] [QUEUE]...

Keeps five queues busy, and prints their counters like the kernel's wq_monitor.

  -i, --interval SECONDS  the pause between two tables [default: 1]; 0 prints one table
  -n, --times TIMES       end after this many tables
      --json              print a line of JSON each time (built with --features serde)
      --dump              at the end, print a dump and a report of the busy items
  -h, --help              print this help
  QUEUE                   show only these queues: mail, index, fetch, log, acks

Exit status: 0 on success, 1 if something failed, 2 for a usage error.
";

struct Args {
    interval: Duration,
    times: Option<u64>,
    json: bool,
    dump: bool,
    names: Vec<String>,
}

fn main() -> ExitCode {
    let args = match parse(lexopt::Parser::from_env()) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("monitor: {error}\nTry 'monitor --help' for more information.");
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("monitor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut parser: lexopt::Parser) -> Result<Option<Args>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut args =
        Args { interval: Duration::from_secs(1), times: None, json: false, dump: false, names: Vec::new() };
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Short('i') | Long("interval") => {
                let seconds: f64 = parser.value()?.parse()?;
                args.interval = Duration::try_from_secs_f64(seconds)
                    .map_err(|error| format!("interval {seconds}: {error}"))?;
            }
            Short('n') | Long("times") => args.times = Some(parser.value()?.parse()?),
            Long("json") if !cfg!(feature = "serde") => {
                return Err("--json needs the feature serde: run it with `--features serde`".into());
            }
            Long("json") => args.json = true,
            Long("dump") => args.dump = true,
            Value(name) => args.names.push(name.string()?),
            other => return Err(other.unexpected()),
        }
    }
    if args.interval.is_zero() {
        args.times = Some(1);
    }
    Ok(Some(args))
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let executor = Executor::builder().build()?;
    let load = Load::on(&executor)?;
    let monitor = executor.monitor();
    let monitor = if args.names.is_empty() { monitor } else { monitor.only(args.names.clone()) };
    let mut out = io::stdout();
    let mut next = Instant::now();
    for _ in 0..args.times.unwrap_or(u64::MAX) {
        // Each interval begins at the last tick, regardless of how long the output took.
        next += args.interval.max(Duration::from_millis(1));
        thread::sleep(next.saturating_duration_since(Instant::now()));
        print(&mut out, &monitor.sample(), args.json)?;
    }
    if args.dump {
        let dump = executor.dump();
        writeln!(out, "{dump}\n{}", dump.busy())?;
    }
    drop(load);
    Ok(())
}

#[cfg(feature = "serde")]
fn print(out: &mut impl Write, report: &MonitorReport, json: bool) -> Result<(), Box<dyn Error>> {
    match json {
        true => writeln!(out, "{}", serde_json::to_string(report)?)?,
        false => writeln!(out, "{report}")?,
    }
    Ok(out.flush()?)
}

#[cfg(not(feature = "serde"))]
fn print(out: &mut impl Write, report: &MonitorReport, _json: bool) -> Result<(), Box<dyn Error>> {
    writeln!(out, "{report}")?;
    Ok(out.flush()?)
}

/// Keeps five queues busy until it is dropped.
struct Load {
    _ticks: [PeriodicHandle; 5],
}

impl Load {
    fn on(executor: &Executor) -> Result<Self, Box<dyn Error>> {
        let mail = WorkQueue::per_cpu("mail").build_on(executor)?;
        let index = WorkQueue::builder("index").build_on(executor)?;
        let fetch = WorkQueue::unbound("fetch").max_active(4).build_on(executor)?;
        let log = WorkQueue::ordered("log").rescuer(true).build_on(executor)?;
        let acks = kernel::bh("acks").build_on(executor)?;
        let each = |millis| Duration::from_millis(millis);
        Ok(Self {
            _ticks: [
                every(&mail, each(10), 5, |n| {
                    set_description(format_args!("to customer {n}"));
                    blocking(|| thread::sleep(Duration::from_millis(3)));
                })?,
                every(&index, each(50), 8, |_| compute(Duration::from_millis(2)))?,
                every(&fetch, each(100), 12, |n| {
                    set_description(format_args!("page {n}"));
                    thread::sleep(Duration::from_millis(20));
                })?,
                every(&log, each(20), 3, |_| compute(Duration::from_micros(50)))?,
                every(&acks, each(5), 10, |_| ())?,
            ],
        })
    }
}

/// Queues this many items in each period.
fn every(
    queue: &WorkQueue,
    period: Duration,
    items: usize,
    item: impl Fn(usize) + Copy + Send + Sync + 'static,
) -> Result<PeriodicHandle, Box<dyn Error>> {
    let its = queue.clone();
    let ticks = queue
        .item(move || {
            for n in 0..items {
                // The spawn is refused only when the executor ends.
                drop(its.spawn(move || item(n)));
            }
        })
        .spawn_every(period)?;
    Ok(ticks)
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}
