//! [`WorkQueue::map`] and [`WorkQueue::for_each`] call a function with each of many inputs, on the workers of a queue.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

use crate::engine::item::closure::{Closure, OwnType};
use crate::engine::item::place::Place;
use crate::engine::item::scope::Scope;
use crate::engine::refusal::QueueError;
use crate::error::RunError;
use crate::error::scope::ScopeError;
use crate::join::JoinHandle;
use crate::queue::WorkQueue;
use crate::queue::scope::ScopedJoinHandle;

/// The default window is at least this many items. A window is the greatest number of items that are in flight at a
/// time.
const WINDOW_LEAST: usize = 64;
/// The default window has this many items for each CPU of the executor, if that is more than [`WINDOW_LEAST`].
const WINDOW_PER_CPU: usize = 4;

impl WorkQueue {
    /// Calls `function` with each of the inputs, each time in an item of the queue. Returns an iterator of the results,
    /// in the order of the inputs.
    ///
    /// The iterator is lazy. It takes inputs and queues items only while its consumer asks for results, and keeps at
    /// most [`window`](Map::window) items in flight. So neither a slow consumer nor an endless iterator of inputs fills
    /// the memory. If the queue is full, fewer items are in flight.
    ///
    /// If an item panics, the iterator returns the panic, cancels the items that have not begun, and ends. If the
    /// iterator is dropped early, it also cancels the items that have not begun. After a panic or an early drop, items
    /// that have begun continue, and the iterator does not wait for them.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("lengths");
    /// let files = ["Cargo.toml", "README.md"];
    /// for text in queue.map(files, |file| cmwq::blocking(|| std::fs::read_to_string(file))) {
    ///     println!("{} bytes", text??.len());
    /// }
    /// let squares: Vec<u64> = queue.map(1..=4, |n| n * n).collect::<Result<_, _>>()?;
    /// assert_eq!(squares, [1, 4, 9, 16]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The iterator returns an error as its last element, and drops the other inputs:
    ///
    /// * [`RunError::Failed`] if an item panicked, if a shutdown dropped it, or if the wait for it would never end.
    /// * [`RunError::Refused`] if the queue refuses an item, for a reason of [`spawn`](Self::spawn). A full queue leads
    ///   to this error only if no item of the iterator is in flight.
    #[doc(alias = "par_iter")]
    pub fn map<I, F, T>(&self, inputs: I, function: F) -> Map<I::IntoIter, F, T>
    where
        I: IntoIterator,
        I::Item: Send + 'static,
        F: Fn(I::Item) -> T + Send + Sync + 'static,
        T: Send + 'static,
    {
        Map {
            inputs: Some(inputs.into_iter()),
            refused: None,
            function: Arc::new(function),
            window: self.window(),
            in_flight: VecDeque::new(),
            queue: self.clone(),
        }
    }

    /// Calls `function` with each of the inputs, each time in an item of the queue, and waits under a [blocking
    /// guard](crate#guards) until all of these items have ended. The inputs and the function may borrow from the
    /// caller. At most 64 items are in flight at a time, or 4 for each CPU of the executor if that is more.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("doubles");
    /// let mut numbers = [1, 2, 3];
    /// queue.for_each(&mut numbers, |n| *n *= 2)?;
    /// assert_eq!(numbers, [2, 4, 6]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The call looks at its items in the order of the inputs. At the first item that failed, it cancels the items that
    /// have not begun, waits for the others, and returns the error. Before the call reaches the failed item, items
    /// behind a long one may begin.
    ///
    /// * [`RunError::Failed`] if an item panicked, if a shutdown dropped one, or if the caller has come to hold the
    ///   only slot in which an item can run.
    /// * [`RunError::Refused`] if the queue refuses an item, for a reason of [`spawn`](Self::spawn). If the queue is
    ///   full while items of this call are in flight, the call does not fail, but waits for one of these items. The
    ///   reason is [`QueueError::WouldDeadlock`] if the caller already holds the only slot when it submits an item.
    pub fn for_each<I, F>(&self, inputs: I, function: F) -> Result<(), RunError>
    where
        I: IntoIterator,
        I::Item: Send,
        F: Fn(I::Item) + Sync,
    {
        let (inputs, function) = (inputs.into_iter(), &function);
        let mut result = Ok(());
        let ended = self.try_scope(|s| result = self.call_each(s, inputs, function));
        match ended {
            // In a forked process, the items belong to the parent process.
            Err(ScopeError::Forked) => Err(RunError::Refused(QueueError::Forked)),
            // The body has joined all items, so its result tells of items that were dropped.
            Ok(()) | Err(ScopeError::Dropped { .. }) => result,
        }
    }

