//! The page with all tables, and the charts in a folder beside the page.

use std::fs;
use std::io;
use std::path::Path;

use crate::about::About;
use crate::aims::Verdict;
use crate::args::Args;
use crate::chart;
use crate::report::CaseReport;
use crate::table;

const READ: &str = "\
## How to read this

Each measurement runs in a process of its own. In each round, every rival runs once, and the order of the rivals changes
from round to round. A value is the median of all rounds. The number after ± is half the width of the middle half of the
rounds, in percent of the median. Rivals are set up as their documentation advises, with their default settings. A pool
that needs a size has one thread per CPU. The work of an item is a fixed amount of its thread's CPU time, or a fixed
number of steps, but never a span of wall-clock time. Rows are ranked by their first number, the best row first. cmwq's
rows are **bold**. The items of cmwq's *undeclared* rows enter no guards and set no flags.

*threads* is the largest number of threads that the rival had; the program's own threads are not counted. If the
workload has a sleeper, the sleeper counts the threads every millisecond. Otherwise the program counts the threads once,
at the end. *after 3 s* is the number of threads after 3 s without work. *CPU time* and the context switches are those
of the process, without the sleeper. A switch is *voluntary* if the thread had to wait, and *involuntary* if another
thread took its CPU. *RSS* is the peak of the process's memory, libraries included. *memory grown* is the growth of the
memory without libraries, from before the rival was made until the end. The *sleeper* is an unrelated thread that sleeps
for a millisecond at a time. The sleeper's columns show how late the sleeper wakes up. A sleeper would keep the CPUs
awake, so the workloads `latency`, `roundtrip`, `dep` and `issuers` have no sleeper.

Short work is repeated in its process for a few tenths of a second. Each rate is that of the median repetition. The CPU
time per item is the mean over all repetitions. The program itself takes 4 to 7 MB of *RSS*, whichever rival runs in it,
and more with hwloc. So the workload `tenants` compares *memory grown* instead of *RSS*.

Each aim is about cmwq's default queue, which is what users get who choose nothing. Where the items are reusable or
*undeclared*, its row is `cmwq-reusable` or `cmwq-undeclared`. An aim is *reached* if it holds with the bad end of cmwq's
spread and the good end of the other row's spread. It is *close* if it holds only with the good end of cmwq's spread and
the bad end of the other's. The column *best kind of cmwq* shows the best of cmwq's kinds of queues by the same measure,
which decides nothing, and how many times as good it is as the row that cmwq is *compared with*.

The rival `channel` is a channel with threads behind it. It manages nothing, so it does the least that a pool can do.
The rival `threads` starts a thread for each item. In `roundtrip`, and where items per second are measured, `threads`
runs a tenth of the items. The rival `rayon-apart` consists of two pools, one of which runs items that are urgent or
take long. In the charts, cmwq's rows are blue, pools are orange, and `channel` and `threads` are grey.
";

/// Returns the text to print.
pub(crate) fn plain(about: &About, reports: &[CaseReport], verdicts: &[Verdict]) -> String {
    let mut parts = vec![about.markdown()];
    if !verdicts.is_empty() {
        parts.push(format!("## Aims\n\n{}\n\n{}", table::reached(verdicts), table::verdicts(verdicts)));
    }
    parts.extend(reports.iter().map(|report| {
        [table::heading(report, about.effort), table::front(report), table::rest(report).unwrap_or_default()]
            .join("\n")
    }));
    parts.join("\n")
}

/// Creates the files and folders before the measurement, so that errors show early.
pub(crate) fn prepare(args: &Args) -> io::Result<()> {
    let told = |path: &Path| {
        let path = path.display().to_string();
        move |error: io::Error| io::Error::new(error.kind(), format!("{path} cannot be written: {error}"))
    };
    if let Some(folder) = &args.svg {
        fs::create_dir_all(folder).map_err(told(folder))?;
    }
    if let Some(file) = &args.write {
        fs::create_dir_all(file.with_extension("")).map_err(told(file))?;
        // The file keeps its present contents until there are new ones.
        fs::OpenOptions::new().append(true).create(true).open(file).map_err(told(file))?;
    }
    Ok(())
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
    let case = |report: &CaseReport| {
        let image = format!("![{}]({name}/{})\n", chart::summary(report), chart_name(report));
        let rest = table::rest(report).map(|rest| {
            format!("<details>\n<summary>Switches, memory, and the sleeper</summary>\n\n{rest}\n</details>\n")
        });
        [table::heading(report, about.effort), image, table::front(report), rest.unwrap_or_default()]
            .join("\n")
    };
    let mut parts = vec![head(about, verdicts), READ.to_owned(), about.markdown(), contents(reports)];
    parts.extend(reports.iter().map(case));
    fs::write(file, parts.join("\n"))
}

/// Returns the head of the page, which has the results of the aims.
fn head(about: &About, verdicts: &[Verdict]) -> String {
    let machine = about.machine();
    let title =
        format!("# cmwq and its rivals on the same work\n\nMeasured with {machine} by `{}`.", about.command);
    if verdicts.is_empty() {
        return title + "\n";
    }
    let (reached, table) = (table::reached(verdicts), table::verdicts(verdicts));
    format!("{title} {reached}\n\n{table}")
}

/// Returns a link to each case.
fn contents(reports: &[CaseReport]) -> String {
    let links = reports.iter().map(|report| {
        let name = report.case.name();
        format!("[{name}](#{})", name.replace('/', ""))
    });
    format!("## Workloads\n\n{}\n", links.collect::<Vec<_>>().join(" · "))
}

/// Draws a chart of each case into this folder, which is made if necessary.
pub(crate) fn draw(folder: &Path, reports: &[CaseReport]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    reports.iter().try_for_each(|report| fs::write(folder.join(chart_name(report)), chart::picture(report)))
}

fn chart_name(report: &CaseReport) -> String {
    format!("{}.svg", report.case.name().replace('/', "-"))
}
