//! Closures with options: a name, a token, a number of bytes, and the values that their submission carries.
//!
//! The cell of an item without options contains the closure itself. So for each closure, the compiler makes separate
//! code for all operations on the item. The cell of an item with options contains a [`WithOptions`], with the closure
//! in a box. So all closures with the same type of result share the code for items with options. Without the box, the
//! compiler would make that code for each closure and each combination of options. The price of the box is one more
//! allocation for each item with options.
#![allow(unsafe_code, reason = "a refused closure is taken out of its box again")]

use std::borrow::Cow;

use crate::engine::carrier::Carried;
use crate::engine::queue::bytes::{Ask, KeptBytes};
use crate::engine::queue::places::Kept;
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::{Cancelled, QueueError};
use crate::engine::trace::subscriber::Parent;

use super::closure::{Closure, TypeOfClosure};
use super::context;
use super::entry::ItemType;
use super::one_shot;
use super::one_shot::handle::RawHandle;
use super::place::Place;
use super::token::{Armed, Token};

/// The name of an item, which snapshots show while the item runs.
pub(crate) type Name = Cow<'static, str>;

/// The options of a closure.
#[derive(Default)]
pub(crate) struct ClosureOptions {
    pub(crate) name: Option<Name>,
    /// If the token counts as cancelled, the closure is not called.
    pub(crate) token: Option<Token>,
    /// The timer of an item with a delay and a token. The thread that cancels the token takes this timer off the map.
    pub(crate) armed: Option<Armed>,
    /// The number of bytes that the closure keeps in memory until it begins.
    pub(crate) bytes: u64,
}

/// A closure with options, in a box.
pub(crate) struct WithOptions<'a, T>(Box<Boxed<dyn Callable<T> + Send + 'a>>);

/// The content of the box.
struct Boxed<C: ?Sized> {
    /// The room that was taken for the closure's bytes. This field is dropped first, because the destructors of the
    /// closure and of the carried values may wait for room for other bytes.
    kept: Option<KeptBytes>,
    /// The number of the closure's bytes, or 0 after room was taken for them.
    bytes: u64,
    armed: Option<Armed>,
    item_type: &'static ItemType,
    token: Option<Token>,
    name: Option<Name>,
    carried: Option<Carried>,
    /// The closure is the last field, because its size may be unknown: it may be a trait object. So a closure that is
    /// not called is dropped after the carried values.
    closure: C,
}

/// A closure of unknown type that is called once.
trait Callable<T> {
    fn call(&mut self) -> T;
}

impl<F: Closure<T>, T> Callable<T> for Option<F> {
    fn call(&mut self) -> T {
        self.take().expect("a closure is called once").call()
    }
}

impl<'a, T> WithOptions<'a, T> {
    fn new<F: Closure<T> + Send + 'a>(options: ClosureOptions, carried: Option<Carried>, closure: F) -> Self {
        let ClosureOptions { name, token, armed, bytes } = options;
        let item_type = closure.type_of_closure().item_type();
        let closure = Some(closure);
        Self(Box::new(Boxed { kept: None, bytes, armed, item_type, token, name, carried, closure }))
    }

    /// Takes the closure out of its box, and drops its options.
    ///
    /// # Safety
    ///
    /// The value was made from a closure of this type, which was not called.
    pub(crate) unsafe fn into_closure<F: Closure<T> + Send + 'a>(self) -> F {
        let boxed = Box::into_raw(self.0).cast::<Boxed<Option<F>>>();
        // SAFETY: the box was made with this content, as the caller promises, and this function owns it.
        let boxed = unsafe { Box::from_raw(boxed) };
        boxed.closure.expect("the closure was not called")
    }
}

/// Takes the closures of a refused batch out of their boxes.
///
/// # Safety
///
/// Each value was made from a closure of this type, which was not called.
pub(crate) unsafe fn into_closures<'a, F, T>(refused: Vec<WithOptions<'a, T>>) -> Vec<F>
where
    F: Closure<T> + Send + 'a,
{
    // SAFETY: the caller promises that each value was made from a closure of this type, which was not called.
    refused.into_iter().map(|boxed| unsafe { boxed.into_closure::<F>() }).collect()
}

