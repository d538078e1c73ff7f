//! The attributes of an unbound queue, which determine where its items run. The user sets some of the attributes, and
//! the executor's defaults stand in for the rest. All attributes together determine the queue's pools.

#![forbid(unsafe_code)]

use super::cpu_set::CpuSet;
use super::pods::AffinityScope;

/// The settings that say where the items of an unbound queue run, and how urgently.
///
/// A queue is [built](crate::WorkQueueBuilder::attrs) with attributes. The attributes can be
/// [replaced](crate::WorkQueue::apply_attrs) at any time.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{AffinityScope, Attrs, WorkQueue};
///
/// let attrs = Attrs::new().scope(AffinityScope::Numa).nice(10);
/// let queue = WorkQueue::builder("reindex").attrs(attrs.clone()).build()?;
/// queue.apply_attrs(attrs.strict(true).cpus(cmwq::Executor::global().cpus().clone()))?;
/// # drop(queue);
/// # Ok(())
/// # }
/// ```
/// With the feature `serde`, attributes can be part of a configuration. An attribute that is missing in the
/// configuration is not set.
///
/// ```
/// # #[cfg(feature = "serde")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{AffinityScope, Attrs};
///
/// let attrs: Attrs = serde_json::from_str(r#"{ "scope": "numa", "nice": 10, "cpus": "0-3" }"#)?;
/// assert_eq!(attrs, Attrs::new().scope(AffinityScope::Numa).nice(10).cpus("0-3".parse()?));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "serde"))]
/// # fn main() {}
/// ```
#[doc(alias = "workqueue_attrs")]
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[must_use]
pub struct Attrs {
    nice: Option<i32>,
    cpus: Option<CpuSet>,
    scope: AffinityScope,
    strict: bool,
}

impl Attrs {
    /// Returns the defaults, which are the executor's nice level, [CPUs](crate::Executor::set_unbound_cpus) and
    /// [scope](crate::Executor::set_default_scope). When the executor's CPUs or scope change, the queue's CPUs or scope
    /// change too.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the nice level, from −20 to 19.
    pub fn nice(mut self, level: i32) -> Self {
        self.nice = Some(level);
        self
    }

    /// Sets the CPUs that items may run on, which must be CPUs of the executor. Of these CPUs, items use only the ones
    /// that the executor [allows](crate::Executor::set_unbound_cpus). If the executor allows none of these CPUs, items
    /// use all CPUs that the executor allows.
    #[doc(alias = "cpumask")]
    pub fn cpus(mut self, cpus: CpuSet) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets the scope, which says how near to their issuer the items run.
    #[doc(alias = "affn_scope")]
    pub fn scope(mut self, scope: AffinityScope) -> Self {
        self.scope = scope;
        self
    }

    /// Keeps items in the pod of their issuer, even if CPUs of other pods are idle. The default is false.
    ///
    /// If a pod loses all of its CPUs, the remaining CPUs of the queue serve the pod. If the queue has no CPU left
    /// either, the remaining CPUs of the executor serve the pod. When the process loses a CPU, the system may move
    /// workers out of their pod. The items of these workers can then run outside of the pod for up to 400 ms, until the
    /// executor notices the move.
    #[doc(alias = "affinity_strict")]
    pub fn strict(mut self, yes: bool) -> Self {
        self.strict = yes;
        self
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    pub(crate) fn names_nice(&self) -> bool {
        self.nice.is_some()
    }

    #[cfg_attr(
        not(all(unix, feature = "control")),
        allow(dead_code, reason = "asked for over the control socket")
    )]
    pub(crate) fn names_no_scope(&self) -> bool {
        self.scope == AffinityScope::Default
    }

    /// Returns these attributes without a nice level, so that the queue's default nice level applies.
    #[cfg_attr(
        not(all(unix, feature = "control")),
        allow(dead_code, reason = "asked for over the control socket")
    )]
    pub(crate) fn without_nice(self) -> Self {
        Self { nice: None, ..self }
    }

    /// Returns these attributes without a set of CPUs, so that all CPUs that the executor allows apply.
    #[cfg_attr(
        not(all(unix, feature = "control")),
        allow(dead_code, reason = "asked for over the control socket")
    )]
    pub(crate) fn without_cpus(self) -> Self {
        Self { cpus: None, ..self }
    }

    /// Returns why the attributes are invalid for an executor that uses the `known` CPUs, or `None` if they are valid.
    pub(crate) fn fault(&self, known: &CpuSet) -> Option<AttrsFault> {
        let level = self.nice.filter(|level| !(-20..=19).contains(level));
        level.map(AttrsFault::Nice).or_else(|| fault_of(self.cpus.as_ref()?, known).map(AttrsFault::Cpus))
    }

    /// Returns the attributes of the queue's pools. `nice` is the queue's nice level, which applies if the attributes
    /// set no nice level. The attributes must have no [`fault`](Self::fault).
    pub(crate) fn resolve(&self, managed: bool, nice: i32, defaults: &AttrDefaults) -> PoolAttrs {
        let allowed = self.cpus.as_ref().map(|cpus| cpus.intersection(&defaults.cpus));
        PoolAttrs {
            managed,
            scope: if self.scope == AffinityScope::Default { defaults.scope } else { self.scope },
            strict: self.strict,
            nice: self.nice.unwrap_or(nice),
            cpus: allowed.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| defaults.cpus.clone()),
        }
    }
}

