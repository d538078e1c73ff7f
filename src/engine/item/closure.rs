//! The closures of one-shots.

use std::marker::PhantomData;

use crate::engine::queue::bytes::Ask;
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::{Cancelled, QueueError};
use crate::engine::trace::subscriber::Parent;

use super::entry::ItemType;
use super::token::Token;

/// A closure that runs once.
pub(crate) trait Closure<T> {
    /// The value that tells the type of the user's closure. The item's cell keeps this value.
    type Type: TypeOfClosure;

    fn type_of_closure(&self) -> Self::Type;

    /// Takes room for the bytes that the closure keeps in memory, if the executor bounds the bytes of pending items.
    /// Does nothing if the closure has taken its room already.
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
}

/// A value that tells the type of a user's closure.
pub(crate) trait TypeOfClosure: Copy {
    fn item_type(self) -> &'static ItemType;
}

/// A value that takes no memory, because the type of the cell already tells the type of the closure.
pub(crate) struct OwnType<F>(PhantomData<fn(F)>);

impl<F> OwnType<F> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<F> Clone for OwnType<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for OwnType<F> {}

impl<F> TypeOfClosure for OwnType<F> {
    #[inline(always)] // the compiler then knows the type
    fn item_type(self) -> &'static ItemType {
        ItemType::of::<F>()
    }
}

impl TypeOfClosure for &'static ItemType {
    #[inline]
    fn item_type(self) -> &'static ItemType {
        self
    }
}

impl<F: FnOnce() -> T, T> Closure<T> for F {
    type Type = OwnType<F>;

    #[inline(always)] // the returned value takes no memory
    fn type_of_closure(&self) -> OwnType<F> {
        OwnType::new()
    }

    #[inline(always)] // this call then costs no more than a direct call of the closure
    fn call(self) -> T {
        self()
    }
}
