//! All tables as one page, and the charts beside it.

use std::fs;
use std::io;
use std::path::Path;

use crate::about::About;
use crate::aims::Verdict;
use crate::chart;
use crate::report::CaseReport;
use crate::table;

const HEAD: &str = "\
# cmwq and its rivals on the same work

Each measurement is a process of its own. Rounds are interleaved: each of them takes every rival once, in another order.
What is shown is the median, and beside the first number half of the width of the middle half of all runs. Rivals are set
up by their documentation, with their defaults; a pool whose size has to be chosen has a thread per CPU. Items that work do
so for an amount of CPU time of their thread, or a fixed number of steps, never until a time of the day.

*threads* are the most that the rival had, without those of the program itself; *after 3 s*, when it has had nothing to do
for so long. *Switches* are context switches of the process. *RSS* is the most memory that it had, libraries included, and
*memory grown* how much more it had in the end, without these, than before there was a rival. The *sleeper* is a thread
that has nothing to do with any of it and sleeps a millisecond at a time: how much too late it wakes up. `channel` is a
channel with threads behind it, which manages nothing: the least that a pool can do.
";

/// What is printed.
pub(crate) fn plain(about: &About, reports: &[CaseReport], verdicts: &[Verdict]) -> String {
    text(about, reports, verdicts, |_| String::new())
}

/// Writes the page, and the charts into a folder of the same name.
pub(crate) fn write(
    file: &Path,
    about: &About,
    reports: &[CaseReport],
    verdicts: &[Verdict],
) -> io::Result<()> {
    let folder = file.with_extension("");
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    draw(&folder, reports)?;
    let image = |report: &CaseReport| format!("\n![{}]({name}/{})\n", report.case.name(), chart_name(report));
    fs::write(file, format!("{HEAD}\n{}", text(about, reports, verdicts, image)))
}

/// A chart of each, into this folder, which is made if it is not there.
pub(crate) fn draw(folder: &Path, reports: &[CaseReport]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    reports.iter().try_for_each(|report| fs::write(folder.join(chart_name(report)), chart::picture(report)))
}

fn text(
    about: &About,
    reports: &[CaseReport],
    verdicts: &[Verdict],
    image: impl Fn(&CaseReport) -> String,
) -> String {
    let mut parts = vec![about.markdown()];
    if !verdicts.is_empty() {
        parts.push(table::verdicts(verdicts));
    }
    parts.extend(reports.iter().map(|report| table::case(report) + &image(report)));
    parts.join("\n")
}

fn chart_name(report: &CaseReport) -> String {
    format!("{}.svg", report.case.name().replace('/', "-"))
}
