//! The expected machines. `run` asks qemu for each of them. If a machine turns out different, the test fails.

/// The expected pods, as CPU lists separated by blanks.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    pub(crate) smt: &'static str,
    pub(crate) cache: &'static str,
    pub(crate) cache_shard: &'static str,
    pub(crate) numa: &'static str,
    /// Whether the checks take CPUs of the machine offline and online.
    pub(crate) changes: bool,
}

const PAIRS_OF_24: &str = "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15 16-17 18-19 20-21 22-23";

pub(crate) const MACHINES: &[Machine] = &[
    Machine {
        name: "caches",
        smt: PAIRS_OF_24,
        cache: "0-5 6-11 12-17 18-23",
        cache_shard: "0-5 6-11 12-17 18-23",
        numa: "0-23",
        changes: false,
    },
    // The cache has so many cores that it is divided into shards. Siblings of a core stay in one shard.
    Machine {
        name: "siblings",
        smt: PAIRS_OF_24,
        cache: "0-23",
        cache_shard: "0-11 12-23",
        numa: "0-23",
        changes: false,
    },
    Machine {
        name: "nodes",
        smt: "0 1 2 3 4 5 6 7",
        cache: "0-1 2-3 4-5 6-7",
        cache_shard: "0-1 2-3 4-5 6-7",
        numa: "0-3 4-7",
        changes: false,
    },
    // The last cache is the L2, and each core has an L2 of its own.
    Machine {
        name: "no-l3",
        smt: "0-1 2-3",
        cache: "0-1 2-3",
        cache_shard: "0-1 2-3",
        numa: "0-3",
        changes: false,
    },
    Machine {
        name: "hotplug",
        smt: "0 1 2 3",
        cache: "0-1 2-3",
        cache_shard: "0-1 2-3",
        numa: "0-3",
        changes: true,
    },
];
