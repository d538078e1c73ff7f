//! The closures of one-shots, with or without a name and a token.

use std::borrow::Cow;

use crate::engine::carrier::Captured;
use crate::engine::refusal::Cancelled;
use crate::engine::trace::subscriber::Parent;

use super::context;
use super::entry::ItemType;
use super::token::{Armed, Token};

/// A closure that runs once.
pub(crate) trait Closure<T> {
    /// The type of the user's closure.
    const ITEM_TYPE: &'static ItemType;

    /// Takes the issuer's span, if the submission carries it.
    #[inline]
    fn parent(&mut self) -> Parent {
        Parent::default()
    }

    /// Returns the reason why the closure must no longer be called, if there is one.
    #[inline(always)] // most closures have no obstacle, and the compiler then removes the code for it
    fn obstacle(&self) -> Option<Cancelled> {
        None
    }

    fn call(self) -> T;

    /// Calls the closure. The values that its submission carries are current during the call.
    fn call_carrying(self, carried: Captured) -> T
    where
        Self: Sized,
    {
        carried.run(|| self.call())
    }
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

/// A closure with a token, and perhaps with a name. If the token counts as cancelled, the closure is not called.
pub(crate) struct WithToken<F> {
    pub(crate) token: Token,
    /// The timer of an item with a delay. When the token is cancelled, the canceller takes this timer.
    pub(crate) armed: Option<Armed>,
    pub(crate) name: Option<Name>,
    pub(crate) closure: F,
}

impl<F: FnOnce() -> T, T> Closure<T> for WithToken<F> {
    const ITEM_TYPE: &'static ItemType = ItemType::of::<F>();

    fn obstacle(&self) -> Option<Cancelled> {
        self.token.reason()
    }

    fn call(self) -> T {
        self.call_within(|closure| closure())
    }

    /// The hooks may ask for the item's token, so the worker enters it first.
    fn call_carrying(self, carried: Captured) -> T {
        self.call_within(|closure| carried.run(closure))
    }
}

impl<F> WithToken<F> {
    fn call_within<T>(self, call: impl FnOnce(F) -> T) -> T {
        let Self { token, armed, name, closure } = self;
        drop(armed);
        token.enter_item(|| {
            if let Some(name) = name {
                context::describe(name.into_owned());
            }
            call(closure)
        })
    }
}
