//! One module for each command.

mod attribute;
mod dump;
mod generate;
mod list;
mod monitor;
mod watchdog;

use std::io::{self, Write};

use crate::args::{Cli, Command};
use crate::failure::Result;
use crate::{process, top};

/// Runs the command that the command line names.
pub(crate) fn run(cli: &Cli) -> Result<()> {
    // Each line is written as soon as it is complete, even if the output is a pipe.
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    match &cli.command {
        Command::Completions { shell } => generate::completions(*shell, &mut out)?,
        Command::Man => generate::man(&mut out)?,
        Command::List { json } => list::run(*json, &mut out)?,
        Command::Dump(args) => dump::run(args, &mut process::connect(&cli.target)?, &mut out)?,
        Command::Monitor(args) => monitor::run(args, &cli.target, &mut out)?,
        Command::Get(args) => attribute::get(args, &mut process::connect(&cli.target)?, &mut out)?,
        Command::Set(args) => attribute::set(args, &mut process::connect(&cli.target)?, &mut out)?,
        Command::Watchdog { json } => watchdog::run(*json, &mut process::connect(&cli.target)?, &mut out)?,
        Command::Top { every } => {
            drop(out);
            return top::run(&cli.target, every.interval);
        }
    }
    out.flush()?;
    Ok(())
}

/// Writes one line of JSON.
fn write_json(value: &impl serde::Serialize, out: &mut dyn Write) -> Result<()> {
    let mut text = serde_json::to_vec(value).map_err(io::Error::from)?;
    text.push(b'\n');
    out.write_all(&text)?;
    out.flush()?;
    Ok(())
}
