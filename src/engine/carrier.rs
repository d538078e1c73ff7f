//! Hooks that capture values, such as a span, when an item is submitted. The values are current again while the item
//! runs. `item::carried` says when the hooks are called.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::{fmt, mem};

use super::trace::subscriber::Parent;
use super::user_code::{self, contain, destroy};

/// A hook that runs on the issuer's thread and captures the issuer's context, such as its span.
#[derive(Clone)]
pub(crate) struct Carrier(Option<Arc<Capture>>);

type Capture = dyn Fn() -> Enter + Send + Sync;
/// A function that makes the captured values current on the worker's thread. The values stay current until the worker
/// drops the function's result.
type Enter = Box<dyn FnOnce() -> Entered + Send>;
type Entered = Box<dyn Any>;

impl Carrier {
    pub(crate) fn new<E, G>(capture: impl Fn() -> E + Send + Sync + 'static) -> Self
    where
        E: FnOnce() -> G + Send + 'static,
        G: 'static,
    {
        let capture = move || -> Enter {
            let enter = capture();
            Box::new(move || Box::new(enter()))
        };
        Self(Some(Arc::new(capture)))
    }

    /// Calls the hook. Returns `None` if the hook panics.
    fn capture(&self) -> Option<Enter> {
        let hook = self.0.as_ref()?;
        user_code::call(|| hook())
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        let hook = self.0.take();
        destroy(move || contain(|| drop(hook)));
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier").finish_non_exhaustive()
    }
}

thread_local! {
    /// Whether the calling thread is inside a hook.
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
}

/// The values that one submission carries.
pub(crate) type Carried = Box<Captured>;

/// The functions that the hooks returned for one submission, and the issuer's span.
pub(crate) struct Captured {
    enters: Vec<Enter>,
    /// The issuer's span, which is the parent of the run's span.
    parent: Parent,
}

impl Captured {
    /// Calls the hooks. Returns `None` if the submission has nothing to carry.
    ///
    /// If a hook itself submits an item, that submission carries nothing. Otherwise the submission would call the hook
    /// again.
    #[cold]
    pub(super) fn capture(carriers: &[Carrier], parent: fn() -> Parent) -> Option<Carried> {
        if CAPTURING.replace(true) {
            return None;
        }
        let enters: Vec<Enter> = carriers.iter().filter_map(Carrier::capture).collect();
        CAPTURING.set(false);
        let parent = parent();
        let captures = !enters.is_empty() || parent.is_some();
        captures.then(|| Box::new(Self { enters, parent }))
    }

    /// Takes the issuer's span.
    pub(crate) fn parent(&mut self) -> Parent {
        mem::take(&mut self.parent)
    }

    /// Calls an item's function. The captured values are current during the call.
    pub(crate) fn run<R>(mut self, function: impl FnOnce() -> R) -> R {
        let mut current = Current(Vec::with_capacity(self.enters.len()));
        current.0.extend(self.enters.drain(..).filter_map(user_code::call));
        function()
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        let enters = mem::take(&mut self.enters);
        if !enters.is_empty() {
            destroy(move || contain(|| drop(enters)));
        }
    }
}

/// The values that the carriers have made current. When this struct is dropped, it drops the values in the reverse
/// of the order in which they became current.
struct Current(Vec<Entered>);

impl Drop for Current {
    fn drop(&mut self) {
        while let Some(entered) = self.0.pop() {
            contain(|| drop(entered));
        }
    }
}
