//! The command line.

use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Usage: fleet work [OPTIONS]           runs jobs until SIGTERM
       fleet add [OPTIONS] [NAME...]  adds a job for each name, or for each line of the input
       fleet status [OPTIONS]         prints the numbers of jobs

Jobs for many machines. Redis distributes them, each job runs at least once, and
its result is stored once.

      --redis URL      the server (default: redis://127.0.0.1/); for a Unix
                       socket unix:///run/redis.sock
      --fleet NAME     the jobs of this name (default: fleet)
  -h, --help           print this help

Options of work:
      --name NAME      the name of this consumer (default: host and process)
      --active N       jobs that have begun and are not acknowledged, 1 to 512
                       (default: 64); as many compute as there are CPUs
      --pending N      jobs that are fetched before they can begin (default: 16)
      --claim SECONDS  take over the jobs of a consumer that is silent for so
                       long (default: 30); the same for all consumers
      --attempts N     set a job aside that was fetched so often (default: 5)
      --grace SECONDS  the time to finish jobs at the end (default: 20)

Options of add:
      --rounds N       how often a job hashes its name (default: 1)
      --pause SECONDS  how long a job waits before (default: 0)
";

pub(crate) struct Args {
    pub(crate) redis: redis::Client,
    pub(crate) fleet: String,
    pub(crate) action: Action,
}

pub(crate) enum Action {
    Work(Work),
    Add(Add),
    Status,
}

pub(crate) struct Work {
    pub(crate) name: String,
    pub(crate) active: usize,
    pub(crate) pending: usize,
    pub(crate) claim: Duration,
    pub(crate) attempts: u64,
    pub(crate) grace: Duration,
}

pub(crate) struct Add {
    pub(crate) names: Vec<String>,
    pub(crate) rounds: u64,
    pub(crate) pause: Duration,
}

/// Parses the command line, and returns `None` if the help is requested.
pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Option<Args>, lexopt::Error> {
    let (mut url, mut fleet) = ("redis://127.0.0.1/".to_owned(), "fleet".to_owned());
    let mut work = Work {
        name: format!("{}-{}", host(), std::process::id()),
        active: 64,
        pending: 16,
        claim: Duration::from_secs(30),
        attempts: 5,
        grace: Duration::from_secs(20),
    };
    let mut add = Add { names: Vec::new(), rounds: 1, pause: Duration::ZERO };
    let mut action = None;
    while let Some(arg) = parser.next()? {
        match (action.as_deref(), arg) {
            (_, Short('h') | Long("help")) => return Ok(None),
            (_, Long("redis")) => url = parser.value()?.string()?,
            (_, Long("fleet")) => fleet = parser.value()?.string()?,
            (None, Value(name)) => action = Some(name.string()?),
            (Some("work"), Long("name")) => work.name = parser.value()?.string()?,
            (Some("work"), Long("active")) => work.active = parser.value()?.parse()?,
            (Some("work"), Long("pending")) => work.pending = parser.value()?.parse()?,
            (Some("work"), Long("claim")) => work.claim = parser.value()?.parse_with(claim)?,
            (Some("work"), Long("attempts")) => work.attempts = parser.value()?.parse()?,
            (Some("work"), Long("grace")) => work.grace = parser.value()?.parse_with(seconds)?,
            (Some("add"), Long("rounds")) => add.rounds = parser.value()?.parse()?,
            (Some("add"), Long("pause")) => add.pause = parser.value()?.parse_with(seconds)?,
            (Some("add"), Value(name)) => add.names.push(name.string()?),
            (_, other) => return Err(other.unexpected()),
        }
    }
    let action = match action.as_deref() {
        Some("work") => Action::Work(work),
        Some("add") => Action::Add(add),
        Some("status") => Action::Status,
        Some(other) => return Err(format!("{other:?} is not work, add or status").into()),
        None => return Err("say work, add or status".into()),
    };
    let redis = redis::Client::open(&*url).map_err(|error| format!("{url:?} is not an address: {error}"))?;
    Ok(Some(Args { redis, fleet, action }))
}

/// Parses a number of seconds of at most a day, because a longer time is a mistake.
fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= 86_400.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or("a time is a number of seconds, such as 0.5")
}

/// Parses the claim time and refuses short times, because with a short time an ordinary delay of the network would
/// count as the silence of a dead consumer.
fn claim(text: &str) -> Result<Duration, &'static str> {
    let least = Duration::from_millis(100);
    seconds(text)?.checked_sub(least).map(|more| least + more).ok_or("at least 0.1 s")
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "consumer".into() } else { name.trim().into() }
}
