//! The rounds of the measurement. In each round every engine serves once, and the order of the engines changes. The
//! service and the load generator are processes of their own, which are new for each measurement.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use fastrand::Rng;
use serde::de::DeserializeOwned;
use testkit::TimeLimit;

use crate::Failure;
use crate::args::Args;
use crate::engine::{Kind, Name};
use crate::load::Outcome;
use crate::report::{Awaited, Report, Served};
use crate::roundtrip::Roundtrip;
use crate::serve::Usage;
use crate::setup::{self, COMPUTE, WARM};
use crate::work;

/// The seed of the random order of the engines in each round.
const SEED: u64 = 1;
/// The time limit of a process beyond its planned time. Requests time out earlier.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does all measurements.
pub(crate) fn measure(args: &Args) -> Result<Report, Failure> {
    let hashes = work::hashes_in(COMPUTE);
    let rate = args.rate.unwrap_or(setup::rate(args.overload));
    let mut random = Rng::with_seed(SEED);
    let mut served: Vec<Served> = args.engines.iter().map(|engine| Served::new(*engine)).collect();
    let mut awaited: Vec<Awaited> = [Kind::Cmwq, Kind::Tokio].map(Awaited::new).into();
    let mut unloaded = Vec::new();
    for round in 1..=args.rounds {
        // The least rate: one request per second for each of the two kinds of work.
        let any = Name { kind: Kind::Tokio, nice: false };
        unloaded.push(serve_once(args, any, hashes, 2)?.0.health.p99);
        random.shuffle(&mut served);
        for engine in &mut served {
            engine.rounds.push(serve_once(args, engine.engine, hashes, rate)?);
        }
        random.shuffle(&mut awaited);
        for kind in &mut awaited {
            kind.rounds.push(await_once(args, kind.kind)?);
        }
        eprintln!("round {round} of {}", args.rounds);
    }
    Ok(Report::new(served, awaited, unloaded, hashes, rate))
}

/// Runs one service, and one load generator that sends it requests.
fn serve_once(args: &Args, engine: Name, hashes: u32, rate: u32) -> Result<(Outcome, Usage), Failure> {
    let planned = WARM + Duration::from_secs(args.seconds);
    let _limit = TimeLimit::new(planned + PATIENCE, move || format!("the measurement of {engine} hangs"));
    let mut service = Service::start(engine, hashes)?;
    let address = service.address.clone();
    let (rate, seconds) = (rate.to_string(), args.seconds.to_string());
    let outcome: Outcome = said(&["load", "--address", &address, "--rate", &rate, "--seconds", &seconds])?;
    if outcome.health.done == 0 {
        return Err(format!("{engine} did not answer").into());
    }
    Ok((outcome, service.end()?))
}

fn await_once(args: &Args, kind: Kind) -> Result<Roundtrip, Failure> {
    let _limit = TimeLimit::new(PATIENCE, || "the round trips hang".into());
    let count = if args.quick { "20000" } else { "100000" };
    said(&["roundtrip", "--engine", &Name { kind, nice: false }.to_string(), "--count", count])
}

fn this_program() -> Result<Command, Failure> {
    Ok(Command::new(std::env::current_exe()?))
}

/// Runs this program in another role, and parses its output.
fn said<T: DeserializeOwned>(arguments: &[&str]) -> Result<T, Failure> {
    let output = this_program()?.args(arguments).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", arguments[0], output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The process of the service. Dropping this value kills the process if it still runs.
struct Service {
    process: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Service {
    fn start(engine: Name, hashes: u32) -> Result<Self, Failure> {
        let mut process = this_program()?
            .args(["serve", "--engine", &engine.to_string(), "--hashes", &hashes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take().ok_or("the service has no output")?;
        let mut service = Self { process, output: BufReader::new(output), address: String::new() };
        let mut line = String::new();
        service.output.read_line(&mut line)?;
        service.address = line.trim_end().to_owned();
        Ok(service)
    }

    /// Ends the service, and returns the usage that it reports at its end.
    fn end(&mut self) -> Result<Usage, Failure> {
        drop(self.process.stdin.take());
        let mut said = String::new();
        self.output.read_to_string(&mut said)?;
        if !self.process.wait()?.success() {
            return Err("the service failed".into());
        }
        Ok(serde_json::from_str(&said)?)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _has_ended = self.process.kill();
        let _status = self.process.wait();
    }
}
