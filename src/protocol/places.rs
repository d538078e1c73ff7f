//! The cell of a queue's [`Places`], and the line of issuers that wait for a place.
//!
//! An issuer that finds no place takes the lock of the line. Then the issuer does one of two things in a single step:
//! it takes a place that has become free, or it sets the *line* bit. If the issuer sets the bit, it joins the line. A
//! thread that gives a place back learns in the same step whether the bit is set. If the bit is set, the thread takes
//! the lock, and hands free places to the first issuers in line. If the issuer looked for a free place in one step and
//! set the bit in another step, this could happen:
//!
//! * issuer: finds no place;
//! * other thread: gives a place back; sees no line;
//! * issuer: joins the line, although a place is free. No thread hands this place to the issuer.
//!
//! To shut the queue, a thread first shuts the queue's intakes, which then admit no more items. Next, the thread
//! refuses all issuers that wait in the line. An issuer first joins the line, and then checks that the queue is open.
//! Both threads take the lock of the line. So either the shutting thread finds the issuer in line, or the issuer sees
//! that the queue is shut.
//!
//! The count of places orders no other accesses, so all accesses to it are relaxed. The lock orders the line, and the
//! turn's [`Signal`] orders the end of a turn.
//!
//! An issuer may get a place at the moment at which it gives up waiting. Such an issuer owns the place, and gives the
//! place back.

use std::collections::VecDeque;

use crate::policy::places::Places;
use crate::sys::sync::{Arc, AtomicU64, Mutex, Ordering};

use super::signal::Signal;

/// See the module.
#[derive(Debug)]
pub(crate) struct PlacesCell {
    word: AtomicU64,                  // A
    line: Mutex<VecDeque<Arc<Turn>>>, // K
}

/// The turn of an issuer that waits in the line for a place.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Whether the issuer has got a place. A thread writes this field under the lock of the line, before it sets the
    /// signal.
    has_place: AtomicU64,
    /// The signal that is set when the issuer gets a place or is refused.
    over: Arc<Signal>,
}

/// The answer to an issuer that takes a place, or waits for a place if no place is free.
#[must_use]
#[derive(Debug)]
pub(crate) enum Reserve {
    Place,
    Wait(Arc<Turn>),
}

impl PlacesCell {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(Places::new().into_bits()), line: Mutex::new(VecDeque::new()) }
    }

    /// Takes a place. Returns false if no place is free, or if issuers wait in line.
    #[inline]
    pub(crate) fn take(&self, max: u64) -> bool {
        let take = |word| Places::from_bits(word).take(max).map(Places::into_bits);
        self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Takes up to `places` places, as far as places are free. Returns the number of places that the call took.
    pub(crate) fn take_many(&self, max: u64, places: u64) -> u64 {
        self.update(|word| word.take_many(max, places))
    }

    /// Takes a place, or joins the line. `check` returns an error if the queue is shut. `reserve` then returns this
    /// error, and also whether the issuer has got a place in the meantime. An issuer that has got a place gives it back
    /// after the call.
    #[cold]
    pub(crate) fn reserve<E>(
        &self,
        max: u64,
        check: impl FnOnce() -> Result<(), E>,
    ) -> Result<Reserve, (E, bool)> {
        let mut line = self.line.lock();
        if self.update(|word| word.take_or_wait(max)) {
            return Ok(Reserve::Place);
        }
        let turn = Arc::new(Turn { has_place: AtomicU64::new(0), over: Arc::new(Signal::new()) });
        line.push_back(turn.clone());
        drop(line);
        match check() {
            Ok(()) => Ok(Reserve::Wait(turn)),
            Err(error) => Err((error, self.end_turn(&turn))),
        }
    }

    /// Ends an issuer's turn. Returns true if the issuer has got a place. The issuer then owns this place.
    #[cold]
    pub(crate) fn end_turn(&self, turn: &Arc<Turn>) -> bool {
        let mut line = self.line.lock();
        match line.iter().position(|other| std::ptr::eq(&**other, &**turn)) {
            Some(place) => {
                // The *line* bit may stay set although the line is empty now. While all places are taken, a set bit
                // does no harm: the thread that gives the next place back clears the bit. If the number of places can
                // change, the caller of this function calls `hand`, which clears the bit.
                line.remove(place);
                false
            }
            None => turn.has_place.load(Ordering::Relaxed) == 1,
        }
    }

    /// Ends the turns of all issuers in line without giving them places, because the queue is shut.
    #[cold]
    pub(crate) fn refuse_line(&self) {
        let mut line = self.line.lock();
        let refused = std::mem::take(&mut *line);
        self.end_line(&line);
        drop(line);
        refused.iter().for_each(|turn| turn.over.set());
    }

    /// Takes a place for an item that was accepted earlier, even if no place is free.
    pub(crate) fn take_anyway(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives places back. If issuers wait in line, hands them the places that are free.
    #[inline]
    pub(crate) fn give_back(&self, max: u64, places: u64) {
        if self.leave(places) {
            self.hand(max, |_handed| ());
        }
    }

    /// Gives places back. Returns whether issuers wait in line.
    #[inline]
    pub(crate) fn leave(&self, places: u64) -> bool {
        Places::from_bits(self.word.fetch_sub(places, Ordering::Relaxed)).has_line()
    }

    /// Hands free places to the issuers in line. Before these issuers learn that they have places, calls `note` with
    /// the number of these issuers.
    #[cold]
    pub(crate) fn hand(&self, max: u64, note: impl FnOnce(u64)) {
        let mut handed = Vec::new();
        let mut line = self.line.lock();
        let hand = |word| Places::from_bits(word).hand(max).map(Places::into_bits);
        while !line.is_empty() && self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, hand).is_ok() {
            handed.extend(line.pop_front().inspect(|turn| turn.has_place.store(1, Ordering::Relaxed)));
        }
        self.end_line(&line);
        note(handed.len() as u64);
        drop(line);
        handed.iter().for_each(|turn| turn.over.set());
    }

    /// Returns whether a submission would get a place. The answer is only a hint.
    pub(crate) fn has_room(&self, max: u64) -> bool {
        Places::from_bits(self.word.load(Ordering::Relaxed)).has_room(max)
    }

    /// Returns the number of places that are taken. The number is only a hint.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        Places::from_bits(self.word.load(Ordering::Relaxed)).taken()
    }

    fn end_line(&self, line: &VecDeque<Arc<Turn>>) {
        if line.is_empty() {
            self.update(|word| (word.line_is_empty(), ()));
        }
    }

    fn update<A>(&self, transition: impl FnMut(Places) -> (Places, A)) -> A {
        super::update(&self.word, Ordering::Relaxed, Places::from_bits, Places::into_bits, transition)
    }
}

impl Turn {
    /// Returns the signal that is set when the turn is over.
    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.over
    }
}
