//! The type of an item, in one word.

use std::any::type_name;

/// A static for each type of items. Items carry its address, since the name of a type is not known at compile time.
#[derive(Debug)]
pub(crate) struct ItemType {
    name: fn() -> &'static str,
}

impl ItemType {
    /// For destructors that a worker runs for an item that does not run.
    pub(crate) const LEFT_BEHIND: &'static Self = &Self { name: || "the destructor of an item" };

    /// For markers, which are entries without an item.
    pub(crate) const MARKER: &'static Self = &Self { name: || "a marker" };

    /// The type of items whose function is an `F`.
    pub(crate) const fn of<F>() -> &'static Self {
        const { &Self { name: type_name::<F> } }
    }

    /// The name that the compiler gives to the type.
    pub(crate) fn name(&self) -> &'static str {
        (self.name)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_the_name_that_the_compiler_gives_it() {
        fn name_of<F>(_: &F) -> &'static str {
            ItemType::of::<F>().name()
        }
        // The closures of one function may share a name.
        let closure = || 1;
        assert!(name_of(&closure).contains("a_type_has_the_name"), "{}", name_of(&closure));
        assert_eq!(ItemType::of::<Vec<u8>>().name(), type_name::<Vec<u8>>());
        assert_ne!(ItemType::of::<Vec<u8>>().name(), ItemType::of::<Vec<u16>>().name());
    }
}
