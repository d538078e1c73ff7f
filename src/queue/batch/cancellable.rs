//! Batches whose closures have tokens or a deadline.

use std::time::{Duration, Instant};

use crate::cancel::CancelToken;
use crate::engine::item::batch::{Cut, CutDetached};
use crate::engine::item::closure::{Name, WithToken};
use crate::engine::item::one_shot::handle::RawHandle;
use crate::queue::cancellable::{self, Leash};

use super::{Batch, To, cut_detached, one_by_one};

/// Batches of closures that can be cancelled from outside.
impl<C: IntoIterator> Batch<'_, C> {
    /// Lets a token cancel the items, as [`Submission::token`](crate::Submission::token) does. Each item gets its own
    /// token, which is a [child](CancelToken::child) of `token`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use cmwq::{CancelToken, JoinError, WorkQueue};
    /// use std::time::Duration;
    ///
    /// let (queue, request) = (WorkQueue::new("parts"), CancelToken::new());
    /// request.cancel();
    /// let parts = queue.items((0..3).map(|n| move || n)).token(&request).within(Duration::from_secs(30));
    /// for part in parts.spawn()? {
    ///     assert!(matches!(part.join(), Err(JoinError::Cancelled)));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn token<T>(mut self, token: &CancelToken) -> Self
    where
        C::Item: FnOnce() -> T,
    {
        self.leash.holds(token);
        self
    }

    /// Sets the time until which each item must begin, as [`Submission::deadline`](crate::Submission::deadline) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Instant;
    ///
    /// let queue = cmwq::WorkQueue::new("quotes");
    /// queue.items([|| unreachable!("it is too late"); 3]).deadline(Instant::now()).spawn_detached::<()>()?;
    /// queue.flush()?;
    /// assert_eq!(queue.counters().expired, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadline<T>(mut self, deadline: Instant) -> Self
    where
        C::Item: FnOnce() -> T,
    {
        self.leash.ends_at(deadline);
        self
    }

    /// Sets a [deadline](Self::deadline) in `time` from now.
    pub fn within<T>(mut self, time: Duration) -> Self
    where
        C::Item: FnOnce() -> T,
    {
        self.leash.ends_in(time);
        self
    }
}

impl To<'_> {
    /// Queues closures with a token each and perhaps a name.
    pub(super) fn spawn_cancellable<F, T>(
        self,
        closures: Vec<F>,
        leash: &Leash,
        name: Option<&Name>,
    ) -> Result<Vec<RawHandle<T>>, Cut<F, T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if let Some(each) = self.way_of_each() {
            return one_by_one(closures.into_iter(), |closure| {
                let named = (leash.make_token(), name.cloned());
                cancellable::spawn(each.clone(), (self.place, None), named, closure)
            })
            .map_err(|(error, accepted, rest)| Cut { error, accepted, rest });
        }
        let held: Vec<_> = closures.into_iter().map(|closure| with_token(leash, name, closure)).collect();
        let tokens: Vec<_> = held.iter().map(|held| held.token.clone()).collect();
        let own = leash.make_token();
        let queue = self.queue.handle().queue();
        let spawned = queue.spawn_batch::<WithToken<F>, T>(self.place, held, Some(&own));
        let mut spawned = spawned.map_err(|Cut { error, accepted, rest }| Cut {
            error,
            accepted,
            rest: without_tokens(rest),
        });
        let accepted = match &mut spawned {
            Ok(handles) => handles,
            Err(cut) => &mut cut.accepted,
        };
        let timers = &queue.executor.upkeep.timers;
        for (handle, token) in accepted.iter_mut().zip(tokens) {
            handle.set_token(token, timers);
        }
        spawned
    }

    /// Queues closures with a token each and perhaps a name, without handles.
    pub(super) fn spawn_cancellable_detached<F, T>(
        self,
        closures: impl Iterator<Item = F>,
        leash: &Leash,
        name: Option<&Name>,
    ) -> Result<(), CutDetached<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: 'static,
    {
        if let Some(each) = self.way_of_each() {
            let spawned = one_by_one(closures, |closure| {
                let named = (leash.make_token(), name.cloned());
                cancellable::spawn_detached(each.clone(), (self.place, None), named, closure)
            });
            return cut_detached(spawned);
        }
        let held = closures.map(|closure| with_token(leash, name, closure));
        let (own, queue) = (leash.make_token(), self.queue.handle().queue());
        let spawned = queue.spawn_batch_detached::<WithToken<F>, T>(self.place, held, Some(&own));
        spawned.map_err(|CutDetached { error, accepted, rest }| {
            let rest = without_tokens(rest);
            CutDetached { error, accepted, rest }
        })
    }
}

fn with_token<F>(leash: &Leash, name: Option<&Name>, closure: F) -> WithToken<F> {
    WithToken { token: leash.make_token(), armed: None, name: name.cloned(), closure }
}

fn without_tokens<F>(held: Vec<WithToken<F>>) -> Vec<F> {
    held.into_iter().map(|held| held.closure).collect()
}
