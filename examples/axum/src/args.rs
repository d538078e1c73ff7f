//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

pub(crate) const HELP: &str = "\
Usage: axum-service [OPTIONS]

An HTTP service that computes SHA-512 sums and sends files.

      --listen ADDRESS    the address (default: 127.0.0.1:0, any free port)
      --files FOLDER      the folder of the files (default: .)
      --active N          items of each kind that run or block at a time,
                          1 to 512 (default: 64)
      --pending N         requests that may wait for them (default: 64)
      --patience SECONDS  how long a request for a file waits for room
                          (default: 1)
      --grace SECONDS     the time to finish requests at the end (default: 20)
  -h, --help              print this help

POST /hash            the SHA-512 of the body, in hexadecimal
POST /hash?rounds=N   the SHA-512 of that, and so on: N times
GET  /files/NAME      a file of the folder
GET  /health          answers, even under overload
GET  /metrics         numbers for Prometheus
";

pub(crate) struct Args {
    pub(crate) listen: String,
    pub(crate) files: PathBuf,
    pub(crate) active: usize,
    pub(crate) pending: usize,
    pub(crate) patience: Duration,
    pub(crate) grace: Duration,
}

/// Parses the command line, and returns `None` if the help is requested.
pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Option<Args>, lexopt::Error> {
    let mut args = Args {
        listen: "127.0.0.1:0".into(),
        files: ".".into(),
        active: 64,
        pending: 64,
        patience: Duration::from_secs(1),
        grace: Duration::from_secs(20),
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(None),
            Long("listen") => args.listen = parser.value()?.string()?,
            Long("files") => args.files = parser.value()?.into(),
            Long("active") => args.active = parser.value()?.parse()?,
            Long("pending") => args.pending = parser.value()?.parse()?,
            Long("patience") => args.patience = parser.value()?.parse_with(seconds)?,
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
