//! `cmwqctl`: watches and changes the workqueues of running processes that use cmwq.

mod args;
mod commands;
mod failure;
mod process;
mod table;
mod top;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Color};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::AlwaysAnsi,
        Color::Never => anstream::ColorChoice::Never,
    }
    .write_global();
    match commands::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            ExitCode::from(failure.exit_code())
        }
    }
}
