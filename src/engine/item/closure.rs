//! The closures of one-shots, with or without a name, a token and a number of bytes.

use std::borrow::Cow;

use crate::engine::carrier::Captured;
use crate::engine::queue::bytes::{Ask, KeptBytes};
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::{Cancelled, QueueError};
use crate::engine::trace::subscriber::Parent;

use super::context;
use super::entry::ItemType;
use super::token::{Armed, Token};

/// A closure that runs once.
pub(crate) trait Closure<T> {
    /// The type of the user's closure.
    const ITEM_TYPE: &'static ItemType;

    /// Takes room for the bytes that the closure keeps in memory, unless it has taken it already.
    #[inline(always)] // most closures have no bytes, and the compiler then removes the code for them
    fn take_bytes(&mut self, _queue: &Queue, _ask: Ask) -> Result<(), QueueError> {
        Ok(())
    }

    /// Returns the closure's token, if it has one. A cancel of this token ends the issuer's wait for room.
    #[inline(always)] // most closures have no token, and the compiler then removes the code for it
    fn token(&self) -> Option<&Token> {
        None
    }

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

    fn token(&self) -> Option<&Token> {
        Some(&self.token)
    }

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

/// A closure that keeps bytes in memory. They no longer count once the closure begins, or once it is about to be
/// dropped: `kept` is dropped before `closure`, because the closure's destructor may wait for room.
pub(crate) struct Weighed<C> {
    kept: Option<KeptBytes>,
    /// The number of bytes that are not taken yet.
    bytes: u64,
    pub(crate) closure: C,
}

impl<C> Weighed<C> {
    pub(crate) fn new(bytes: u64, closure: C) -> Self {
        Self { kept: None, bytes, closure }
    }
}

impl<C: Closure<T>, T> Closure<T> for Weighed<C> {
    const ITEM_TYPE: &'static ItemType = C::ITEM_TYPE;

    fn take_bytes(&mut self, queue: &Queue, ask: Ask) -> Result<(), QueueError> {
        if self.bytes > 0 {
            self.kept = queue.take_bytes(self.bytes, ask, self.closure.token())?;
            self.bytes = 0;
        }
        Ok(())
    }

    fn token(&self) -> Option<&Token> {
        self.closure.token()
    }

    fn parent(&mut self) -> Parent {
        self.closure.parent()
    }

    fn obstacle(&self) -> Option<Cancelled> {
        self.closure.obstacle()
    }

    fn call(self) -> T {
        drop(self.kept);
        self.closure.call()
    }

    fn call_carrying(self, carried: Captured) -> T {
        drop(self.kept);
        self.closure.call_carrying(carried)
    }
}
