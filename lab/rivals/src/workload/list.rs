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
                     reusable rows queue the same items each time, and no item is pending at that time. \
                     In the other rows, new closures are queued, each of which captures 32 bytes.",
        takes: |can| general_or_ordered(can) || can.part == Part::Reusable,
        ..CASE
    },
    Case {
        workload: "batch",
        definition: "One producer queues 100 000 items like those of `empty`, 1000 at a time. If the rival \
                     has a call that queues many items (cmwq's `items(..).spawn_detached()`), one call queues \
                     all 1000.",
        ..CASE
    },
    Case {
        workload: "latency",
        definition: "One item at a time is queued, 700 times, with pauses of a millisecond. The measured \
                     time begins before the call and ends at the item's first instruction.",
        measures: LATENESS,
        sleeper: false,
        ..CASE
    },
    Case {
        workload: "roundtrip",
        definition: "The issuer queues one item and waits for its value, 10 000 times. If the rival \
                     returns no value, the item sends it through a channel with room for one value.",
        measures: LATENESS,
        takes: |can| general_or_ordered(can) && can.joins,
        sleeper: false,
        ..CASE
    },
    Case {
        workload: "cpu",
        definition: "4000 items use 0.5 ms of CPU time each. The ideal time is the CPU time of all items \
                     divided by the number of CPUs.",
        measures: MAKESPAN,
        takes: general,
        settles: true,
        ..CASE
    },
    Case {
        workload: "mixed",
        definition: "The items are those of `cpu`, but every fourth item sleeps 5 ms afterwards. The sleep \
                     is declared if the rival has a call for that: cmwq's guard, or `block_in_place` in \
                     tokio's tasks. Items of the undeclared rows sleep without a guard.",
        measures: MAKESPAN,
        takes: general_or_undeclared,
        ..CASE
    },
    block(256),
    block(512),
    Case {
        workload: "dep",
        definition: "As many items as there are CPUs begin, and then wait for one more item, which is \
                     queued after all of them have begun. This is repeated 100 times. The measured time is \
                     from the submission of that item until all waiting items have ended. If all threads \
                     of a pool wait when that item is queued, the pool is stuck for ever.",
        measures: LONGEST,
        takes: general_or_undeclared,
        sleeper: false,
        limit: Duration::from_secs(4),
        ..CASE
    },
    Case {
        workload: "burst",
        definition: "10 000 items are queued as fast as possible, which takes about 5 ms. There are 10 \
                     such bursts, which begin 100 ms apart. Each item does about a microsecond of fixed \
                     work. The measured time is from the first call of a burst to the end of its last \
                     item.",
        measures: LONGEST,
        takes: |can| general_or_ordered(can) && can.part != Part::Threads,
        ..CASE
    },
    Case {
        workload: "tenants",
        definition: "100 independent libraries have a queue or pool each, of its default size. In each of \
                     20 rounds, the libraries take turns to queue one item until each has queued 10. A \
                     round ends when all its items have ended. An item uses 50 µs of CPU time. Every \
                     twentieth item sleeps 5 ms afterwards, declared as in `mixed`, at different times in \
                     different libraries. `blocking` has one pool for all libraries.",
        measures: TENANTS,
        takes: |can| general(can) && can.part != Part::Threads,
        settles: true,
        ..CASE
    },
    Case {
        workload: "hog",
        definition: "There are twice as many long items as CPUs. Each long item uses 50 ms of CPU time, \
                     and queues its successor when it ends. Long items are declared if the rival has a \
                     means for that: cmwq's `cpu_intensive`, `spawn_blocking` in `tokio-spawn`, or a \
                     separate pool in `rayon-apart`. The undeclared rows do not declare long items. \
                     Meanwhile, 400 short items are queued, one every 3 ms. The measured time is from the \
                     call to the first instruction of the short item.",
        measures: TAIL,
        takes: |can| general_or_undeclared(can) || can.part == Part::Apart,
        ..CASE
    },
    Case {
        workload: "priority",
        definition: "Up to 400 urgent items are queued, one every 3 ms, until 3 s have passed. Each urgent \
                     item is queued behind a backlog of 500 items for each CPU, each of which uses 0.5 ms \
                     of CPU time. The backlog is refilled before each urgent item. Urgent items have a \
                     high priority if the rival supports that: cmwq's `high_priority`, vicinal's \
                     `spawn_urgent`, a separate pool in `rayon-apart`. The measured time is from the call \
                     to the first instruction of the urgent item. cmwq's high-priority workers have a nice \
                     level of -20 where the system permits it; other rivals set no nice level. `threads` \
                     does not take part, because it would have a thousand threads at the same time instead \
                     of a backlog.",
        measures: TAIL,
        takes: |can| (general(can) && can.part != Part::Threads) || can.part == Part::Apart,
        ..CASE
    },
    Case { workload: "chain", definition: "One item queues the next item, 50 000 times.", ..CASE },
    Case {
        workload: "fanout",
        definition: "One item queues 10 items, each of these queues 10 items, and so on, five levels deep. \
                     In total, 111 111 items run.",
        takes: |can| general(can) && can.part != Part::Threads,
        ..CASE
    },
    Case {
        workload: "forks",
        definition: "One item divides its work again and again, with `rayon::join` or `cmwq::join`, down to \
                     262 144 leaves of about 100 ns of fixed work. The measure is leaves per second. The \
                     items of `cmwq-per-cpu` and `cmwq-unbound` call one half after the other.",
        takes: |can| can.forks,
        ..CASE
    },
    Case {
        workload: "issuers",
        definition: "This is the workload of the kernel's own workqueue test module. There is one issuer \
                     for each CPU, bound to that CPU. Each issuer queues an item and waits until the item \
                     has run, 5 000 times. The measures are the items per second of all issuers together, \
                     and the duration of the call that queues an item. The scope rows are unbound queues \
                     of reusable items, each with a different affinity scope. In the other rows, the \
                     items are closures that capture 32 bytes.",
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
        definition: "The number in the name is the number of producers. Together, the producers queue 100 \
                     000 items as fast as possible. Each item captures 32 bytes and does nothing. The \
                     measured time ends when all items have run.",
        ..CASE
    }
}

const fn block(limit: usize) -> Case {
    Case {
        workload: "block",
        variant: Some(limit),
        definition: "2000 items sleep 10 ms each. The number in the name is the largest number of items \
                     that run at the same time: the number of a pool's threads, or `max_active_total`. \
                     Before the measurement, that many items sleep 50 ms each, so that the threads exist.",
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
