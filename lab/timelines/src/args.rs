//! The command line.

use std::path::PathBuf;

use lexopt::prelude::*;

const HELP: &str = "\
Usage: timelines [--check] [--runs N] [--svg DIR] [--json]

Measure the four timelines of the kernel's workqueue documentation on one CPU, and show them
beside the documented ones. All figures are medians; times are in milliseconds.

            --check     also measure (b) without guards and detection, measure timelines that do not hold
                        up to three times, and exit with 1 if one still does not hold
      --runs N    measure each timeline N times (default: 5), after a warm-up run
      --svg DIR   write a picture of each timeline to DIR/timeline-{a,b,c,d}.svg
      --json      print JSON instead of tables
  -h, --help      print this help
  -V, --version   print the version

Workers have the nice level of the process. If other programs use the machine and you have the
privilege, 'nice -n -20 timelines' keeps most of them away.

Exit status: 0 on success, 1 if a check failed or nothing could be measured, 2 for a usage error.
";

/// The parsed command line.
pub(crate) enum Command {
    Run(Args),
    Print(String),
}

/// The settings of a run.
pub(crate) struct Args {
    pub(crate) check: bool,
    pub(crate) json: bool,
    pub(crate) runs: usize,
    pub(crate) svg: Option<PathBuf>,
}

impl Command {
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let mut args = Args { check: false, json: false, runs: 5, svg: None };
        while let Some(arg) = parser.next()? {
            match arg {
                Short('h') | Long("help") => return Ok(Self::Print(HELP.into())),
                Short('V') | Long("version") => {
                    return Ok(Self::Print(format!("timelines (cmwq) {}\n", env!("CARGO_PKG_VERSION"))));
                }
                Long("check") => args.check = true,
                Long("json") => args.json = true,
                Long("svg") => args.svg = Some(parser.value()?.into()),
                Long("runs") => {
                    args.runs = parser.value()?.parse()?;
                    if args.runs == 0 {
                        return Err("--runs must be at least 1".into());
                    }
                }
                other => return Err(other.unexpected()),
            }
        }
        Ok(Self::Run(args))
    }
}
