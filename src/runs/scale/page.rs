//! The page with the results of the simulations: a table for each kind of work.

use std::fmt::Write;
use std::fs;

use testkit::conditions::Begin;
use testkit::table::aligned;

use super::{Kind, LOADS, Load, Measured, OF_CACHE, measure};

/// The numbers of CPUs of the machines, unless `CMWQ_SCALE` sets other numbers.
const CPUS: &str = "1,2";

/// An item of the default queue may cost at most this many times as much on a machine of many caches as on a machine
/// of one cache.
const MOST: f64 = 4.0;

/// If an item on a machine of one cache costs less than this number of nanoseconds, its cost counts as this number.
const FLOOR: f64 = 500.0;

const INTRODUCTION: &str = "# The cost of short items on machines with many CPUs

*Simulated*: the crate itself runs on made-up CPUs in made-up time, in which the movement of cache lines and the waking
of threads take time. `src/runs/scale/mod.rs` states the assumed costs. In particular, a line takes 40 ns from a CPU of
the same cache and 110 ns from another cache, and serves one CPU after the other. Each cache has up to eight CPUs.

*ns* is the time of the whole work, multiplied by the number of CPUs and divided by the number of items. So this number
stays the same if the work is divided perfectly, and CPUs that have nothing to do count. In the first table, it is the
time of the whole work, divided by the number of items: what one issuer has to wait for. Without any communication, an
item takes 140 ns, or 5070 ns in the third table: 70 ns for its submission, and the rest for its execution. *lines* is
the number of cache lines that moved between CPUs for each item, as counted at each access to an atomic, to a lock, or
to an end of a worklist or waiting list. *wakes* is the number of threads that were woken for each thousand items.
Each row is the median of three runs, in which threads take their steps in other orders. Objects have other addresses in
each run, and so share other lines. So the numbers differ from run to run, most where many CPUs compete. From 24 CPUs
on, a no-op costs up to twice as much in one run as in another, because the work ends with its last issuer. An issuer
that finds a worker on its CPU gets the CPU after a time slice of 0.7 ms, which is as long as the whole work takes. The
machine moves no thread to a free CPU in the meantime, as Linux would.

A line stays with the CPU at which it has just arrived for as long as a failed compare-and-exchange is repeated. If each
attempt had to wait for all other CPUs again, all but one would fail in each round. With 128 CPUs, the end of each of
the last no-ops would then take 10 µs, and in one run of five, the last no-ops would end some milliseconds late. The
crate's words change by such exchanges, so a machine whose CPUs really lose a line between two attempts would show this.

What the tables show:

* One issuer of no-ops keeps one or two workers busy, however many CPUs there are. A pool with short items leaves a
  small backlog to the workers that run (promise C3.4). If each push woke another worker while a CPU is free, the issuer
  would be slower than one worker. So the pool would be idle between the items, and the issuer would have to wake a
  worker for most of them. A wake-up costs several times as much as a no-op.
* The default queue uses all CPUs for items of 5 µs. On any of these machines, such an item costs at most a quarter more
  than its own work. A per-CPU queue leaves the CPUs without issuers idle, which doubles its costs in the second and
  third table.
* The worklist of the default queue has a part for each CPU of a cache. If only every other CPU has an issuer, the
  worker of a CPU without one takes the no-ops of another CPU. So the lines of each issuer move between two CPUs,
  which takes longer than a no-op, but they do not move among all CPUs. A pool leaves a small backlog of short items to
  the sibling that has it. So from one cache to sixteen caches, the costs of a no-op only double.
* A chain moves no line. But two chains may share a CPU for up to 3 ms while another CPU is free (promise F8.6), which
  is longer than this work takes.
";

const fn title(load: Load) -> &'static str {
    match load {
        Load::OneIssuer => "One issuer: it queues 2000 no-ops, and the other CPUs are free",
        Load::Empty => "No-ops: one CPU in two has an issuer, which queues 2000 of them",
        Load::Short => "Short items: the same with 500 items that take 5 µs",
        Load::Chain => "Chains: for each CPU, an item queues its successor, 2000 times",
        Load::FanOut => {
            "Fan-out: for each CPU, an item queues four items, and each of these four more, six levels deep"
        }
    }
}

/// Returns the median of three runs, in which the threads take their steps in different orders.
fn median(cpus: usize, kind: Kind, load: Load) -> Measured {
    let mut runs = [1, 2, 3].map(|seed| measure(cpus, kind, load, seed));
    runs.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    runs[1]
}

/// Prints the page. Also writes the page to the file that `CMWQ_SCALE_PAGE` names, if this variable is set.
/// `CMWQ_SCALE` sets the numbers of CPUs.
#[test]
fn show() {
    let begin = Begin::now();
    let cpus = std::env::var("CMWQ_SCALE").unwrap_or_else(|_| CPUS.to_owned());
    let cpus: Vec<usize> = cpus.split(',').map(|cpus| cpus.parse().expect("a number of CPUs")).collect();
    let mut page = INTRODUCTION.to_owned();
    print!("{page}");
    for load in LOADS {
        let mut lines = vec![
            ["CPUs", "default queue: ns", "lines", "wakes", "per-CPU queue: ns", "lines", "wakes"]
                .map(str::to_owned)
                .to_vec(),
        ];
        let mut of_one_cache = None;
        for cpus in &cpus {
            let measured = [Kind::Default, Kind::PerCpu].map(|kind| median(*cpus, kind, load));
            if *cpus > OF_CACHE {
                // The costs of an item differ between runs by a factor of two. Without brisk pools, an item on 64 CPUs
                // costs fifty times as much as on eight CPUs.
                let one = *of_one_cache.get_or_insert_with(|| median(OF_CACHE, Kind::Default, load).cost);
                assert!(measured[0].cost <= MOST * one.max(FLOOR), "{load:?}, {cpus} CPUs: {measured:?}");
            }
            let cells = measured.iter().flat_map(|row| {
                [format!("{:.0}", row.cost), format!("{:.1}", row.lines), format!("{:.1}", row.wakes)]
            });
            lines.push(std::iter::once(cpus.to_string()).chain(cells).collect());
        }
        let table = format!("\n## {}\n\n{}", title(load), aligned(&lines, 0));
        print!("{table}");
        page.push_str(&table);
    }
    writeln!(page, "\nSimulated at {} by `make lab-scale`.", begin.commit).unwrap();
    if let Some(path) = std::env::var_os("CMWQ_SCALE_PAGE") {
        fs::write(path, page).unwrap();
    }
}
