//! The command line.

use std::path::PathBuf;

use lexopt::prelude::*;

const HELP: &str = "\
Usage: checksum [--threads-report] PATH...
       checksum -c [--quiet | --status] [--strict] [--warn] [--ignore-missing] FILE...

Print the SHA-512 checksum of every regular file under each PATH, in the bytewise order of
their names, exactly as sha512sum prints them. Directories are entered; symbolic links are not
followed; devices, sockets and pipes are skipped. PATH may be '-' for standard input.

  -c, --check           read checksums from each FILE ('-' for standard input) and verify them
      --ignore-missing  with -c: don't fail or report status for missing files
      --quiet           with -c: don't print OK for each file that was verified
      --status          with -c: print nothing; only the exit status tells
      --strict          with -c: fail if a line is improperly formatted
  -w, --warn            with -c: warn about each improperly formatted line
      --threads-report  at the end, on standard error: files, MiB/s, CPU seconds, peak threads
  -h, --help            print this help
  -V, --version         print the version

A progress bar is shown on standard error if that is a terminal.

Exit status: 0 on success, 1 if a file could not be read or did not match, 2 for a usage error.
";

/// The parsed command line.
pub(crate) enum Command {
    Run(Args),
    Print(String),
}

/// The settings of a run.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) check: bool,
    pub(crate) ignore_missing: bool,
    pub(crate) quiet: bool,
    pub(crate) status: bool,
    pub(crate) strict: bool,
    pub(crate) warn: bool,
    pub(crate) threads_report: bool,
}

impl Command {
    pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Self, lexopt::Error> {
        let mut args = Args::default();
        // The first option that is valid only with `-c`.
        let mut needs_check = None;
        while let Some(arg) = parser.next()? {
            let (flag, name) = match arg {
                Short('h') | Long("help") => return Ok(Self::Print(HELP.into())),
                Short('V') | Long("version") => {
                    return Ok(Self::Print(format!("checksum (cmwq) {}\n", env!("CARGO_PKG_VERSION"))));
                }
                Value(path) => {
                    args.paths.push(path.into());
                    continue;
                }
                Short('c') | Long("check") => {
                    args.check = true;
                    // `--check=FILE` has a value; `--check FILE` and `-c FILE` name the first operand.
                    args.paths.extend(parser.optional_value().map(PathBuf::from));
                    continue;
                }
                Long("threads-report") => {
                    args.threads_report = true;
                    continue;
                }
                Long("ignore-missing") => (&mut args.ignore_missing, "--ignore-missing"),
                Long("quiet") => (&mut args.quiet, "--quiet"),
                Long("status") => (&mut args.status, "--status"),
                Long("strict") => (&mut args.strict, "--strict"),
                Short('w') | Long("warn") => (&mut args.warn, "--warn"),
                other => return Err(other.unexpected()),
            };
            *flag = true;
            needs_check.get_or_insert(name);
        }
        match needs_check {
            Some(option) if !args.check => {
                Err(format!("the option {option} is meaningful only when verifying, with -c").into())
            }
            _ if args.paths.is_empty() => Err("no path given".into()),
            _ => Ok(Self::Run(args)),
        }
    }
}
