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

Each measurement is a process of its own. Rounds are interleaved: each of them takes every rival once, in another order.
What is shown is the median of all rounds, and after ± half of the width of their middle half. Rivals are set up by their
documentation, with their defaults; a pool whose size has to be chosen has a thread per CPU. Items that work do so for an
amount of CPU time of their thread, or a fixed number of steps, never until a time of the day. Rows are ranked by their
first number, the best one first; cmwq's are **bold**, and its *undeclared* rows tell nothing of what their items do.

*threads* are the most that the rival had, without those of the program itself, where there is a sleeper, who counts them
every millisecond, and those at the end elsewhere; *after 3 s*, when it has had nothing to do for so long. *CPU time* and *switches* (of context: because a thread had to wait, and because another one took its CPU) are
those of the process. *RSS* is the most memory that it had, libraries included, and *memory grown* how much more it had in
the end, without these, than before there was a rival. The *sleeper* is a thread that has nothing to do with any of it and
sleeps a millisecond at a time: how much too late it wakes up. There is none where a latency is measured, since it would
keep the CPUs awake.

What is short is repeated in its process for some tenths of a second: rates are those of the median repetition, and CPU
time per item that of all. The program itself has 4 to 7 MB of *RSS*, the more with hwloc, whoever runs in it: so
`tenants` compare how much memory has *grown*.

An aim is *close* if it is missed by less than runs differ: with the good end of cmwq's spread, and the bad end of the
other's, it would be reached. Ours is the best row of cmwq's queues that tell, and theirs the best of all rivals, each by
that measure alone, unless the aim says otherwise. Beside such a best row stands what the *default queue* comes to, and how
many times as good it is as that other row.

`channel` is a channel with threads behind it, which manages nothing: the least that a pool can do. `threads` starts a
thread for each item, where it is asked for a tenth of the items if these are counted per second. `rayon-apart` are two
pools, one for what is urgent or takes long. In the charts, cmwq's rows are blue, pools orange, `channel` and
`threads` grey.
";

/// What is printed.
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

/// Makes what is to be written into, so that nobody waits for numbers that cannot be.
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
        // What is in it stays until there is something else.
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

/// What came of it, before anything else.
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

/// A link to each case.
fn contents(reports: &[CaseReport]) -> String {
    let links = reports.iter().map(|report| {
        let name = report.case.name();
        format!("[{name}](#{})", name.replace('/', ""))
    });
    format!("## Workloads\n\n{}\n", links.collect::<Vec<_>>().join(" · "))
}

/// A chart of each, into this folder, which is made if it is not there.
pub(crate) fn draw(folder: &Path, reports: &[CaseReport]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    reports.iter().try_for_each(|report| fs::write(folder.join(chart_name(report)), chart::picture(report)))
}

fn chart_name(report: &CaseReport) -> String {
    format!("{}.svg", report.case.name().replace('/', "-"))
}
