//! Why a scope has no result.

use std::fmt;

/// Why a scope has no result. All of its items are over all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ScopeError {
    /// Items were dropped before they began, and not by their handles: the executor was shut down, and the time for
    /// that ran out. What the body returned was dropped.
    Dropped {
        /// How many.
        items: usize,
    },
    /// The process was forked from inside of the scope's body, and this is the child: the items are the parent's.
    Forked,
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped { items } => {
                write!(
                    f,
                    "{items} items of the scope never ran: the executor was shut down, and had no more time"
                )
            }
            Self::Forked => write!(f, "the scope belongs to the process that this one was forked from"),
        }
    }
}

impl std::error::Error for ScopeError {}
