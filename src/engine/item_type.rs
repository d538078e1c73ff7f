//! The type of an item, known by a word.

use std::any::type_name;

/// One for each type of items, which has no name before the program runs. So items carry its address.
#[derive(Debug)]
pub(crate) struct ItemType {
    name: fn() -> &'static str,
}

impl ItemType {
    /// What runs on a worker after its item, on behalf of that: a destructor.
    pub(crate) const LEFT_BEHIND: &'static Self = &Self { name: || "what an item left behind" };

    /// What lies on a list and is no item.
    pub(crate) const MARKER: &'static Self = &Self { name: || "a marker" };

    /// Of items whose function this is.
    pub(crate) const fn of<F>() -> &'static Self {
        const { &Self { name: type_name::<F> } }
    }

    /// As the compiler names it.
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
