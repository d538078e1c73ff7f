//! Calls of the subscribers of `tracing`, and the issuers' spans, which become the parents of the items' spans.

#[cfg(feature = "tracing")]
use std::cell::{Cell, RefCell};
#[cfg(feature = "tracing")]
use std::mem;

#[cfg(feature = "tracing")]
use tracing::{Dispatch, Level, Span, dispatcher::get_default};

#[cfg(feature = "tracing")]
use crate::engine::user_code;

#[cfg(feature = "tracing")]
thread_local! {
    /// Whether a function of this module is calling a subscriber on this thread.
    static TELLING: Cell<bool> = const { Cell::new(false) };
    /// The parent of the span in which this thread runs an item.
    static PARENT: RefCell<Option<Span>> = const { RefCell::new(None) };
}

/// Returns whether a subscriber might listen to events of this level.
#[cfg(feature = "tracing")]
#[inline]
pub(super) fn is_on(level: Level) -> bool {
    level <= tracing::level_filters::STATIC_MAX_LEVEL
        && level <= tracing::level_filters::LevelFilter::current()
}

/// Calls `tell`, which may call the subscriber. Does nothing if this thread is already inside a call of a subscriber.
#[cfg(feature = "tracing")]
#[cold]
pub(super) fn told(tell: impl FnOnce()) {
    TELLING.with(|telling| {
        if !telling.replace(true) {
            user_code::call(tell);
            telling.set(false);
        }
    });
}

/// Returns whether the calling thread's subscriber has made this span. To any other subscriber, the id of the span
/// means nothing.
///
/// Subscribers cannot be compared, so this function compares their debug texts. The text of the global subscriber
/// contains its address. The texts of two subscribers that serve single threads are never equal, so for such a
/// subscriber, this function returns false.
#[cfg(feature = "tracing")]
pub(super) fn is_of_this_thread(span: &Span) -> bool {
    let is_same = |made: &Dispatch| get_default(|here| format!("{here:?}") == format!("{made:?}"));
    span.with_subscriber(|(_, made)| is_same(made)).unwrap_or(false)
}

/// Sets aside the parent span of the calling thread's run, while the thread runs another item. When the returned value
/// is dropped, the parent span applies again.
pub(crate) fn set_aside() -> impl Sized {
    #[cfg(feature = "tracing")]
    {
        struct Aside(Option<Span>);
        impl Drop for Aside {
            fn drop(&mut self) {
                if let Some(span) = self.0.take() {
                    Parent { span: Some(span) }.keep();
                }
            }
        }
        // If the thread is ending, its thread-local variables may be gone.
        Aside(PARENT.try_with(RefCell::take).ok().flatten())
    }
}

/// The span that is current for an issuer, and becomes the parent of the run's span.
#[derive(Default)]
pub(crate) struct Parent {
    #[cfg(feature = "tracing")]
    pub(super) span: Option<Span>,
}

impl Parent {
    /// Returns the span that is current on the calling thread. Returns no span if no subscriber listens, or if this
    /// thread is inside a call of a subscriber.
    pub(crate) fn current() -> Self {
        #[cfg(feature = "tracing")]
        {
            let mut span = None;
            if is_on(Level::TRACE) {
                told(|| span = Some(Span::current()));
            }
            Self { span: span.filter(|span| !span.is_none()) }
        }
        #[cfg(not(feature = "tracing"))]
        Self {}
    }

    /// Returns the parent of the span in which the calling thread runs an item, if there is one. Returns no span if the
    /// thread is inside a call of a subscriber.
    pub(crate) fn of_run() -> Self {
        #[cfg(feature = "tracing")]
        {
            // The clone calls the subscriber, which may use the thread-local variable. So the variable is not borrowed
            // during the clone.
            let kept = Self { span: PARENT.try_with(RefCell::take).ok().flatten() };
            let mut span = None;
            told(|| span = kept.span.clone());
            kept.keep();
            Self { span }
        }
        #[cfg(not(feature = "tracing"))]
        Self {}
    }

    /// Keeps this parent while the calling thread runs an item, and drops the previous parent. Drops this parent if the
    /// thread is ending and its thread-local variables are gone.
    #[cfg(feature = "tracing")]
    pub(super) fn keep(mut self) {
        let _kept = PARENT.try_with(|kept| mem::swap(&mut *kept.borrow_mut(), &mut self.span));
    }

    pub(crate) fn is_some(&self) -> bool {
        #[cfg(feature = "tracing")]
        return self.span.is_some();
        #[cfg(not(feature = "tracing"))]
        false
    }
}

#[cfg(feature = "tracing")]
impl Drop for Parent {
    /// Drops the span, which calls the subscriber.
    fn drop(&mut self) {
        if let Some(span) = self.span.take() {
            user_code::destroy(move || user_code::contain(|| drop(span)));
        }
    }
}