impl Queue {
    /// Queues a closure like [`spawn_in`](Self::spawn_in), and captures the values that the submission carries.
    #[cold]
    #[inline(never)]
    pub(super) fn spawn_carrying<F, T>(
        &self,
        place: Place,
        kept: Option<Kept<'_>>,
        function: F,
    ) -> Result<RawHandle<T>, (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: Send + 'static,
    {
        let boxed = self.with_options(ClosureOptions::default(), function);
        // SAFETY: the refused closure is the one that was boxed above.
        self.spawn_boxed(place, kept, boxed)
            .map_err(|(error, boxed)| (error, unsafe { boxed.into_closure::<F>() }))
    }

    /// Queues a closure with options.
    pub(super) fn spawn_boxed<T: Send + 'static>(
        &self,
        place: Place,
        kept: Option<Kept<'_>>,
        boxed: WithOptions<'static, T>,
    ) -> Result<RawHandle<T>, (QueueError, WithOptions<'static, T>)> {
        let origin = self.executor.origin;
        self.spawn_made::<_, T, _>(place, kept, boxed, |boxed, lane| Ok(one_shot::make(boxed, lane, origin)))
    }

    /// Gives a closure its options, and captures the values that the submission carries.
    pub(super) fn with_options<'a, F, T>(&self, options: ClosureOptions, function: F) -> WithOptions<'a, T>
    where
        F: Closure<T> + Send + 'a,
    {
        WithOptions::new(options, self.carried(), function)
    }

    /// Queues a closure like [`spawn_detached_in`](Self::spawn_detached_in), and captures the values that the
    /// submission carries.
    #[cold]
    #[inline(never)]
    pub(super) fn spawn_detached_carrying<F, T>(
        &self,
        place: Place,
        kept: Option<Kept<'_>>,
        function: F,
    ) -> Result<(), (QueueError, F)>
    where
        F: Closure<T> + Send + 'static,
        T: 'static,
    {
        let boxed = self.with_options::<F, T>(ClosureOptions::default(), function);
        self.spawn_detached_boxed(place, kept, boxed)
            // SAFETY: the refused closure is the one that was boxed above.
            .map_err(|(error, boxed)| (error, unsafe { boxed.into_closure::<F>() }))
    }

    /// Queues a closure with options, without a handle.
    pub(super) fn spawn_detached_boxed<T: 'static>(
        &self,
        place: Place,
        kept: Option<Kept<'_>>,
        boxed: WithOptions<'static, T>,
    ) -> Result<(), (QueueError, WithOptions<'static, T>)> {
        self.spawn_made::<_, T, _>(place, kept, boxed, |boxed, _| {
            Ok((one_shot::make_detached::<_, T>(boxed), ()))
        })
    }
}

impl<T> Closure<T> for WithOptions<'_, T> {
    type Type = &'static ItemType;

    fn type_of_closure(&self) -> &'static ItemType {
        self.0.item_type
    }

    fn take_bytes(&mut self, queue: &Queue, ask: Ask) -> Result<(), QueueError> {
        let Boxed { kept, bytes, token, .. } = &mut *self.0;
        if *bytes > 0 {
            *kept = queue.take_bytes(*bytes, ask, token.as_ref())?;
            *bytes = 0;
        }
        Ok(())
    }

    fn token(&self) -> Option<&Token> {
        self.0.token.as_ref()
    }

    fn parent(&mut self) -> Parent {
        self.0.carried.as_mut().map(|carried| carried.parent()).unwrap_or_default()
    }

    fn obstacle(&self) -> Option<Cancelled> {
        self.0.token.as_ref().and_then(Token::reason)
    }

    /// Hooks make the carried values current, and may ask for the item's token. So the worker enters the token first.
    /// The worker also sets the name before it calls the hooks, so that a hook may give the item another description.
    fn call(self) -> T {
        let mut boxed = self.0;
        drop(boxed.kept.take());
        drop(boxed.armed.take());
        let token = boxed.token.take();
        let mut call = move || {
            if let Some(name) = boxed.name.take() {
                context::describe(name.into_owned());
            }
            match boxed.carried.take() {
                Some(carried) => carried.run(|| boxed.closure.call()),
                None => boxed.closure.call(),
            }
        };
        match token {
            Some(token) => token.enter_item(call),
            None => call(),
        }
    }
}
