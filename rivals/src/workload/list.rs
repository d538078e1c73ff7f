//! The definitions.

use std::time::Duration;

use super::{Case, less, rate};
use crate::rival::{Can, Part};
use crate::unit::{Measure, Unit};

const LIMIT: Duration = Duration::from_secs(60);

/// What most have in common.
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
        definition: "5 000 items that do nothing are queued 20 times over, each time after all of them have ended. \
                     Reusable items are the same ones each time, none of which is pending; other rows queue closures \
                     that capture 32 bytes.",
        takes: |can| general_or_ordered(can) || can.part == Part::Reusable,
        ..CASE
    },
    Case {
        workload: "batch",
        definition: "100 000 items as in `empty`, by one producer, 1000 at a time, with one call where there is one \
                     (cmwq's `spawn_batch_detached`).",
        ..CASE
    },
    Case {
        workload: "latency",
        definition: "700 times, a millisecond after the last time, one item is queued. From before the call to the \
                     item's first instruction.",
        measures: LATENESS,
        sleeper: false,
        ..CASE
    },
    Case {
        workload: "roundtrip",
        definition: "10 000 times, one item is queued, and its value waited for: by what the rival returns, or where \
                     it returns nothing, by a channel of one place.",
        measures: LATENESS,
        takes: |can| general_or_ordered(can) && can.joins,
        sleeper: false,
        ..CASE
    },
    Case {
        workload: "cpu",
        definition: "4000 items, each of which takes 0.5 ms of its thread's CPU time. The ideal is that time divided \
                     by the number of CPUs.",
        measures: MAKESPAN,
        takes: general,
        settles: true,
        ..CASE
    },
    Case {
        workload: "mixed",
        definition: "The same, and every fourth item then sleeps 5 ms. Where a rival has a word for that, it is told: \
                     cmwq's guard, tokio's `block_in_place` in tasks. The undeclared rows tell nothing.",
        measures: MAKESPAN,
        takes: general_or_undeclared,
        ..CASE
    },
    block(256),
    block(512),
    Case {
        workload: "dep",
        definition: "100 times, as many items as there are CPUs have begun to wait for one that is queued after that: \
                     from then until all have ended. A pool whose threads are used up by then is stuck for ever.",
        measures: LONGEST,
        takes: general_or_undeclared,
        sleeper: false,
        limit: Duration::from_secs(4),
        ..CASE
    },
    Case {
        workload: "burst",
        definition: "10 times, 100 ms after the last time, 10 000 items are queued as fast as can be, which is a matter \
                     of about 5 ms. Each does some microsecond of fixed work. From the first call to the end of the \
                     last item.",
        measures: LONGEST,
        takes: |can| general_or_ordered(can) && can.part != Part::Threads,
        ..CASE
    },
    Case {
        workload: "tenants",
        definition: "100 libraries that know nothing of each other have a queue or pool each, of the size it has by \
                     default. 20 times over, they queue 10 items each in turn, and all are waited for. An item takes 50 µs \
                     of CPU time, and every twentieth then sleeps 5 ms (told as in `mixed`), at another time in each \
                     library. `blocking` has one pool for all.",
        measures: TENANTS,
        takes: |can| general(can) && can.part != Part::Threads,
        settles: true,
        ..CASE
    },
    Case {
        workload: "hog",
        definition: "Twice as many items as CPUs take 50 ms of CPU time each, and begin anew. They tell what they are \
                     where there is a word for it (cmwq's `cpu_intensive`, `spawn_blocking` in `tokio-spawn`, a pool of their own in `rayon-apart`); the \
                     undeclared rows tell nothing. Meanwhile 400 short items are queued, one every 3 ms: from the call \
                     to the first instruction.",
        measures: TAIL,
        takes: |can| general_or_undeclared(can) || can.part == Part::Apart,
        ..CASE
    },
    Case {
        workload: "priority",
        definition: "400 urgent items (fewer, if that takes more than 3 s) are queued, one every 3 ms, each behind a backlog of 500 items of 0.5 ms CPU time \
                     for each CPU, which is renewed before. They have a high priority where there is one (cmwq's \
                     `high_priority`, vicinal's `spawn_urgent`, a pool of their own in `rayon-apart`): from the call to \
                     the first instruction. cmwq's workers of high priority have a nice level of -20 where that is \
                     permitted; nobody else's have one. `threads` would have no backlog, but a thousand threads at once.",
        measures: TAIL,
        takes: |can| (general(can) && can.part != Part::Threads) || can.part == Part::Apart,
        ..CASE
    },
    Case { workload: "chain", definition: "One item queues the next, 50 000 times.", ..CASE },
    Case {
        workload: "fanout",
        definition: "One item queues 10, each of which queues 10, five levels deep: 111 111 items.",
        takes: |can| general(can) && can.part != Part::Threads,
        ..CASE
    },
    Case {
        workload: "issuers",
        definition: "What the kernel's own test module does: one issuer per CPU, bound to it, queues its \
                     item and waits until it has run, 5 000 times. Items per second of all, and how long the queueing \
                     call takes. The scope rows are unbound queues of reusable items, each of one affinity scope; other \
                     rows queue closures that capture 32 bytes.",
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
        definition: "100 000 items that capture 32 bytes and do nothing, queued by so many producers as fast as can be, \
                     until all have run.",
        ..CASE
    }
}

const fn block(limit: usize) -> Case {
    Case {
        workload: "block",
        variant: Some(limit),
        definition: "2000 items that sleep 10 ms, at most so many at a time: threads of a pool, or `max_active_total`. So \
                     many have slept 50 ms before, for which the threads were made.",
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
    fn every_case_is_defined_and_compares_something() {
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
