//! The command line. Criterion never sees it, because Criterion would refuse unknown options.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

const HELP: &str = "\
Usage: cargo bench --bench affinity_scopes -- [OPTION]...

Measure the scenarios of the kernel's affinity tables with SHA-512 on this machine: bandwidth and CPU
utilisation by affinity scope, compared in pairs. A table of figures and their aims comes last.

      --quick              a first look, in a minute or so: 6 rounds a run instead of 60
      --rounds N           rounds in each run: each gives every row one slice
      --runs N             runs (default: 5)
      --slice MS           the length of a slice, 1 to 10000 milliseconds (default: 100)
      --scenario N         only this scenario, 1 to 3; may be repeated
      --topology SHAPE     take the machine's caches from this description in hwloc's synthetic format,
                           such as 'l3:2 core:1 pu:1'; its CPUs are the first ones of this process
      --out DIR            write the tables, the slices and a picture there
                           (default: affinity_scopes in cargo's target directory)
      --csv                print the tables as CSV and nothing else; write no files, no criterion report
  -h, --help               print this help

Progress is shown on standard error if that is a terminal. Without cargo's --bench, as in
'cargo test --benches', everything runs once for a short time, and nothing is written.
";

/// The parsed command line.
#[derive(Debug)]
pub(crate) enum Command {
    Run(Args),
    Print(String),
}

/// The settings of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Args {
    pub(crate) rounds: usize,
    pub(crate) runs: usize,
    pub(crate) slice: Duration,
    /// The numbers of scenarios, from 1.
    pub(crate) scenarios: Vec<usize>,
    pub(crate) topology: Option<String>,
    pub(crate) out: Option<PathBuf>,
    pub(crate) csv: bool,
    /// Whether the run is only a smoke test.
    pub(crate) smoke: bool,
    /// The command line that repeats this run.
    pub(crate) line: String,
}

impl Command {
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let (mut rounds, mut quick, mut bench) = (None, false, false);
        let mut words: Vec<String> = Vec::new();
        let mut args = Args {
            rounds: 0,
            runs: 5,
            slice: Duration::from_millis(100),
            scenarios: Vec::new(),
            topology: None,
            out: None,
            csv: false,
            smoke: false,
            line: String::new(),
        };
        while let Some(arg) = parser.next()? {
            let word = match arg {
                Short('h') | Long("help") => return Ok(Self::Print(HELP.into())),
                Long("bench") => {
                    bench = true;
                    continue;
                }
                Long("quick") => {
                    quick = true;
                    "--quick".into()
                }
                Long("csv") => {
                    args.csv = true;
                    "--csv".into()
                }
                Long("rounds") => {
                    let number = number(&mut parser, "--rounds", 1, 100_000)?;
                    rounds = Some(number);
                    format!("--rounds {number}")
                }
                Long("runs") => {
                    args.runs = number(&mut parser, "--runs", 1, 1000)?;
                    format!("--runs {}", args.runs)
                }
                Long("slice") => {
                    let milliseconds = number(&mut parser, "--slice", 1, 10_000)?;
                    args.slice = Duration::from_millis(milliseconds as u64);
                    format!("--slice {milliseconds}")
                }
                Long("scenario") => {
                    let scenario = number(&mut parser, "--scenario", 1, 3)?;
                    args.scenarios.push(scenario);
                    format!("--scenario {scenario}")
                }
                Long("topology") => {
                    let shape = parser.value()?.string()?;
                    args.topology = Some(shape.clone());
                    format!("--topology '{shape}'")
                }
                Long("out") => {
                    let directory = PathBuf::from(parser.value()?);
                    let word = format!("--out {}", directory.display());
                    args.out = Some(directory);
                    word
                }
                other => return Err(other.unexpected()),
            };
            words.push(word);
        }
        args.finish(rounds, quick, bench, &words);
        Ok(Self::Run(args))
    }
}

impl Args {
    fn finish(&mut self, rounds: Option<usize>, quick: bool, bench: bool, words: &[String]) {
        self.rounds = rounds.unwrap_or(if quick { 6 } else { 60 });
        self.smoke = !bench;
        if self.smoke {
            (self.rounds, self.runs, self.slice) = (1, 1, Duration::from_millis(5));
        }
        self.scenarios.sort_unstable();
        self.scenarios.dedup();
        if self.scenarios.is_empty() {
            self.scenarios = vec![1, 2, 3];
        }
        let line = format!("cargo bench --bench affinity_scopes -- {}", words.join(" "));
        self.line = line.trim_end_matches([' ', '-']).into();
    }
}

fn number(
    parser: &mut lexopt::Parser,
    option: &str,
    least: usize,
    most: usize,
) -> Result<usize, lexopt::Error> {
    let value = parser.value()?.string()?;
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{option} is a number from {least} to {most}, not '{value}'").into())
}
