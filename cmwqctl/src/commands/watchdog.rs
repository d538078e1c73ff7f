//! `cmwqctl watchdog`: fit for a health check, by its exit code.

use std::io::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use cmwq::Offender;
use cmwq::control::{Client, WatchdogReport};

use crate::failure::{Failure, Result};
use crate::process::failure;

pub(crate) fn run(json: bool, client: &mut Client, out: &mut dyn Write) -> Result<()> {
    let report = client.watchdog().map_err(failure)?;
    if json {
        super::write_json(&report, out)?;
    } else {
        write(&report, out)?;
        out.flush()?;
    }
    if report.stalled.is_empty() { Ok(()) } else { Err(Failure::Finding) }
}

fn write(report: &WatchdogReport, out: &mut dyn Write) -> Result<()> {
    let (green, red) = (AnsiColor::Green.on_default(), AnsiColor::Red.on_default().bold());
    match report.threshold {
        Some(threshold) => writeln!(out, "threshold  {}", seconds(threshold))?,
        None => writeln!(out, "threshold  none: nobody watches")?,
    }
    writeln!(out, "stalls     {} so far", report.stalls)?;
    if report.stalled.is_empty() {
        writeln!(out, "stalled    {green}none{green:#}")?;
    }
    for pool in &report.stalled {
        writeln!(
            out,
            "stalled    {red}pool {}{red:#} (CPUs {}) has started nothing for {}, {} pending",
            pool.pool,
            pool.cpus,
            seconds(pool.stalled_for),
            pool.pending
        )?;
    }
    offenders("hogs", &report.hogs, out)?;
    offenders("undeclared", &report.undeclared_blockers, out)
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
        writeln!(out, "{title:<10} {yellow}{:>8}{yellow:#}  {}", offender.count, offender.item_type)?;
    }
    Ok(())
}