    /// The body of [`for_each`](Self::for_each).
    fn call_each<'scope, 'env, I, F>(
        &self,
        s: &'scope Scope<'scope, 'env>,
        inputs: I,
        function: &'env F,
    ) -> Result<(), RunError>
    where
        I: Iterator,
        I::Item: Send + 'scope,
        F: Fn(I::Item) + Sync,
    {
        let mut in_flight = InFlight { items: VecDeque::new(), window: self.window() };
        for input in inputs {
            in_flight.make_room()?;
            let mut call = ByReference { function, input };
            // If the queue is full, it has room again after items of this call have begun. So the loop joins an item,
            // and tries again.
            let handle = loop {
                match s.spawn_closure(Place::Here, call) {
                    Ok(handle) => break handle,
                    Err((QueueError::Full, refused)) if !in_flight.items.is_empty() => {
                        in_flight.join_first()?;
                        call = refused;
                    }
                    Err((error, _refused)) => return Err(RunError::Refused(s.count_refusal(error))),
                }
            };
            in_flight.items.push_back(handle);
        }
        while !in_flight.items.is_empty() {
            in_flight.join_first()?;
        }
        Ok(())
    }

    fn window(&self) -> usize {
        WINDOW_LEAST.max(WINDOW_PER_CPU * self.executor().placement.len())
    }
}

/// An iterator of the results of a function, which [`WorkQueue::map`] returns.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = cmwq::WorkQueue::new("squares");
/// let mut squares = queue.map(1u64.., |n| n * n).window(8);
/// assert_eq!(squares.next().unwrap()?, 1);
/// assert_eq!(squares.next().unwrap()?, 4);
/// drop(squares); // Items that have not begun are cancelled.
/// # Ok(())
/// # }
/// ```
#[must_use = "the iterator is lazy: it queues nothing until it is asked for results"]
pub struct Map<I: Iterator, F, T> {
    queue: WorkQueue,
    /// `None` once the iterator has ended.
    inputs: Option<I>,
    /// The call that a full queue has refused. This call comes before the other inputs.
    refused: Option<Call<I::Item, F>>,
    function: Arc<F>,
    window: usize,
    in_flight: VecDeque<JoinHandle<T>>,
}

impl<I: Iterator, F, T> Map<I, F, T> {
    /// Sets the maximum number of items in flight. An item is in flight from its submission until the consumer takes
    /// its result. The default is 64, or 4 for each CPU of the executor if that is more.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = cmwq::WorkQueue::new("squares");
    /// assert_eq!(queue.map(0..100u64, |n| n * n).window(2).filter_map(Result::ok).sum::<u64>(), 328_350);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If `items` is 0, the iterator queues nothing, and its only result is [`QueueError::ZeroWindow`].
    pub fn window(mut self, items: usize) -> Self {
        self.window = items;
        self
    }

    fn join_first(&mut self) -> Result<T, RunError> {
        let first = self.in_flight.pop_front().expect("the caller has found an item");
        first.join().map_err(RunError::Failed)
    }

    /// Ends the iterator, and cancels the items that have not begun.
    fn end(&mut self) {
        // The destructors of the inputs and of the refused call may panic, so `end` drops these values after the
        // cancels.
        let _ended = (self.inputs.take(), self.refused.take());
        cancel_each(self.in_flight.drain(..), |item| _ = item.cancel());
    }
}

impl<I, F, T> Map<I, F, T>
where
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> T + Send + Sync + 'static,
    T: Send + 'static,
{
    /// Queues items until the window is full, or until the queue refuses an item. Returns the reason of a refusal.
    fn fill(&mut self) -> Option<QueueError> {
        if self.window == 0 && self.inputs.is_some() {
            return Some(QueueError::ZeroWindow);
        }
        while self.in_flight.len() < self.window {
            let next = self.refused.take().or_else(|| {
                let Some(input) = self.inputs.as_mut()?.next() else {
                    // An iterator may return inputs again after it has ended, but a map that has ended must stay ended.
                    self.inputs = None;
                    return None;
                };
                Some(Call { function: Arc::clone(&self.function), input })
            });
            match self.queue.handle().queue().spawn(Place::Here, next?) {
                Ok(handle) => self.in_flight.push_back(JoinHandle::new(handle)),
                Err((error, call)) => {
                    self.refused = Some(call);
                    return Some(error);
                }
            }
        }
        None
    }
}

