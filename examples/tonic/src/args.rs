//! The command line.

use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Usage: tonic-service [OPTIONS]

A gRPC service that computes SHA-512 sums. Its interface is in digest.proto.

      --listen ADDRESS  the address (default: 127.0.0.1:0, any free port)
      --active N        sums that run at a time, 1 to 512 (default: 64); as many
                        compute as there are CPUs
      --pending N       requests that may wait beyond that (default: 64)
      --grace SECONDS   the time to finish calls at the end (default: 20)
  -h, --help            print this help
";

pub(crate) struct Args {
    pub(crate) listen: String,
    pub(crate) active: usize,
    pub(crate) pending: usize,
    pub(crate) grace: Duration,
}

/// Parses the command line, and returns `None` if the help is requested.
pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Option<Args>, lexopt::Error> {
    let mut args =
        Args { listen: "127.0.0.1:0".into(), active: 64, pending: 64, grace: Duration::from_secs(20) };
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("listen") => args.listen = parser.value()?.string()?,
            Long("active") => args.active = parser.value()?.parse()?,
            Long("pending") => args.pending = parser.value()?.parse()?,
            Long("grace") => args.grace = parser.value()?.parse_with(seconds)?,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(args))
}

/// Parses a number of seconds of at most a day, because a longer wait is a mistake.
fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= 86_400.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or("a time is a number of seconds, such as 0.5")
}
