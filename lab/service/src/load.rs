//! The load generator. It sends requests at a fixed rate, whether answers come or not (an open loop). It measures each
//! latency from the time at which the request was due. So a late answer cannot shorten the measured latencies of later
//! requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder, sleep};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::http::{Connection, request};
use crate::setup::{self, HEALTH_RATE, NICE_OF_LOAD, WARM, block_limit, compute_limit};
use crate::work::cpu_time;

/// The number of connections that request only `/health`.
const HEALTH_CONNECTIONS: usize = 16;
/// The number of connections for each CPU beyond those that admitted requests can occupy.
const SPARE: usize = 64;
/// The stack size of a thread, which only fills a buffer.
const STACK: usize = 128 << 10;

pub(crate) struct Task {
    pub(crate) address: SocketAddr,
    /// Requests for work per second.
    pub(crate) rate: u32,
    pub(crate) seconds: u64,
}

/// The results of one measurement.
#[derive(Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) health: Route,
    pub(crate) compute: Route,
    pub(crate) block: Route,
    /// The 99th percentile of the delays with which requests were sent, in milliseconds. The latencies include these
    /// delays.
    pub(crate) sent_late: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) errors: u64,
    /// Whether the system gave the generator the raised priority.
    pub(crate) raised: bool,
}

/// The answers to one kind of request. Latencies are in milliseconds.
#[derive(Serialize, Deserialize)]
pub(crate) struct Route {
    pub(crate) done: u64,
    pub(crate) shed: u64,
    /// The 50th percentile of the latencies. All three latencies are those of requests that were not shed.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// A schedule of requests, and the records of their answers.
struct Stream {
    /// The requests of the paths, which take turns, and the records of their answers.
    paths: Vec<(Vec<u8>, Record)>,
    interval: Duration,
    next: AtomicU64,
}

struct Record {
    done: Mutex<Histogram<u64>>,
    shed: AtomicU64,
}

/// The part of a run that all threads share.
struct Run {
    begin: Instant,
    end: Instant,
    late: Mutex<Histogram<u64>>,
    errors: AtomicU64,
}

pub(crate) fn load(task: &Task) -> Result<(), Failure> {
    let raised = rustix::process::setpriority_process(None, setup::level(NICE_OF_LOAD)).is_ok();
    let begin = Instant::now();
    let end = begin + WARM + Duration::from_secs(task.seconds);
    let run = Run { begin, end, late: Mutex::new(histogram()?), errors: AtomicU64::new(0) };
    let health = Stream::new(&["/health"], HEALTH_RATE)?;
    let work = Stream::new(&["/compute", "/block"], task.rate)?;
    let connections = compute_limit().admitted + block_limit().admitted + SPARE * setup::cpus();
    thread::scope(|scope| -> Result<(), Failure> {
        for number in 0..HEALTH_CONNECTIONS + connections {
            let stream = if number < HEALTH_CONNECTIONS { &health } else { &work };
            let run = &run;
            Builder::new().stack_size(STACK).spawn_scoped(scope, move || stream.send(run, task.address))?;
        }
        Ok(())
    })?;
    let late = run.late.into_inner().unwrap_or_else(PoisonError::into_inner);
    let [health] = health.routes().try_into().map_err(|_| "one route")?;
    let [compute, block] = work.routes().try_into().map_err(|_| "two routes")?;
    let outcome = Outcome {
        health,
        compute,
        block,
        sent_late: late.value_at_quantile(0.99) as f64 / 1e3,
        cpu_seconds: cpu_time(ClockId::ProcessCPUTime),
        errors: run.errors.into_inner(),
        raised,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// Makes a histogram of microseconds, up to a minute.
fn histogram() -> Result<Histogram<u64>, Failure> {
    Ok(Histogram::new_with_bounds(1, 60_000_000, 3)?)
}

fn record(histogram: &Mutex<Histogram<u64>>, time: Duration) {
    let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    histogram.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(microseconds);
}

impl Stream {
    fn new(paths: &[&str], rate: u32) -> Result<Self, Failure> {
        let path = |path: &&str| {
            Ok::<_, Failure>((
                request(path),
                Record { done: Mutex::new(histogram()?), shed: AtomicU64::new(0) },
            ))
        };
        let paths = paths.iter().map(path).collect::<Result<_, _>>()?;
        Ok(Self { paths, interval: Duration::from_secs(1) / rate, next: AtomicU64::new(0) })
    }

    /// Sends requests until the end of the run, each time the next request that no other connection sends.
    fn send(&self, run: &Run, address: SocketAddr) {
        let mut connection = Connection::new(address);
        loop {
            let number = self.next.fetch_add(1, Relaxed);
            let due = run.begin + Duration::from_nanos(self.interval.as_nanos() as u64 * number);
            // If the generator itself is behind its schedule, it still stops at the end of the measurement.
            if due >= run.end || Instant::now() >= run.end {
                return;
            }
            sleep(due.saturating_duration_since(Instant::now()));
            let (request, answers) = &self.paths[number as usize % self.paths.len()];
            let late = due.elapsed();
            let status = connection.ask(request);
            let (latency, is_warm) = (due.elapsed(), due >= run.begin + WARM);
            match status {
                Ok(200) if is_warm => record(&answers.done, latency),
                Ok(503) if is_warm => drop(answers.shed.fetch_add(1, Relaxed)),
                Ok(200 | 503) => {}
                _ => drop(run.errors.fetch_add(1, Relaxed)),
            }
            if is_warm {
                record(&run.late, late);
            }
        }
    }

    fn routes(self) -> Vec<Route> {
        self.paths.into_iter().map(|(_, record)| record.route()).collect()
    }
}

impl Record {
    fn route(self) -> Route {
        let done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let milliseconds = |microseconds: u64| microseconds as f64 / 1e3;
        Route {
            done: done.len(),
            shed: self.shed.into_inner(),
            p50: milliseconds(done.value_at_quantile(0.5)),
            p99: milliseconds(done.value_at_quantile(0.99)),
            max: milliseconds(done.max()),
        }
    }
}
