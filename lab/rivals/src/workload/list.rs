//! The definitions of the workloads.

use std::time::Duration;

use super::{Case, less, rate};
use crate::rival::{Can, Part};
use crate::unit::{Measure, Unit};

const LIMIT: Duration = Duration::from_secs(60);

/// The defaults of the cases.
const CASE: Case = Case {
    workload: "",
    variant: None,
    definition: "",
    measures: RATE,
    takes: general_or_ordered,
    sleeper: true,
    settles: false,
    rounds: 3,
    limit: LIMIT,
};

const RATE: &[Measure] = &[rate(), less("CPU per item", Unit::Nanoseconds)];
const MAKESPAN: &[Measure] = &[less("time", Unit::Milliseconds), less("of the ideal", Unit::Times)];
const TIME: &[Measure] = &[less("time", Unit::Milliseconds)];
const LATENESS: &[Measure] = &[less("p50", Unit::Microseconds), less("p99", Unit::Microseconds)];
const TAIL: &[Measure] =
    &[less("p99", Unit::Milliseconds), less("p50", Unit::Milliseconds), less("max", Unit::Milliseconds)];
const LONGEST: &[Measure] = &[less("p50", Unit::Milliseconds), less("max", Unit::Milliseconds)];
const TENANTS: &[Measure] =
    &[rate(), less("CPU per item", Unit::Nanoseconds), less("asleep at once", Unit::Count)];
const CALLS: &[Measure] = &[
    rate(),
    less("CPU per item", Unit::Nanoseconds),
    less("call p50", Unit::Nanoseconds),
    less("call p90", Unit::Nanoseconds),
    less("call p95", Unit::Nanoseconds),
    less("call p99", Unit::Nanoseconds),
];

pub(crate) static CASES: &[Case] = &[
    empty(1),
    empty(2),
    empty(4),
    Case {
        workload: "reuse",
        definition: "5 000 no-op items are queued 20 times, each time after all of them have ended. The \
                     reusable rows queue the same items each time, none of which is pending; other rows queue \
                     closures that capture 32 bytes.",
        takes: |can| general_or_ordered(can) || can.part == Part::Reusable,
        ..CASE
    },
    Case {
        workload: "batch",
        definition: "100 000 items as in `empty`, by one producer, 1000 at a time, with one call if the rival \
                     has one (cmwq's `spawn_batch_detached`).",
        ..CASE
    },
    Case {
        workload: "latency",
        definition: "One item is queued, 700 times with pauses of a millisecond. Measured is the time from \
                     before the call to the item's first instruction.",
        measures: LATENESS,
        sleeper: false,
        ..CASE
    },
    Case {
        workload: "roundtrip",
        definition: "One item is queued and its value awaited, 10 000 times. If the rival returns no value, \
                     the item sends it through a channel of one place.",
        measures: LATENESS,
        takes: |can| general_or_ordered(can) && can.joins,
        sleeper: false,
        ..CASE
    },
    Case {
        workload: "cpu",
        definition: "4000 items that use 0.5 ms of CPU time each. The ideal is that time divided by the \
                     number of CPUs.",
        measures: MAKESPAN,
        takes: general,
        settles: true,
        ..CASE
    },
    Case {
        workload: "mixed",
        definition: "As in `cpu`, and every fourth item then sleeps 5 ms. If a rival can be told of the \
                     sleep, it is: by cmwq's guard, or by `block_in_place` in tokio's tasks. Items of the \
                     undeclared rows sleep without a guard.",
        measures: MAKESPAN,
        takes: general_or_undeclared,
        ..CASE
    },
    block(256),
    block(512),
    Case {
        workload: "dep",
        definition: "As many items as there are CPUs wait for one that is queued after they have begun, 100 \
                     times. Measured is the time from that submission until all have ended. If all threads of \
                     a pool wait by then, it is stuck for ever.",
        measures: LONGEST,
        takes: general_or_undeclared,
        sleeper: false,
        limit: Duration::from_secs(4),
        ..CASE
    },
    Case {
        workload: "burst",
        definition: "10 000 items are queued as fast as possible, which takes about 5 ms, 10 times with \
                     pauses of 100 ms. Each item does a microsecond of fixed work. Measured is the time from \
                     the first call to the end of the last item.",
        measures: LONGEST,
        takes: |can| general_or_ordered(can) && can.part != Part::Threads,
        ..CASE
    },
    Case {
        workload: "tenants",
        definition: "100 independent libraries have a queue or pool each, of its default size. 20 times, they \
                     queue 10 items each in turn, and wait for all. An item uses 50 µs of CPU time, and every \
                     twentieth then sleeps 5 ms (declared as in `mixed`), at different times in different \
                     libraries. `blocking` has one pool for all.",
        measures: TENANTS,
        takes: |can| general(can) && can.part != Part::Threads,
        settles: true,
        ..CASE
    },
    Case {
        workload: "hog",
        definition: "Twice as many items as CPUs use 50 ms of CPU time each, and then begin again. If a rival \
                     can be told of long items, it is: by cmwq's `cpu_intensive`, by `spawn_blocking` in \
                     `tokio-spawn`, by a separate pool in `rayon-apart`. The undeclared rows do not tell it. \
                     Meanwhile 400 short items are queued, one every 3 ms. Measured is the time from the call \
                     to the first instruction.",
        measures: TAIL,
        takes: |can| general_or_undeclared(can) || can.part == Part::Apart,
        ..CASE
    },
    Case {
        workload: "priority",
        definition: "400 urgent items (fewer, if that takes more than 3 s) are queued, one every 3 ms, each \
                     behind a backlog of 500 items of 0.5 ms CPU time for each CPU, which is refilled before. \
                     They have a high priority if the rival supports that: cmwq's `high_priority`, vicinal's \
                     `spawn_urgent`, a separate pool in `rayon-apart`. Measured is the time from the call to \
                     the first instruction. cmwq's high-priority workers have a nice level of -20 where that \
                     is permitted; other rivals set no nice level. `threads` does not take part, because it \
                     would have a thousand threads at once instead of a backlog.",
        measures: TAIL,
        takes: |can| (general(can) && can.part != Part::Threads) || can.part == Part::Apart,
        ..CASE
    },
    Case { workload: "chain", definition: "One item queues the next one, 50 000 times.", ..CASE },
    Case {
        workload: "fanout",
        definition: "One item queues 10, each of which queues 10, five levels deep: 111 111 items.",
        takes: |can| general(can) && can.part != Part::Threads,
        ..CASE
    },
    Case {
        workload: "issuers",
        definition: "As in the kernel's own test module: one issuer for each CPU, bound to it, queues an item \
                     and waits until it has run, 5 000 times. Measured are the items per second of all \
                     issuers, and the time of the queueing call. The scope rows are unbound queues of \
                     reusable items, each of one affinity scope; other rows queue closures that capture 32 \
                     bytes.",
        measures: CALLS,
        takes: |can| general_or_ordered(can) || matches!(can.part, Part::Scope | Part::Reusable),
        sleeper: false,
        ..CASE
    },
];

