//! Tests of the texts of snapshots, busy reports and monitor reports.

use super::sample::{busy, cpus, idle, monitored};
use crate::observe::{PodSnapshot, QueueKind, Snapshot};

/// Compares two texts line by line, so that a failure shows the first line that differs.
#[track_caller]
pub(super) fn same(text: &str, golden: &str) {
    for (n, (line, expected)) in (1..).zip(text.lines().zip(golden.lines())) {
        assert_eq!(line, expected, "line {n} of\n{text}");
    }
    assert_eq!(text, golden);
}

/// spec: O2.1 (the sections of `wq_dump`): the text of a busy executor's snapshot equals the golden text.
#[test]
fn a_dump_has_the_sections_of_wq_dump() {
    same(&busy().to_string(), include_str!("dump.txt"));
}

/// spec: O2.2 (`show_all_workqueues`): the text of a busy report equals the golden text.
#[test]
fn a_busy_report_has_what_runs_and_how_much_waits() {
    same(&busy().busy().to_string(), include_str!("busy.txt"));
}

/// spec: O2.3 (`wq_monitor`): the text of a monitor report equals the golden text.
#[test]
fn a_monitor_has_the_columns_of_wq_monitor() {
    same(&monitored().to_string(), include_str!("monitor.txt"));
}

/// spec: O2.2
#[test]
fn idle_and_forked_executors_are_reported_as_such() {
    let snapshot = idle();
    assert!(snapshot.busy().is_idle());
    same(&snapshot.busy().to_string(), "Showing busy workqueues and worker pools:\nnothing is busy\n");
    let text = snapshot.to_string();
    assert!(!text.contains("Workqueue"), "no section is empty: {text}");
    let forked = Snapshot { forked: true, scopes: Vec::new(), ..idle() };
    let says = "the executor belongs to the process that this one was forked from";
    assert!(forked.to_string().contains(says) && forked.busy().to_string().contains(says));
}

/// spec: O2.1: in the text of a snapshot with 64 CPUs and a thousand pools, columns stay aligned and lines stay short.
#[test]
fn a_large_machine_is_folded() {
    let mut snapshot = busy();
    snapshot.cpus = cpus("0-63");
    let pods = |width: usize| {
        let pod = |first| PodSnapshot { cpus: (first..first + width).collect(), node: Some(first / 32) };
        (0..64).step_by(width).map(pod).collect::<Vec<_>>()
    };
    for (scope, width) in snapshot.scopes.iter_mut().zip([1, 2, 8, 8, 32, 64]) {
        scope.pods = pods(width);
    }
    for cpu in 0..64 {
        let of_cpu = snapshot.queues[0].shards[0].clone();
        snapshot.queues[0].shards.resize(64, of_cpu);
        snapshot.queues[0].shards[cpu].cpu = cpu;
        snapshot.queues[0].shards[cpu].pool = 990 + cpu % 10;
    }
    let of_pool = snapshot.pools[0].clone();
    snapshot.pools.resize(1000, of_pool);
    snapshot.pools.iter_mut().zip(0..).for_each(|(pool, id)| pool.id = id);
    let text = snapshot.to_string();
    let (_, queues) = text.split_once("Workqueue CPU -> pool").unwrap();
    let (queues, limits) = queues.split_once("Workqueue -> active").unwrap();
    let widest = |text: &str| text.lines().map(str::len).max().unwrap();
    assert!(widest(queues) < 180, "{text}");
    assert!(limits.lines().filter(|line| line.starts_with(' ')).all(|line| line.len() <= 100), "{text}");
    let rows: Vec<&str> = queues.lines().filter(|line| line.starts_with("mail")).collect();
    assert_eq!(rows.len(), 2, "two bands of 32 CPUs: {text}");
    let headers: Vec<&str> =
        queues.lines().filter(|line| line.starts_with('[') && line.contains("CPU")).collect();
    assert!(
        headers[0].ends_with("  31]") && headers[1].contains("  32 ") && headers[1].ends_with("dfl]"),
        "{text}"
    );
    assert_eq!(headers[0].len() - 1, rows[0].len(), "{text}");
    let (scopes, _) = text.split_once("Worker Pools").unwrap();
    assert!(widest(scopes) <= 100, "{text}");
    assert!(scopes.contains("\n           ["), "later lines begin under the first entry: {text}");
    assert!(text.contains("pool[007] "), "{text}");
}

/// A name must not break a table.
///
/// spec: O2.1
#[test]
fn odd_names_stay_in_their_column() {
    let mut report = monitored();
    report.queues.truncate(1);
    for (name, shown) in [
        ("", "                        "),
        ("two\nlines\tof it", "two\u{FFFD}lines\u{FFFD}of it         "),
        ("äöü", "äöü                     "),
        ("0123456789_0123456789_0123456789", "89_0123456789_0123456789"),
    ] {
        report.queues[0].name = name.into();
        let text = report.to_string();
        let row = text.lines().nth(1).unwrap();
        assert!(row.starts_with(shown) && row.chars().count() == 24 + 9 + 6 + 9 + 4 * 8, "{text}");
    }
    assert_eq!(report.queues[0].kind, QueueKind::PerCpu);
}
