//! The operators on sets of CPUs.

#![forbid(unsafe_code)]

use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign};

use super::CpuSet;

/// Makes `&one | &other` the [union](CpuSet::union) of two sets.
impl BitOr for &CpuSet {
    type Output = CpuSet;

    fn bitor(self, other: Self) -> CpuSet {
        self.union(other)
    }
}

/// Makes `one | other` the [union](CpuSet::union) of two sets.
impl BitOr for CpuSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(&other)
    }
}

impl BitOrAssign<&Self> for CpuSet {
    fn bitor_assign(&mut self, other: &Self) {
        *self = self.union(other);
    }
}

/// Makes `&one & &other` the [intersection](CpuSet::intersection) of two sets.
impl BitAnd for &CpuSet {
    type Output = CpuSet;

    fn bitand(self, other: Self) -> CpuSet {
        self.intersection(other)
    }
}

/// Makes `one & other` the [intersection](CpuSet::intersection) of two sets.
impl BitAnd for CpuSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.intersection(&other)
    }
}

impl BitAndAssign<&Self> for CpuSet {
    fn bitand_assign(&mut self, other: &Self) {
        *self = self.intersection(other);
    }
}
