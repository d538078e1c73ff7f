//! `cmwqctl monitor`.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use regex_lite::Regex;

use crate::args::{Monitor, Target};
use crate::failure::{Failure, Result};
use crate::process::{self, failure};
use crate::text;

pub(crate) fn run(args: &Monitor, target: &Target, out: &mut dyn Write) -> Result<()> {
    let names = patterns(&args.names)?;
    let mut client = process::connect(target)?;
    let mut due = Instant::now();
    let mut sampled = 0;
    loop {
        let mut report = client.monitor().map_err(failure)?;
        report.queues.retain(|row| names.is_empty() || names.iter().any(|name| name.is_match(&row.name)));
        if args.json {
            super::write_json(&report, out)?;
        } else {
            if sampled > 0 {
                writeln!(out)?;
            }
            write!(out, "{}", text::lines(&report.to_string()))?;
            out.flush()?;
        }
        sampled += 1;
        if args.count.is_some_and(|count| sampled >= count) {
            return Ok(());
        }
        due = wait_until_next(due, args.every.interval);
    }
}

/// Waits until the next sample is due, and returns the time of that sample. If the sample is already late, takes it
/// immediately and does not make up for the samples that were missed.
fn wait_until_next(due: Instant, interval: Duration) -> Instant {
    let now = Instant::now();
    let next = (due + interval).max(now);
    thread::sleep(next - now);
    next
}

fn patterns(names: &[String]) -> Result<Vec<Regex>> {
    let pattern = |name: &String| {
        Regex::new(name).map_err(|error| {
            Failure::usage(
                format!("{name:?} is not a regular expression: {error}"),
                "Characters such as . * + ( [ stand for themselves behind a backslash.",
            )
        })
    };
    names.iter().map(pattern).collect()
}
