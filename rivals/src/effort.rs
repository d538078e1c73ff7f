//! How much is measured.

/// Counts are those of the definitions, or a part of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Effort {
    Full,
    /// A tenth.
    Quick,
    /// Hardly anything: shows that it works.
    Tiny,
}

impl Effort {
    pub(crate) const ALL: [Self; 3] = [Self::Full, Self::Quick, Self::Tiny];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
            Self::Tiny => "tiny",
        }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.name() == name)
    }

    /// So many of what the definition has this number of; one at least.
    pub(crate) fn of(self, full: usize) -> usize {
        let part = match self {
            Self::Full => 1,
            Self::Quick => 10,
            Self::Tiny => 1000,
        };
        (full / part).max(1)
    }
}