impl<I, F, T> Iterator for Map<I, F, T>
where
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> T + Send + Sync + 'static,
    T: Send + 'static,
{
    type Item = Result<T, RunError>;

    /// Queues items until the window is full, and waits under a blocking guard for the next result.
    fn next(&mut self) -> Option<Self::Item> {
        let refusal = self.fill();
        // The results of the items that were accepted before a refusal come first.
        let result = match self.in_flight.front().map(JoinHandle::wait) {
            Some(Ok(())) => self.join_first(),
            // The caller cannot wait for this item, so `end` cancels it with the others.
            Some(Err(error)) => Err(RunError::Failed(error)),
            None => Err(RunError::Refused(self.queue.handle().queue().count_refusal(refusal?))),
        };
        if result.is_err() {
            self.end();
        }
        Some(result)
    }
}

impl<I, F, T> FusedIterator for Map<I, F, T>
where
    I: Iterator,
    I::Item: Send + 'static,
    F: Fn(I::Item) -> T + Send + Sync + 'static,
    T: Send + 'static,
{
}

impl<I: Iterator, F, T> Drop for Map<I, F, T> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<I: Iterator, F, T> fmt::Debug for Map<I, F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map")
            .field("queue", &self.queue)
            .field("window", &self.window)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

/// A call of a shared function with one input.
struct Call<V, F> {
    function: Arc<F>,
    input: V,
}

impl<V, F: Fn(V) -> T, T> Closure<T> for Call<V, F> {
    type Type = OwnType<F>;

    fn type_of_closure(&self) -> OwnType<F> {
        OwnType::new()
    }

    fn call(self) -> T {
        (self.function)(self.input)
    }
}

/// A call of a borrowed function with one input.
struct ByReference<'f, V, F> {
    function: &'f F,
    input: V,
}

impl<V, F: Fn(V) -> T, T> Closure<T> for ByReference<'_, V, F> {
    type Type = OwnType<F>;

    fn type_of_closure(&self) -> OwnType<F> {
        OwnType::new()
    }

    fn call(self) -> T {
        (self.function)(self.input)
    }
}

/// The items of a [`for_each`](WorkQueue::for_each) that have not been joined. Dropping this value cancels the items
/// that have not begun, and waits for the others.
struct InFlight<'scope> {
    items: VecDeque<ScopedJoinHandle<'scope, ()>>,
    window: usize,
}

impl InFlight<'_> {
    /// Joins the first item if the window is full.
    fn make_room(&mut self) -> Result<(), RunError> {
        if self.items.len() < self.window { Ok(()) } else { self.join_first() }
    }

    fn join_first(&mut self) -> Result<(), RunError> {
        let Some(first) = self.items.front() else { return Ok(()) };
        // If the caller cannot wait for the first item, that item stays on the list, so the destructor cancels it.
        // Without this cancel, the scope would wait for the item.
        first
            .wait()
            .and_then(|()| self.items.pop_front().map_or(Ok(()), ScopedJoinHandle::join))
            .map_err(RunError::Failed)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        cancel_each(self.items.iter(), |item| _ = item.cancel());
        for item in self.items.drain(..) {
            // `for_each` returns only the first error. If the item panicked, this join takes the panic, so the scope
            // does not rethrow it.
            let _later_error = item.join();
        }
    }
}

/// Calls `cancel` with each item. If a call panics, because the destructor of an input panics, the thread calls
/// `cancel` with the other items while it unwinds. So none of these items begins.
fn cancel_each<H>(items: impl Iterator<Item = H>, cancel: impl Fn(H)) {
    struct Rest<I: Iterator, C: Fn(I::Item)>(I, C);

    impl<I: Iterator, C: Fn(I::Item)> Rest<I, C> {
        fn cancel(&mut self) {
            for item in &mut self.0 {
                (self.1)(item);
            }
        }
    }

    impl<I: Iterator, C: Fn(I::Item)> Drop for Rest<I, C> {
        fn drop(&mut self) {
            self.cancel();
        }
    }

    Rest(items, cancel).cancel();
}
