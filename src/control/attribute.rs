//! The attributes of a queue, named like the kernel's files under `/sys/devices/virtual/workqueue`.

use std::fmt;
use std::str::FromStr;

/// An attribute of a queue, with the kernel's name.
///
/// # Examples
///
/// ```
/// use cmwq::control::Attribute;
///
/// assert_eq!("max_active".parse(), Ok(Attribute::MaxActive));
/// assert_eq!(Attribute::CpuMask.to_string(), "cpumask");
/// assert_eq!(Attribute::CpuMask.name(), "cpumask");
/// let error = "maxactive".parse::<Attribute>().unwrap_err();
/// assert!(error.to_string().ends_with(
///     "write one of affinity_scope, affinity_strict, cpumask, nice, max_active, histograms"
/// ));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Attribute {
    /// `affinity_scope`: how close to their issuers items run. The value is `default` or the name of a scope. If the
    /// queue's program has set no scope, the value also names the executor's default scope, as in `default (cache)`.
    AffinityScope,
    /// `affinity_strict`: whether items stay in their pod. The value is 0 or 1.
    AffinityStrict,
    /// `cpumask`: the CPUs on which items may run. The value is a list such as `0-3,8`, a hexadecimal mask such as `f`
    /// or `ff,00000000`, or `default` for all CPUs that the executor allows. [`Client::get`](super::Client::get)
    /// returns the mask as a list.
    ///
    /// A number such as `10` is read as a list of one CPU. To give a mask, write `0x10`.
    CpuMask,
    /// `nice`: the nice level of the workers. The value is −20 to 19, or `default` for the executor's level.
    Nice,
    /// `max_active`: the limit of active items. The value is 1 to 512, or 1 to 2000 for a plain
    /// [unbound](crate::WorkQueue::unbound) queue. The limit of an ordered queue cannot be changed.
    MaxActive,
    /// `histograms`: whether the times of items are recorded. The value is 0 or 1. Every queue has this attribute. The
    /// kernel has no file for this attribute.
    Histograms,
}

impl Attribute {
    /// All attributes, in the order in which [`Client::attributes`](super::Client::attributes) lists them.
    pub const ALL: [Self; 6] = [
        Self::AffinityScope,
        Self::AffinityStrict,
        Self::CpuMask,
        Self::Nice,
        Self::MaxActive,
        Self::Histograms,
    ];

    /// Returns the attribute's name, as in the kernel's files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AffinityScope => "affinity_scope",
            Self::AffinityStrict => "affinity_strict",
            Self::CpuMask => "cpumask",
            Self::Nice => "nice",
            Self::MaxActive => "max_active",
            Self::Histograms => "histograms",
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Attribute {
    type Err = ParseAttributeError;

    fn from_str(name: &str) -> Result<Self, ParseAttributeError> {
        let found = Self::ALL.into_iter().find(|attribute| attribute.name() == name);
        found.ok_or_else(|| ParseAttributeError { name: super::protocol::shortened(name) })
    }
}

/// The error for a text that is not the name of an [`Attribute`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseAttributeError {
    name: String,
}

impl fmt::Display for ParseAttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Attribute::ALL.map(Attribute::name).join(", ");
        write!(f, "`{}` is not an attribute: write one of {names}", self.name)
    }
}

impl std::error::Error for ParseAttributeError {}
