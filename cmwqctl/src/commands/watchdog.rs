//! `cmwqctl watchdog`, whose exit code makes it usable as a health check.

use std::io::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use cmwq::Offender;
use cmwq::control::{Client, WatchdogReport};

use crate::failure::{Failure, Result};
use crate::process::failure;
use crate::text;

pub(crate) fn run(json: bool, client: &mut Client, out: &mut dyn Write) -> Result<()> {
    let report = client.watchdog().map_err(failure)?;
    let finding = if report.stalled.is_empty() { Ok(()) } else { Err(Failure::Finding) };
    let written = if json { super::write_json(&report, out) } else { write(&report, out) };
    match written {
        Err(failure) if !failure.is_silent() => Err(failure),
        // The exit code tells the finding even if the reader has closed the pipe.
        _ => finding,
    }
}

fn write(report: &WatchdogReport, out: &mut dyn Write) -> Result<()> {
    let (green, red) = (AnsiColor::Green.on_default(), AnsiColor::Red.on_default().bold());
    match report.threshold {
        Some(threshold) => writeln!(out, "threshold  {}", seconds(threshold))?,
        None => writeln!(out, "threshold  none: the watchdog is off")?,
    }
    writeln!(out, "stalls     {} so far", report.stalls)?;
    if report.stalled.is_empty() {
        writeln!(out, "stalled    {green}none{green:#}")?;
    }
    for pool in &report.stalled {
        writeln!(
            out,
            "stalled    {red}pool {}{red:#} (CPUs {}) has started nothing for {}, {} pending",
            text::word(&pool.pool),
            pool.cpus,
            seconds(pool.stalled_for),
            pool.pending
        )?;
    }
    offenders("hogs", &report.hogs, out)?;
    offenders("undeclared", &report.undeclared_blockers, out)?;
    out.flush()?;
    Ok(())
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn offenders(title: &str, offenders: &[Offender], out: &mut dyn Write) -> Result<()> {
    let yellow: Style = AnsiColor::Yellow.on_default();
    if offenders.is_empty() {
        writeln!(out, "{title:<10} none")?;
    }
    for offender in offenders {
        let item_type = text::word(&offender.item_type);
        writeln!(out, "{title:<10} {yellow}{:>8}{yellow:#}  {item_type}", offender.count)?;
    }
    Ok(())
}
