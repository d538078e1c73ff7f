//! `cmwqctl completions` and `cmwqctl man`.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;

pub(crate) fn completions(shell: Shell, out: &mut dyn Write) -> io::Result<()> {
    // The text goes into memory first, because `generate` panics if it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cmwqctl", &mut text);
    out.write_all(&text)
}

/// Prints one manual page for the tool, with a section for each command.
pub(crate) fn man(out: &mut dyn Write) -> io::Result<()> {
    let mut command = Cli::command();
    command.build();
    let page = clap_mangen::Man::new(command.clone());
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        let own = subcommand.clone().mut_args(|argument| {
            let known = argument.is_global_set() || ["help", "version"].contains(&argument.get_id().as_str());
            argument.hide(known)
        });
        let section = clap_mangen::Man::new(own);
        writeln!(out, ".SH \"CMWQCTL {}\"", subcommand.get_name().to_uppercase())?;
        let mut text = Vec::new();
        section.render_synopsis_section(&mut text)?;
        section.render_description_section(&mut text)?;
        section.render_options_section(&mut text)?;
        for line in String::from_utf8_lossy(&text).lines() {
            // The sections of a command's own page become subsections of this page.
            let demoted = line.strip_prefix(".SH ").map(|title| format!(".SS {title}"));
            writeln!(out, "{}", demoted.as_deref().unwrap_or(line))?;
        }
    }
    page.render_extra_section(out)?;
    page.render_version_section(out)
}
