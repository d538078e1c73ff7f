//! The command line.

use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Usage: service [OPTIONS]

An HTTP service that computes SHA-512 sums, while the client waits or in the background.

      --listen ADDRESS    the address to listen on (default: 127.0.0.1:0, any free port)
      --active N          jobs that run at a time, 1 to 512, and as many tasks (default: 16)
      --pending N         jobs that may wait beyond that, and as many tasks; more are shed (default: 64)
      --patience SECONDS  the time after which a job is given up (default: 30)
      --limit SECONDS     the time after which a task is given up (default: 300)
      --keep SECONDS      how long the result of a task is kept (default: 600)
      --grace SECONDS     the time to finish the accepted work at the end (default: 30)
      --load N            items per second of background work, up to 100000 (default: 0)
  -h, --help              print this help
";

pub(crate) struct Args {
    pub(crate) listen: String,
    pub(crate) active: usize,
    pub(crate) pending: usize,
    pub(crate) patience: Duration,
    pub(crate) limit: Duration,
    pub(crate) keep: Duration,
    pub(crate) grace: Duration,
    /// The number of items per second of the background load.
    pub(crate) load: u64,
}

/// Parses the command line, and returns `None` if the help is requested.
pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Option<Args>, lexopt::Error> {
    let mut args = Args {
        listen: "127.0.0.1:0".into(),
        active: 16,
        pending: 64,
        patience: Duration::from_secs(30),
        limit: Duration::from_secs(300),
        keep: Duration::from_secs(600),
        grace: Duration::from_secs(30),
        load: 0,
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("listen") => args.listen = parser.value()?.string()?,
            Long("active") => args.active = parser.value()?.parse()?,
            Long("pending") => args.pending = parser.value()?.parse()?,
            Long("patience") => args.patience = parser.value()?.parse_with(seconds)?,
            Long("limit") => args.limit = parser.value()?.parse_with(seconds)?,
            Long("keep") => args.keep = parser.value()?.parse_with(seconds)?,
            Long("grace") => args.grace = parser.value()?.parse_with(seconds)?,
            Long("load") => args.load = parser.value()?.parse_with(load)?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(args))
}

/// Parses a number of seconds of at most a day, because a longer wait is a mistake.
fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= 86_400.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or("a time is a number of seconds, such as 0.5, and at most a day")
}

fn load(text: &str) -> Result<u64, &'static str> {
    text.parse()
        .ok()
        .filter(|items| *items <= 100_000)
        .ok_or("the load is a number of items per second, up to 100000")
}
