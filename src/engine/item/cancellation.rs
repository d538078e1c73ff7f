//! The token of the calling thread, and the question whether the thread's item should stop.
//!
//! An item that was submitted with a token or with a deadline *enters* its token: during the run, this token is the
//! thread's token. Every other item gets a token only when it asks for one. A token that an item asks for is a child of
//! the queue's token. A thread-local variable keeps this token, together with the item's number. The worker does not
//! reset this variable when it begins another item, because that item has another number. So an item that does not ask
//! for a token costs nothing.
//!
//! If an item has no token, three places say whether the item should stop: the item's own state, the queue's token, and
//! the executor's token. A handle uses the item's state to ask the item to stop.
#![allow(unsafe_code, reason = "a worker stores the addresses of its item and queue")]

use std::cell::RefCell;
use std::ptr::NonNull;

use crate::policy::time::Time;
use crate::protocol::one_shot::OneShotCell;

use crate::engine::queue::workqueue::Queue;
use crate::engine::worker::current::Current;
use crate::engine::worker::worker_thread::{self, WorkerThread};

use super::entry::state_of;
use super::token::{KeptToken, Token};
use super::work::WorkItem;

thread_local! {
    /// The token that the thread has entered.
    static ENTERED: RefCell<Option<Token>> = const { RefCell::new(None) };
    /// The token of the last item on this thread that has asked for its token.
    static ASKED: RefCell<Option<Asked>> = const { RefCell::new(None) };
}

struct Asked {
    /// The number that the worker has given to the item.
    item: u64,
    token: Token,
}

impl Token {
    /// Calls `function`. During the call, this token is the token of the calling thread.
    pub(crate) fn enter<R>(&self, function: impl FnOnce() -> R) -> R {
        let _entered = Entered::begin(self.clone());
        function()
    }

    /// Enters this token, which is the token of the thread's item, and calls the item's function. During the call, the
    /// token is also cancelled if the item's queue or executor ends. If the thread has already entered the token, only
    /// calls the function.
    pub(crate) fn enter_item<R>(&self, function: impl FnOnce() -> R) -> R {
        if self.is_entered() {
            return function();
        }
        let _watch = with_item(|worker, queue| {
            self.listen(worker);
            self.follow(queue.token())
        });
        self.enter(function)
    }

    fn is_entered(&self) -> bool {
        let is_this =
            |entered: &RefCell<Option<Self>>| entered.borrow().as_ref().is_some_and(|token| self.is(token));
        ENTERED.try_with(is_this).unwrap_or(false)
    }

    /// Cancels this token as soon as a handle asks the worker's item to stop. If a handle has already asked, cancels
    /// the token now.
    fn listen(&self, worker: &WorkerThread) {
        let listens = with_one_shot(worker, |state| state.listen(self.alarm()))
            .or_else(|| with_work(worker, |work| work.cell.listen(self.alarm())));
        if listens == Some(false) {
            self.cancel();
        }
    }
}

/// The token that the thread had entered before it entered its present token. Dropping this value enters the earlier
/// token again.
struct Entered(Option<Token>);

impl Entered {
    /// Returns `None` if the calling thread is ending and its thread-local variables are already gone.
    fn begin(token: Token) -> Option<Self> {
        ENTERED.try_with(|entered| Self(entered.replace(Some(token)))).ok()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.take();
        // The drop of the entered token takes locks, so the token is dropped after the call of `try_with`.
        let _entered = ENTERED.try_with(|entered| entered.replace(before));
    }
}

/// Returns whether the code on the calling thread should stop. Outside of items, the answer depends only on the token
/// that the thread has entered, if there is one.
pub(crate) fn is_cancelled() -> bool {
    let entered = ENTERED.try_with(|entered| entered.borrow().as_ref().map(Token::is_cancelled));
    if let Ok(Some(answer)) = entered {
        return answer;
    }
    with_item(|worker, queue| {
        let asked = asked(worker.sequence(), Token::is_cancelled);
        asked.unwrap_or_else(|| is_stopped(worker) || queue.is_cancelled())
    })
    .unwrap_or(false)
}

