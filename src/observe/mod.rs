//! What can be seen of an executor from outside.

pub(crate) mod snapshot;
