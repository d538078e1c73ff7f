//! All tables as one page, and the charts beside it.

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

Each measurement is a process of its own. In each round every rival runs once, in another order. A value is the median
of all rounds; the number after ± is half of the width of their middle half. Rivals are set up as their documentation
says, with their defaults. A pool whose size must be chosen has a thread for each CPU. Items work for an amount of CPU
time of their thread, or for a fixed number of steps, and never until a time of the day. Rows are ranked by their first
number, with the best one first. cmwq's rows are **bold**. The items of its *undeclared* rows enter no guards and set no
flags.

*threads* is the most threads that the rival had, without those of the program itself. If there is a sleeper, it counts
them every millisecond; otherwise they are counted at the end. *after 3 s* is the number after 3 s without work. *CPU
time* is that of the process. So are the *switches* of context: voluntary, because a thread had to wait, and
involuntary, because another thread took its CPU. *RSS* is the peak of the process's memory, libraries included. *memory
grown* is the memory at the end without libraries, minus that from before the rival was made. The *sleeper* is an
unrelated thread that sleeps a millisecond at a time; the value is how late it wakes up. There is none where a latency
is measured, because it would keep the CPUs awake.

Short work is repeated in its process for some tenths of a second. Rates are those of the median repetition, and CPU
time per item is that of all repetitions. The program itself has 4 to 7 MB of *RSS*, more with hwloc, whichever rival
runs in it. So `tenants` compares how much memory has *grown*.

An aim is *close* if it is missed by less than the difference between runs: it would be reached with the good end of
cmwq's spread and the bad end of the other's. Unless the aim says otherwise, cmwq's row is the best of its queues
without the *undeclared* ones, and the other row is the best of all rivals, each by this measure alone. Beside such a
best row stands the value of the *default queue*, and how many times as good it is as the other row.

`channel` is a channel with threads behind it, which manages nothing: the least that a pool can do. `threads` starts a
thread for each item; where items per second are measured, it runs a tenth of the items. `rayon-apart` is two pools, one
of them for items that are urgent or take long. In the charts, cmwq's rows are blue, pools orange, `channel` and
`threads` grey.
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

/// Makes the files and folders before the measurement, so that an error is found early.
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
        // The present contents stay until there are new ones.
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

/// Returns the head of the page: the results of the aims.
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
