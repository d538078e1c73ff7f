//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use cmwq::control::Attribute;

const AFTER_HELP: &str = "\
With exactly one process that can be watched, neither -p nor -s is needed.

Exit codes:
  0  done
  1  the process refused (no such queue, a value that it does not accept), the output cannot be written, or
     `watchdog` found a stalled pool
  2  the command line is wrong, or does not name one process
  3  there is no such process, or the connection was lost";

/// Watches and changes the workqueues of running processes that use cmwq.
///
/// A process can be watched when it has started a control server (`cmwq::control::Server`). Queues that were built with
/// `control` can be changed as well.
#[derive(Debug, Parser)]
#[command(name = "cmwqctl", version, after_help = AFTER_HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Colours and bold print.
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub(crate) color: Color,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The process that the command line names.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The process, by its id: see `cmwqctl list`.
    #[arg(short, long, value_name = "PID", global = true)]
    pub(crate) pid: Option<u32>,

    /// The process, by the path of its control socket.
    #[arg(short, long, value_name = "SOCKET", global = true, conflicts_with = "pid")]
    pub(crate) socket: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// Use colours on a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the processes that can be watched.
    List {
        /// Print one JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Print scopes, pools and queues at this moment.
    Dump(Dump),
    /// Print counters of queues at intervals.
    Monitor(Monitor),
    /// Watch queues and pools live, and change attributes in place.
    Top {
        #[command(flatten)]
        every: Every,
    },
    /// Print attributes of a queue.
    Get(Get),
    /// Change an attribute of a queue that was built with `control`, and print the value in effect.
    Set(Set),
    /// Report stalled pools, CPU hogs and undeclared blockers; exit with 1 if a pool is stalled now.
    Watchdog {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Print the completions of a shell.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions { shell: Shell },
    /// Print this tool's manual, as roff.
    #[command(after_help = MAN_HELP)]
    Man,
}

const COMPLETIONS_HELP: &str = "\
Installation:
  bash  cmwqctl completions bash > ~/.local/share/bash-completion/completions/cmwqctl
  zsh   cmwqctl completions zsh > DIR/_cmwqctl, DIR being one of $fpath
  fish  cmwqctl completions fish > ~/.config/fish/completions/cmwqctl.fish";

const MAN_HELP: &str = "\
Installation:
  cmwqctl man > ~/.local/share/man/man1/cmwqctl.1
To read it at once: cmwqctl man | man -l -";

#[derive(Debug, Args)]
pub(crate) struct Dump {
    /// Print one JSON object, in the format that `cmwq::observe` documents.
    #[arg(long, conflicts_with = "busy")]
    pub(crate) json: bool,

    /// Print only the activity: items in flight, pending and inactive items, and workers.
    #[arg(long)]
    pub(crate) busy: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Monitor {
    /// Regular expressions; a queue is shown if one of them matches a part of its name. Without any, all queues are
    /// shown.
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) every: Every,

    /// End after this number of samples.
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,

    /// Print each sample as one line with a JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Every {
    /// Seconds between samples; fractions are permitted.
    #[arg(short = 'i', long = "interval", value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The queue, by its name; `name#number` if several have the name.
    pub(crate) queue: String,

    /// The attribute; without it, all attributes are printed.
    #[arg(value_name = "ATTR", value_parser = attribute())]
    pub(crate) attribute: Option<Attribute>,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The queue, by its name; `name#number` if several have the name.
    pub(crate) queue: String,

    /// The attribute.
    #[arg(value_name = "ATTR", value_parser = attribute())]
    pub(crate) attribute: Attribute,

    /// The new value: a scope (cpu, smt, cache, cache_shard, numa, system), 0 or 1, CPUs (0-3,8 or 0xf), a nice level,
    /// or a number; `default` for attributes that have a default.
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: String,
}

/// The shortest time between samples. This bound keeps a mistyped interval from burdening the process.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

fn seconds(text: &str) -> Result<Duration, String> {
    let range = "0.05 to 86400 seconds";
    let seconds: f64 = text.parse().map_err(|_| format!("a number is needed: {range}"))?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|_| format!("possible are {range}"))?;
    if (SHORTEST..=LONGEST).contains(&duration) { Ok(duration) } else { Err(format!("possible are {range}")) }
}

/// Parses the name of an attribute. Shell completions list these names as well.
fn attribute() -> impl TypedValueParser<Value = Attribute> {
    PossibleValuesParser::new(Attribute::ALL.iter().map(|attribute| attribute.name()))
        .try_map(|name| name.parse::<Attribute>())
}