const fn empty(producers: usize) -> Case {
    Case {
        workload: "empty",
        variant: Some(producers),
        definition: "100 000 items that capture 32 bytes and do nothing are queued as fast as possible, by as \
                     many producers as the variant says, until all have run.",
        ..CASE
    }
}

const fn block(limit: usize) -> Case {
    Case {
        workload: "block",
        variant: Some(limit),
        definition: "2000 items that sleep 10 ms. The variant is the most items at a time: threads of a pool, \
                     or `max_active_total`. Before, as many items have slept 50 ms, so that the threads \
                     exist.",
        measures: TIME,
        takes: |can| general_or_undeclared(can) && can.limits,
        ..CASE
    }
}

fn general(can: &Can) -> bool {
    can.part.is_general()
}

fn general_or_ordered(can: &Can) -> bool {
    general(can) || can.part == Part::Ordered
}

fn general_or_undeclared(can: &Can) -> bool {
    general(can) || can.part == Part::Undeclared
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CASES;
    use crate::rival::{Part, RIVALS};

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<String> = CASES.iter().map(super::Case::name).collect();
        assert_eq!(names.len(), CASES.len());
        let rivals: BTreeSet<&str> = RIVALS.iter().map(|rival| rival.name).collect();
        assert_eq!(rivals.len(), RIVALS.len());
    }

    #[test]
    fn every_case_is_defined_and_compares_rivals() {
        for case in CASES {
            assert!(case.definition.ends_with('.') && !case.definition.contains("  "), "{}", case.name());
            assert!(!case.measures.is_empty() && case.rounds > 0, "{}", case.name());
            let parts: Vec<Part> =
                RIVALS.iter().filter(|rival| (case.takes)(&rival.can)).map(|rival| rival.can.part).collect();
            assert!(parts.contains(&Part::Pool) && parts.contains(&Part::Cmwq), "{}", case.name());
        }
    }

    #[test]
    fn a_name_means_its_case_or_all_variants() {
        let meant = |name: &str| CASES.iter().filter(|case| case.is_meant_by(name)).count();
        assert_eq!((meant("empty"), meant("empty/2"), meant("cpu"), meant("nothing")), (3, 1, 1, 0));
    }
}
