//! The results as text, and as a page with charts.

use std::fs;
use std::io;
use std::path::Path;

use testkit::chart::{Chart, Row};
use testkit::conditions::{self, Begin, versions};
use testkit::picture::WIDTH;
use testkit::stats::Spread;
use testkit::table::aligned;

use crate::args::Args;
use crate::engine::Kind;
use crate::report::{COLUMNS, Report, Served, with_interval};
use crate::setup::{self, BLOCK, COMPUTE, HEALTH_RATE, NICE, NICE_OF_LOAD, block_limit, compute_limit};

/// The crates that affect the numbers.
const PACKAGES: [&str; 4] = ["axum", "hyper", "rayon", "tokio"];

const LEGEND: [(&str, &str, f64); 2] = [("blue", "cmwq", WIDTH - 200.0), ("orange", "others", WIDTH - 110.0)];

/// The columns of the charts: `HEALTH` is the p99 of `/health`, and `DONE` are the completed requests per second.
const HEALTH: usize = 0;
const DONE: [usize; 2] = [3, 6];

/// The conditions of the run.
pub(crate) struct About {
    rows: Vec<(&'static str, String)>,
    machine: String,
    command: String,
    seconds: f64,
    /// The CPU time that the requests ask for, as a multiple of the machine's CPU time.
    overload: f64,
}

pub(crate) fn about(args: &Args, report: &Report, begin: Begin) -> About {
    let stolen = begin.stolen().filter(|percent| *percent >= 0.5).map_or(String::new(), |percent| {
        format!("; {percent:.0} % of their time meanwhile went to other machines on this hardware")
    });
    let (processor, cpus, system) = (conditions::processor(), setup::cpus(), conditions::system());
    let raised = report.served.iter().flat_map(|served| &served.rounds).all(|(load, _)| load.raised);
    let generator = match raised {
        true => format!("nice {NICE_OF_LOAD}, on the same CPUs as the service"),
        false => "at the service's priority, on the same CPUs".into(),
    };
    let command = format!("make lab-service{}", if args.quick { " QUICK=1" } else { "" });
    let arguments = format!("`service-lab{}`", conditions::arguments());
    let effort = format!(
        "{} rounds, {} s each after a second that is not recorded; {} s in all",
        args.rounds,
        args.seconds,
        begin.seconds()
    );
    let rows = vec![
        ("machine", format!("{processor}, {cpus} CPUs{stolen}")),
        ("system", system.clone()),
        ("compiler", format!("{}, release profile", begin.compiler)),
        ("commit", begin.commit),
        ("versions", versions(include_str!("../Cargo.lock"), &PACKAGES).join(", ")),
        ("load generator", generator),
        ("work of `/compute`", format!("{} × SHA-512 of 16 KiB", report.hashes)),
        ("effort", effort),
        ("command", format!("`{command}`, which runs {arguments}")),
    ];
    let machine = format!("{cpus} CPUs ({processor}, {system})");
    About {
        rows,
        machine,
        command,
        seconds: args.seconds as f64,
        overload: f64::from(report.rate) / f64::from(setup::rate(1)),
    }
}

fn conditions_table(about: &About) -> String {
    let rows = about.rows.iter().map(|(name, value)| format!("| {name} | {value} |\n"));
    format!("| | |\n|---|---|\n{}", rows.collect::<String>())
}

/// Returns the text to print.
pub(crate) fn plain(about: &About, report: &Report) -> String {
    [conditions_table(about), verdicts(report), engines(about, report)].join("\n")
}

/// Creates the files and folders before the measurement, so that errors show early.
pub(crate) fn prepare(file: &Path) -> io::Result<()> {
    fs::create_dir_all(file.with_extension(""))?;
    // The file keeps its present contents until there are new ones.
    fs::OpenOptions::new().append(true).create(true).open(file).map(drop)
}

/// Writes the page, and the charts into a folder of the same name.
pub(crate) fn write(file: &Path, about: &About, report: &Report) -> io::Result<()> {
    let folder = file.with_extension("");
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for (chart, svg) in [("health", health_chart(about, report)), ("done", done_chart(about, report))] {
        fs::write(folder.join(format!("{chart}.svg")), svg)?;
    }
    let reached = report.verdicts().iter().filter(|verdict| verdict.is_reached).count();
    let head = format!(
        "# A service under overload\n\nMeasured with {} by `{}`. {reached} of {} figures are reached.\n",
        about.machine,
        about.command,
        report.verdicts().len()
    );
    let parts = [
        head,
        verdicts(report),
        format!("![The 99th percentile of /health, by engine]({name}/health.svg)\n"),
        engines(about, report),
        format!("![Requests done per second, by engine]({name}/done.svg)\n"),
        how_to_read(about, report),
        conditions_table(about),
    ];
    fs::write(file, parts.join("\n"))
}

fn verdicts(report: &Report) -> String {
    let heads = ["what", "", "cmwq", "other", "times as long", "figure"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    lines.extend(report.verdicts().into_iter().map(|verdict| {
        let standing = if verdict.is_reached { "reached" } else { "**missed**" };
        vec![verdict.what, standing.to_owned(), verdict.ours, verdict.other, verdict.ratio, verdict.figure]
    }));
    aligned(&lines, heads.len())
}

fn engines(about: &About, report: &Report) -> String {
    let heads = std::iter::once("engine").chain(COLUMNS.iter().map(|column| column.name));
    let mut lines: Vec<Vec<String>> = vec![heads.map(str::to_owned).collect()];
    for served in &report.served {
        let cells = COLUMNS.iter().map(|column| {
            let spread = served.spread(column, about.seconds);
            spread.map_or("-".into(), |spread| with_interval(spread, column.decimals, ""))
        });
        lines.push(std::iter::once(name(served)).chain(cells).collect());
    }
    let errors = report.served.iter().filter(|served| served.errors() > 0);
    let errors = errors.map(|served| format!("{} requests to {} failed. ", served.errors(), served.engine));
    let errors: String = errors.collect();
    let errors = if errors.is_empty() { String::new() } else { format!("\n{}\n", errors.trim_end()) };
    aligned(&lines, 1) + &errors
}

/// Returns the name of a row, in bold for cmwq's rows.
fn name(served: &Served) -> String {
    match served.engine.kind {
        Kind::Cmwq => format!("**{}**", served.engine),
        _ => served.engine.to_string(),
    }
}

fn chart(
    title: &str,
    summary: &str,
    report: &Report,
    value: impl Fn(&Served) -> Option<Spread>,
    text: impl Fn(Spread) -> String,
) -> String {
    let rows = report.served.iter().map(|served| {
        let spread = value(served);
        let class = if served.engine.kind == Kind::Cmwq { "blue" } else { "orange" };
        let text = spread.map_or("not measured".into(), &text);
        Row { name: served.engine.to_string(), class, spread, text }
    });
    Chart { title, summary, legend: &LEGEND, rows: rows.collect() }.draw()
}

fn health_chart(about: &About, report: &Report) -> String {
    let title = format!("/health at {} × overload", about.overload);
    let value = |served: &Served| served.spread(&COLUMNS[HEALTH], about.seconds);
    let text = |spread: Spread| format!("{:.2} ms", spread.median);
    chart(&title, "99th percentile, ms: less is better", report, value, text)
}

fn done_chart(about: &About, report: &Report) -> String {
    let title = format!("Requests done at {} × overload", about.overload);
    let value = |served: &Served| {
        let [one, two] = DONE.map(|column| served.spread(&COLUMNS[column], about.seconds));
        let (one, two) = (one?, two?);
        Some(Spread { median: one.median + two.median, low: one.low + two.low, high: one.high + two.high })
    };
    let text = |spread: Spread| format!("{:.0} per s", spread.median);
    chart(&title, "/compute and /block together, per second: more is better", report, value, text)
}

fn how_to_read(about: &About, report: &Report) -> String {
    let (compute, block) = (compute_limit(), block_limit());
    let each = report.rate / 2;
    format!(
        "\
## How to read this

The service is one program on axum and tokio, with as many threads for HTTP as there are CPUs. `/health` does nothing.
`/compute` hashes for {compute_time} ms. `/block` sleeps for {block_time} ms. Only the engine behind the last two is
exchanged. A client sends {each} requests per second to each of them, and {HEALTH_RATE} to `/health`. The requests for
`/compute` ask for {overload} × the CPU time of the machine. All engines admit the same numbers: of `/compute`, {running}
requests that run and {waiting} that wait, and of `/block`, {blocked} and {waiting_too}. All other requests are answered
with 503.

* **cmwq**: a queue for `/compute` and one for `/block`, which sleeps under a guard. `try_reserve` admits, and the request
  awaits the handle.
* **tokio**: `spawn_blocking` for both. One semaphore admits, and a second one limits how many run.
* **rayon**: a pool with a thread for each CPU computes, and a oneshot channel brings the result back. `/block` uses
  `spawn_blocking`, because it would stop rayon's threads.
* **…-nice**: the threads that do the work have nice {NICE}, so that the threads for HTTP have precedence. In cmwq, this
  is an attribute of the queue for `/compute`, as `cmwq::guide::services` advises, so the two queues have workers of their
  own. rayon sets the level when its threads start. tokio needs a second runtime, because the hooks of a runtime do not
  tell its blocking threads from the others.

While the service has hardly any work, the p99 of `/health` is {unloaded}. No engine can be much better than that.

The load generator is a process of its own. It sends each request when it is due, whether answers come or not, and it
measures from the time at which the request was due. *sent late* is how far the generator itself was behind. It runs on
the same CPUs as the service, and its CPU time is in the table. The latencies of `/compute` and `/block` are those of the
requests that were done. In each round every engine serves once, in another order, in new processes. A value is the
median of all rounds. The numbers in parentheses are the middle half of the rounds. *times as long* compares each round
of cmwq with the same round of the other.

An *await round trip* is the time from `queue.spawn(..)` until the awaited handle has the result of an empty closure, in
a task of tokio, compared with `tokio::task::spawn_blocking(..).await`.
",
        unloaded = report.unloaded(),
        compute_time = COMPUTE.as_millis(),
        block_time = BLOCK.as_millis(),
        overload = about.overload,
        running = compute.running,
        waiting = compute.admitted - compute.running,
        blocked = block.running,
        waiting_too = block.admitted - block.running,
    )
}

#[cfg(test)]
mod tests {
    use testkit::conditions::Begin;

    use super::{PACKAGES, about, prepare, versions, write};
    use crate::args::{Args, Role};
    use crate::report::tests::report;

    fn args() -> Args {
        match Role::parse(lexopt::Parser::from_args(["--quick"])) {
            Ok(Role::Measure(args)) => args,
            _ => panic!("these are arguments of a measurement"),
        }
    }

    #[test]
    fn the_page_has_the_figures_the_tables_and_the_charts() {
        let folder = std::env::temp_dir().join(format!("service-lab-{}", std::process::id()));
        let file = folder.join("service.md");
        std::fs::create_dir(&folder).unwrap();
        let report = report(&[("tokio", [8.0, 9.0]), ("cmwq", [2.0, 3.0]), ("rayon", [40.0, 90.0])]);
        let about = about(&args(), &report, Begin::now());
        prepare(&file).unwrap();
        write(&file, &about, &report).unwrap();
        let page = std::fs::read_to_string(&file).unwrap();
        let line = page.lines().find(|line| line.starts_with("| /health p99, no nice levels"));
        assert!(line.is_some_and(|line| line.contains("| reached |")), "{page}");
        assert!(page.contains("service/health.svg") && page.contains("| commit | "), "{page}");
        for chart in ["health", "done"] {
            let svg = std::fs::read_to_string(folder.join(format!("service/{chart}.svg"))).unwrap();
            assert_eq!(svg.matches("class=\"orange\"").count(), 1 + 2, "{svg}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_versions_are_known() {
        assert_eq!(versions(include_str!("../Cargo.lock"), &PACKAGES).len(), PACKAGES.len());
    }
}