/// The executor's values for the settings that a queue's attributes leave open.
#[derive(Clone, Debug)]
pub(crate) struct AttrDefaults {
    /// The scope, which is never [`AffinityScope::Default`].
    pub(crate) scope: AffinityScope,
    /// The CPUs that unbound queues may use; never empty.
    pub(crate) cpus: CpuSet,
}

/// The reason why attributes are invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttrsFault {
    Nice(i32),
    Cpus(CpusFault),
}

/// The reason why a set of CPUs is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CpusFault {
    Empty,
    /// The executor does not use this CPU.
    Unknown(usize),
}

/// Returns why a set of CPUs is invalid, or `None` if it is a nonempty subset of the `known` CPUs.
pub(crate) fn fault_of(cpus: &CpuSet, known: &CpuSet) -> Option<CpusFault> {
    if cpus.is_empty() {
        return Some(CpusFault::Empty);
    }
    cpus.iter().find(|cpu| !known.contains(*cpu)).map(CpusFault::Unknown)
}

/// Everything that determines the pools of an unbound queue. Queues with equal values share their pools.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PoolAttrs {
    /// Whether a pod keeps no more items runnable than it has CPUs.
    pub(crate) managed: bool,
    pub(crate) scope: AffinityScope,
    /// Whether items stay in their pod.
    pub(crate) strict: bool,
    pub(crate) nice: i32,
    /// The CPUs that items may run on, numbered as in the topology; never empty.
    pub(crate) cpus: CpuSet,
}

/// Whether items or threads move between the pods of a class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Moves {
    /// Neither items nor threads move: each item starts in its pod and stays there.
    Nothing,
    /// Items move before they start, if their own pod cannot take them.
    Items,
    /// Threads move, and the system decides where each thread goes.
    Threads,
}

impl PoolAttrs {
    /// Returns whether items or threads move between the pods of a class with this many pods.
    pub(crate) fn moves(&self, pods: usize) -> Moves {
        match (self.strict || pods < 2, self.managed) {
            (true, _) => Moves::Nothing,
            (false, true) => Moves::Items,
            (false, false) => Moves::Threads,
        }
    }
}

/// The attributes that are in force for a queue. Each attribute that was not [set](Attrs) has the executor's value.
///
/// [`WorkQueue::attrs`](crate::WorkQueue::attrs) returns these attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct EffectiveAttrs {
    /// The nice level of the workers. If the process lacks the privilege for this level, the workers run at another
    /// level: see [`nice_denied`](crate::observe::Snapshot::nice_denied).
    pub nice: i32,
    /// The CPUs that items may run on.
    pub cpus: CpuSet,
    /// The scope, which determines how near to their issuer the items run. This is never [`AffinityScope::Default`].
    pub scope: AffinityScope,
    /// Whether items stay in the pod of their issuer, even if CPUs of other pods are idle.
    pub strict: bool,
}

impl EffectiveAttrs {
    pub(crate) fn of(attrs: PoolAttrs) -> Self {
        let PoolAttrs { managed: _, scope, strict, nice, cpus } = attrs;
        Self { nice, cpus, scope, strict }
    }
}

/// spec: A4
#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> AttrDefaults {
        AttrDefaults { scope: AffinityScope::Smt, cpus: "0-3".parse().unwrap() }
    }

    /// spec: A1.5
    #[test]
    fn attributes_that_are_not_set_are_the_executors() {
        let open = Attrs::new().resolve(true, -20, &defaults());
        let expected = PoolAttrs {
            managed: true,
            scope: AffinityScope::Smt,
            strict: false,
            nice: -20,
            cpus: "0-3".parse().unwrap(),
        };
        assert_eq!(open, expected);
        let named = Attrs::new().nice(3).scope(AffinityScope::Numa).strict(true).cpus("2,7".parse().unwrap());
        let expected = PoolAttrs {
            managed: false,
            scope: AffinityScope::Numa,
            strict: true,
            nice: 3,
            cpus: "2".parse().unwrap(),
        };
        assert_eq!(named.resolve(false, -20, &defaults()), expected);
    }

    /// spec: A4.7
    #[test]
    fn a_queue_that_loses_all_its_cpus_uses_the_remaining_ones() {
        let attrs = Attrs::new().cpus("6-7".parse().unwrap());
        assert_eq!(attrs.resolve(true, 0, &defaults()).cpus, "0-3".parse().unwrap());
    }

    /// spec: A4.2
    #[test]
    fn faults_are_named() {
        let known = "0-7".parse().unwrap();
        let cpus = |list: &str| Attrs::new().cpus(list.parse().unwrap());
        for (attrs, fault) in [
            (Attrs::new(), None),
            (cpus("0,7").nice(-20), None),
            (cpus("7-9"), Some(AttrsFault::Cpus(CpusFault::Unknown(8)))),
            (Attrs::new().cpus(CpuSet::new()), Some(AttrsFault::Cpus(CpusFault::Empty))),
            (Attrs::new().nice(20), Some(AttrsFault::Nice(20))),
            (Attrs::new().nice(-21), Some(AttrsFault::Nice(-21))),
        ] {
            assert_eq!(attrs.fault(&known), fault, "{attrs:?}");
        }
    }
}
