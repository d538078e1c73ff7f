//! Scenarios and rows for a machine, and the issuers' CPUs in each round.

use cmwq::AffinityScope;
use fastrand::Rng;

/// The number of blocks in flight of each issuer in scenarios with enough work, as in the documentation.
const ENOUGH: usize = 64;

/// The scopes, from small pods to large ones.
pub(crate) const SCOPES: [AffinityScope; 6] = [
    AffinityScope::Cpu,
    AffinityScope::Smt,
    AffinityScope::CacheShard,
    AffinityScope::Cache,
    AffinityScope::Numa,
    AffinityScope::System,
];

/// The number of issuers, and the number of blocks of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Scenario {
    /// The number of the scenario, from 1, as in the documentation.
    pub(crate) number: usize,
    pub(crate) title: &'static str,
    pub(crate) issuers: usize,
    pub(crate) window: usize,
    pub(crate) cpus: usize,
}

/// The purpose of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Competes,
    /// Repeats another row.
    Again,
    /// Works without a queue, and shows the limit.
    Limit,
}

/// A row of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) scope: AffinityScope,
    pub(crate) strict: bool,
}

/// Returns the three scenarios for this number of CPUs.
pub(crate) fn scenarios(cpus: usize) -> [Scenario; 3] {
    let share = |part: usize| ((cpus + part / 2) / part).max(1);
    let scenario = |number, title, issuers, window| Scenario { number, title, issuers, window, cpus };
    let few = share(6);
    [
        scenario(1, "issuers and work everywhere", cpus, ENOUGH),
        scenario(2, "fewer issuers, enough work to saturate", share(3), ENOUGH),
        scenario(3, "even fewer issuers, not enough work to saturate", few, (cpus / few).max(1)),
    ]
}

/// Returns the rows for a machine on which each scope has `pods(scope)` pods.
pub(crate) fn rows(pods: impl Fn(AffinityScope) -> usize) -> Vec<Row> {
    let row = |scope: AffinityScope, strict| {
        let name = if strict { format!("{scope} (strict)") } else { scope.to_string() };
        Row { name, role: Role::Competes, scope, strict }
    };
    let system = row(AffinityScope::System, false);
    let mut rows = vec![system.clone(), row(AffinityScope::Cache, false), row(AffinityScope::Cache, true)];
    if pods(AffinityScope::Cache) < 2 {
        let smallest = SCOPES.into_iter().find(|scope| pods(*scope) > 1);
        rows.extend(smallest.into_iter().flat_map(|scope| [row(scope, false), row(scope, true)]));
    }
    rows.push(Row { name: "system, again".into(), role: Role::Again, ..system.clone() });
    rows.push(Row { name: "static partition".into(), role: Role::Limit, ..system });
    rows
}

impl Scenario {
    /// Returns the indexes of all CPUs in a round: first one CPU for each issuer, and then the other CPUs. The order is
    /// random. But if the number of issuers divides the number of CPUs, every CPU has an issuer once in a cycle of
    /// rounds.
    pub(crate) fn cpus_of_round(&self, round: usize) -> Vec<usize> {
        let cycle = (self.cpus / self.issuers).max(1);
        let mut cpus: Vec<usize> = (0..self.cpus).collect();
        Rng::with_seed((round / cycle) as u64).shuffle(&mut cpus);
        cpus.rotate_left(round % cycle * self.issuers);
        cpus
    }

    /// Returns after how many finished blocks an issuer wakes up.
    pub(crate) fn batch(&self) -> usize {
        (self.window / 4).max(1)
    }

    /// Describes the load in words.
    pub(crate) fn load(&self) -> String {
        let plural =
            |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let each = if self.issuers == 1 { "" } else { " each" };
        format!(
            "{} on {}, {}{each}",
            plural(self.issuers, "issuer"),
            plural(self.cpus, "CPU"),
            plural(self.window, "block")
        )
    }
}
