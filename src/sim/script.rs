//! What an item does, what a run records, and the steps that a thread is made of.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::class::Share;
use super::pool::{GateId, PoolId};
use crate::policy::concurrency::Reserved;
use crate::policy::crew::Rest;
use crate::policy::time::Time;

/// The index of an item in the workload.
pub(super) type ItemId = usize;

/// An item: where it is queued, and what its function does.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) gate: GateId,
    pub(super) script: Vec<Step>,
}

/// One step of an item's function.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Use the CPU for so long.
    Burn(Duration),
    /// Block for so long, under a guard.
    Sleep(Duration),
    /// Block for so long, and no guard says so.
    Nap(Duration),
    /// Enter or leave a guard, or one that says that the item may block.
    Guard(Guard),
    /// Queue another item.
    Queue(ItemId),
    /// Block until this flag is set, and no guard says so.
    Await(FlagId),
    /// Use the CPU until this flag is set.
    Spin(FlagId),
    /// Set this flag.
    Set(FlagId),
    /// Use the CPU for as long as this block of an issuer takes here.
    Hash,
}

/// What items wait for in their functions.
pub(super) type FlagId = usize;

/// What an item does to its guards. It may do so in any order; those of a kind that it has not entered it cannot leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guard {
    Block,
    Unblock,
    MayBlock,
    MayNotBlock,
}

/// Something that a timeline shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub(super) at: Time,
    pub(super) item: ItemId,
    pub(super) what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Starts,
    Sleeps,
    Wakes,
    Finishes,
}

/// What a thread does next. Each is atomic; those that lead to others put them on the thread's stack.
#[derive(Debug)]
pub(super) enum Op {
    // Steps of whoever queues an item or ends one.
    /// Ask the gate for a slot.
    Admit(ItemId),
    /// Be slow between two steps.
    Pause(Duration),
    /// Queue an item of a batch: nobody is told of it.
    Put(ItemId),
    /// A batch of so many was pushed: kick for all of them.
    KickMany(PoolId, usize),
    /// Verify a block, and send it again: of this issuer.
    NextBlock(usize),
    /// Put an item that has a slot on its pool's worklist.
    Push(ItemId),
    /// Put an item that has no slot on its gate's waiting list.
    List(ItemId),
    /// Tell the gate that the item is on the list.
    Listed(ItemId),
    /// A slot was handed over: start the first waiting item.
    Hand(GateId),
    /// The limit is changed.
    SetMax(GateId, usize),
    /// The limit was raised: start the first waiting item, if there is a slot for it.
    StartListed(GateId),
    /// Work was pushed: kick.
    Kick(PoolId),
    /// The running count fell: kick if there is work.
    Look(PoolId),
    /// A step of the exchange between sibling pools.
    Share(Share),
    /// Give a reservation to a worker.
    Wake(PoolId, Reserved),

    // Steps of a worker.
    /// A new worker has arrived.
    Arrive,
    /// It was woken.
    Woken,
    /// Begin, if still permitted.
    Start(Reserved),
    /// Pop an item.
    Take,
    /// Call the item's function.
    Begin(ItemId),
    /// Do the step of this number of the item's script.
    Script(usize),
    /// Use the CPU.
    Burn(Duration),
    /// Go to the tail of the run queue.
    Yield,
    /// Enter or leave a guard.
    Guard(Guard),
    /// Leave the running count.
    Leave,
    /// Be off the CPU for so long.
    Sleep(Duration),
    /// A sleep is over.
    Awake,
    /// Sleep until the flag is set.
    Await(FlagId),
    /// Use the CPU for a while more, unless the flag is set.
    Spin(FlagId),
    /// Set the flag.
    Set(FlagId),
    /// Guards that were not left end with the item.
    EndGuards,
    /// Join the running count.
    ComeBack,
    /// The item's function returned.
    Finish,
    /// Give the slot back.
    Complete(GateId),
    /// Decide what comes next, now that there may be more to do, or that nothing was found.
    Between { work: bool },
    /// Leave the running count and go idle, in one critical section.
    Retire,
    /// Go idle; it does not count already.
    GoIdle,
    /// Act on what the crew said.
    Rested(Rest),
    /// Sleep until somebody says what to do.
    Park,
    /// If a worker is asked to give way, an idle one of the pool leaves.
    Rests,
    /// Leave between two items, for the sake of another pool.
    GiveWay,
    /// Be gone.
    Exit,

    // Steps of a rescuer, beside those of a worker.
    /// Look whether it was called, and sleep if not.
    Called,
    /// Take an item of its own gate.
    Rescue,
    /// Leave the pool to itself.
    Relieve,
    /// Give a reservation up that nobody waits for.
    Drop(PoolId, Reserved),
}

impl Op {
    /// Does it finish what the step before began, so that the two are one unless the run is racy?
    ///
    /// Apart, they let two items of one gate swap, which the design permits where more than one may be
    /// active.
    pub(super) fn continues(&self) -> bool {
        matches!(
            self,
            Self::Push(_)
                | Self::Listed(_)
                | Self::Hand(_)
                | Self::Share(_)
                | Self::Wake(..)
                | Self::Between { work: false }
        )
    }
}
