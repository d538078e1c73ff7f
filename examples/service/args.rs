//! The command line.

use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Usage: service [--listen ADDRESS] [--active N] [--pending N] [--grace SECONDS] [--load N]

An HTTP service that computes SHA-512 sums.

      --listen ADDRESS  where to listen: 127.0.0.1:0 by default, any free port
      --active N        jobs that are worked at at a time, 1 to 512: 16 by default
      --pending N       jobs that may wait beyond that; more are shed: 64 by default
      --grace SECONDS   how long it may take to finish what was accepted: 30 by default
      --load N          work in the background beside that, so many items a second: 0 by default, up to 100000
  -h, --help            print this help
";

pub(crate) struct Args {
    pub(crate) listen: String,
    pub(crate) active: usize,
    pub(crate) pending: usize,
    pub(crate) grace: Duration,
    /// Items a second.
    pub(crate) load: u64,
}

/// `None`: the help is wanted.
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
        .ok_or("it is a number of items a second, up to 100000")
}