/// Returns whether a handle has asked the worker's item to stop.
fn is_stopped(worker: &WorkerThread) -> bool {
    let one_shot = with_one_shot(worker, |state| state.load().is_stopped());
    one_shot.or_else(|| with_work(worker, |work| work.cell.is_stopped())).unwrap_or(false)
}

/// Returns the token of the calling thread: the token that it has entered, or otherwise the token of its item. If the
/// item has no token yet, makes a token for the item. Returns `None` if the thread has entered no token and works for
/// no item.
pub(crate) fn current_token() -> Option<Token> {
    if let Ok(Some(token)) = ENTERED.try_with(|entered| entered.borrow().clone()) {
        // In a forked process, no thread cancels a token of the parent process.
        return Some(token).filter(|token| !token.is_forked());
    }
    with_item(|worker, queue| {
        let item = worker.sequence();
        asked(item, Token::clone).unwrap_or_else(|| {
            let token = queue.token().child(Time::NEVER);
            token.listen(worker);
            let asked = Asked { item, token: token.clone() };
            let _former = ASKED.try_with(|place| place.replace(Some(asked)));
            token
        })
    })
}

/// Returns the address of the [current token](current_token). Another thread uses this address while it runs a fork of
/// the worker's item. The item waits for the fork, and keeps the token in memory until the fork is over.
#[inline]
pub(crate) fn token_for_fork(worker: &WorkerThread) -> Option<KeptToken> {
    let entered = ENTERED.try_with(|entered| entered.borrow().as_ref().map(Token::kept)).ok()?;
    entered.or_else(|| asked(worker.sequence(), Token::kept)).or_else(|| Some(current_token()?.kept()))
}

/// Drops the token of the last item that has asked for its token. A rescuer calls this function when it leaves a pool,
/// because in each pool it numbers its items from the beginning again.
pub(crate) fn forget() {
    let _former = ASKED.try_with(RefCell::take);
}

/// Sets the tokens of the calling thread aside while the thread runs another item. When the returned value is dropped,
/// the thread has its tokens again.
pub(crate) fn set_aside() -> impl Sized {
    struct Aside {
        entered: Option<Token>,
        asked: Option<Asked>,
    }
    impl Drop for Aside {
        fn drop(&mut self) {
            // The drops of the former tokens take locks, so the tokens are dropped after the calls of `try_with`.
            let _entered = ENTERED.try_with(|entered| entered.replace(self.entered.take()));
            let _asked = ASKED.try_with(|asked| asked.replace(self.asked.take()));
        }
    }
    Aside {
        entered: ENTERED.try_with(RefCell::take).ok().flatten(),
        asked: ASKED.try_with(RefCell::take).ok().flatten(),
    }
}

/// Calls `look` with the token of the item with this number, if that item has asked for its token.
fn asked<R>(item: u64, look: impl FnOnce(&Token) -> R) -> Option<R> {
    let look = |asked: &RefCell<Option<Asked>>| {
        asked.borrow().as_ref().filter(|asked| asked.item == item).map(|asked| look(&asked.token))
    };
    ASKED.try_with(look).ok().flatten()
}

/// Calls `look` with the state of the one-shot whose function the worker executes. Returns `None` if the worker
/// executes no one-shot.
fn with_one_shot<R>(worker: &WorkerThread, look: impl FnOnce(&OneShotCell) -> R) -> Option<R> {
    let current = worker.current().filter(Current::is_running_one_shot)?;
    let item = NonNull::new(current.item.cast_mut())?;
    // SAFETY: the item is a one-shot whose function runs on this thread, so its entry keeps its cell in memory.
    Some(look(unsafe { state_of(item) }))
}

/// Calls `look` with the reusable item whose function the worker executes. Returns `None` if the worker executes no
/// reusable item.
fn with_work<R>(worker: &WorkerThread, look: impl FnOnce(&WorkItem) -> R) -> Option<R> {
    worker.current()?.running_work().map(look)
}

/// Calls `look` with the calling worker and the queue of its item.
fn with_item<R>(look: impl FnOnce(&WorkerThread, &Queue) -> R) -> Option<R> {
    worker_thread::with_current(|worker| {
        let worker = worker?;
        Some(look(worker, worker.current()?.queue()))
    })
}
