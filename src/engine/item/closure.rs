//! The closures of one-shots, with or without a name.

use std::borrow::Cow;

use super::context;
use super::entry::ItemType;

/// A closure that runs once.
pub(crate) trait Closure<T> {
    /// The type of the user's closure.
    const ITEM_TYPE: &'static ItemType;

    fn call(self) -> T;
}

impl<F: FnOnce() -> T, T> Closure<T> for F {
    const ITEM_TYPE: &'static ItemType = ItemType::of::<F>();

    #[inline(always)] // as if the engine called the closure itself
    fn call(self) -> T {
        self()
    }
}

/// The name of an item, which snapshots show while the item runs.
pub(crate) type Name = Cow<'static, str>;

/// A closure with a name.
pub(crate) struct Named<F> {
    pub(crate) name: Name,
    pub(crate) closure: F,
}

impl<F: FnOnce() -> T, T> Closure<T> for Named<F> {
    const ITEM_TYPE: &'static ItemType = ItemType::of::<F>();

    fn call(self) -> T {
        context::describe(self.name.into_owned());
        (self.closure)()
    }
}
