//! The command line.

use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Usage: service [--listen ADDRESS] [--active N] [--pending N] [--grace SECONDS] [--load N]

An HTTP service that computes SHA-512 sums.

      --listen ADDRESS  the address to listen on (default: 127.0.0.1:0, any free port)
      --active N        jobs that run at a time, 1 to 512 (default: 16)
      --pending N       jobs that may wait beyond that; more are shed (default: 64)
      --grace SECONDS   the time to finish the accepted jobs at the end (default: 30)
      --load N          items per second of background work, up to 100000 (default: 0)
  -h, --help            print this help
";

pub(crate) struct Args {
    pub(crate) listen: String,
    pub(crate) active: usize,
    pub(crate) pending: usize,
    pub(crate) grace: Duration,
    /// Items per second.
    pub(crate) load: u64,
}

/// Returns `None` if the help is requested.
pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Option<Args>, lexopt::Error> {
    let mut args = Args {
        listen: "127.0.0.1:0".into(),
        active: 16,
        pending: 64,
        grace: Duration::from_secs(30),
        load: 0,
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("listen") => args.listen = parser.value()?.string()?,
            Long("active") => args.active = parser.value()?.parse()?,
            Long("pending") => args.pending = parser.value()?.parse()?,
            Long("load") => args.load = parser.value()?.parse_with(load)?,
            Long("grace") => args.grace = Duration::from_secs(parser.value()?.parse()?),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(args))
}

fn load(text: &str) -> Result<u64, &'static str> {
    text.parse()
        .ok()
        .filter(|items| *items <= 100_000)
        .ok_or("the load is a number of items per second, up to 100000")
}
