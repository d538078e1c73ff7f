//! [`ScopedSubmission`]: the submission of one item of a scope, with options.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};

use crate::cancel::CancelToken;
use crate::engine::item::scope::Scope;
use crate::engine::item::with_options::ClosureOptions;
use crate::engine::refusal::QueueError;
use crate::error::refused::Refused;
use crate::queue::cancellable::Leash;
use crate::queue::options::Options;
use crate::queue::scope::ScopedJoinHandle;

/// The submission of one item of a [`Scope`], with options: see [`Scope::item`].
///
/// The options are those of a [`Submission`](crate::Submission), except a delay and a permit. These options can be
/// combined in every way and in any order.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use cmwq::{CancelToken, Executor, WorkQueue};
/// use std::time::{Duration, Instant};
///
/// let (queue, token) = (WorkQueue::new("sums"), CancelToken::new());
/// let first = Executor::global().cpus().first().unwrap();
/// let (low, high) = ([1, 2, 3], [4, 5, 6]);
/// let sum: i32 = queue.scope(|s| {
///     let low = s.item(|| low.iter().sum::<i32>()).on_cpu(first).named("the low ones").token(&token).spawn()?;
///     let high = s.item(|| high.iter().sum::<i32>()).within(Duration::from_secs(60)).bytes(12);
///     let high = high.deadline(Instant::now() + Duration::from_secs(30)).spawn()?;
///     Ok::<_, Box<dyn std::error::Error>>(low.join()? + high.join()?)
/// })?;
/// assert_eq!(sum, 21);
///
/// let refused = queue.scope(|s| match s.item(|| "here instead").on_node(1 << 20).try_spawn() {
///     Ok(_) => unreachable!("there is no such node"),
///     Err(refused) => (refused.into_closure())(),
/// });
/// assert_eq!(refused, "here instead");
/// # Ok(())
/// # }
/// ```
#[must_use = "a submission does nothing until it is ended by `spawn` or `try_spawn`"]
pub struct ScopedSubmission<'scope, 'env: 'scope, F> {
    scope: &'scope Scope<'scope, 'env>,
    closure: F,
    options: Options,
    leash: Leash,
    /// The number of bytes that the item keeps in memory until it begins.
    bytes: u64,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Begins the submission of a closure with options, such as a token, a CPU or a name. Nothing is submitted until
    /// [`spawn`](ScopedSubmission::spawn) or [`try_spawn`](ScopedSubmission::try_spawn) ends the submission.
    ///
    /// # Examples
    ///
    /// The first item that finds the word stops the other items:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{CancelToken, WorkQueue};
    ///
    /// let (queue, found) = (WorkQueue::new("search"), CancelToken::new());
    /// let texts = ["to be or not to be", "that is the question", "whether 'tis nobler"];
    /// queue.scope(|s| {
    ///     for text in &texts {
    ///         let search = || {
    ///             let mut words = text.split(' ').take_while(|_| !cmwq::is_cancelled());
    ///             if words.any(|word| word == "question") {
    ///                 found.cancel();
    ///             }
    ///         };
    ///         s.item(search).token(&found).named("searching").spawn()?;
    ///     }
    ///     Ok::<_, cmwq::QueueError>(())
    /// })?;
    /// assert!(found.is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn item<F>(&'scope self, closure: F) -> ScopedSubmission<'scope, 'env, F> {
        let (options, leash) = (Options::default(), Leash::default());
        ScopedSubmission { scope: self, closure, options, leash, bytes: 0 }
    }
}

impl<'scope, F> ScopedSubmission<'scope, '_, F> {
    /// Submits the item on the CPU `cpu`, as [`Submission::on_cpu`](crate::Submission::on_cpu) does.
    pub fn on_cpu(mut self, cpu: usize) -> Self {
        self.options.cpu(cpu);
        self
    }

    /// Submits the item on a CPU of the NUMA node `node`, as [`Submission::on_node`](crate::Submission::on_node) does.
    pub fn on_node(mut self, node: usize) -> Self {
        self.options.node(node);
        self
    }

    /// Gives the item a name, as [`Submission::named`](crate::Submission::named) does.
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// Makes the item cancellable by `token`. The item's own token becomes a [child](CancelToken::child) of `token`.
    ///
    /// If the token is cancelled before the item begins, the item does not run. A join of a cancelled item drops the
    /// item's closure, and returns [`JoinError::Cancelled`](crate::JoinError::Cancelled) at once. If a cancelled item
    /// is not joined, the scope waits until a worker reaches the item. A cancelled item does not make the scope panic.
    pub fn token(mut self, token: &CancelToken) -> Self {
        self.leash.holds(token);
        self
    }

    /// Sets the time by which the item must begin, as [`Submission::deadline`](crate::Submission::deadline) does. An
    /// item that is too late does not make the scope panic. If an item that is too late is not joined, the scope waits
    /// until a worker reaches the item.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.leash.ends_at(deadline);
        self
    }

    /// Sets a [deadline](Self::deadline) that passes `time` after this call.
    pub fn within(mut self, time: Duration) -> Self {
        self.leash.ends_in(time);
        self
    }

    /// Says how many bytes the closure keeps in memory until it runs, as
    /// [`Submission::bytes`](crate::Submission::bytes) does.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Queues the closure, which runs once, before the scope ends: see [`Scope::spawn`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Scope::spawn`], and those of [`on_cpu`](Self::on_cpu) and [`on_node`](Self::on_node).
    pub fn spawn<T>(self) -> Result<ScopedJoinHandle<'scope, T>, QueueError>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let scope = self.scope;
        self.end().map_err(|(error, _closure)| scope.count_refusal(error))
    }

    /// Queues the closure as [`spawn`](Self::spawn) does. If the queue refuses the closure, hands it back.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`spawn`](Self::spawn), with the closure.
    pub fn try_spawn<T>(self) -> Result<ScopedJoinHandle<'scope, T>, Refused<F>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let scope = self.scope;
        self.end().map_err(|(error, closure)| Refused::new(scope.count_refusal(error), closure))
    }

    fn end<T>(self) -> Result<ScopedJoinHandle<'scope, T>, (QueueError, F)>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let Self { scope, closure, options, leash, bytes } = self;
        let place = match options.place(scope.executor()) {
            Ok(place) => place,
            Err(error) => return Err((error, closure)),
        };
        if options.name.is_none() && !leash.is_set() && bytes == 0 {
            return scope.spawn_closure::<F, T>(place, closure);
        }
        let (name, token) = (options.name, leash.token());
        let options = ClosureOptions { name, token, bytes, ..ClosureOptions::default() };
        scope.spawn_closure_with(place, options, closure)
    }
}

impl<F> fmt::Debug for ScopedSubmission<'_, '_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedSubmission")
            .field("scope", self.scope)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
