//! The scripts of items, the events that a run records, and the steps of threads.

#![forbid(unsafe_code)]

use std::time::Duration;

use super::class::Share;
use super::pool::{GateId, PoolId};
use crate::policy::concurrency::Reserved;
use crate::policy::crew::Rest;
use crate::policy::time::Time;

/// The index of an item in the workload.
pub(super) type ItemId = usize;

/// An item: the gate that it is queued to, and the script of its function.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) gate: GateId,
    pub(super) script: Vec<Step>,
}

/// One step of an item's function.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Use the CPU for this time.
    Burn(Duration),
    /// Block for this time, in a guard.
    Sleep(Duration),
    /// Block for this time, without a guard.
    Nap(Duration),
    /// Enter or leave a guard.
    Guard(Guard),
    /// Queue another item.
    Queue(ItemId),
    /// Block until this flag is set, without a guard.
    Await(FlagId),
    /// Use the CPU until this flag is set.
    Spin(FlagId),
    /// Set this flag.
    Set(FlagId),
    /// Hash this block of an issuer: use the CPU for the time that it costs here.
    Hash,
}

/// The number of a flag that items set and wait for.
pub(super) type FlagId = usize;

/// Enters or leaves a guard, in any order. Leaving a guard of a kind that the item is not in has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guard {
    Block,
    Unblock,
    MayBlock,
    MayNotBlock,
}

/// An event of a timeline.
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

/// A step of a thread, which is atomic. A step pushes the steps that follow from it onto the thread's stack.
#[derive(Debug)]
pub(super) enum Op {
    // Steps of outsiders, and of workers whose item queues another one, ends, or blocks.
    /// Ask the gate for a slot.
    Admit(ItemId),
    /// Lose this time between two steps.
    Pause(Duration),
    /// Queue an item of a batch, without a kick.
    Put(ItemId),
    /// Kick for a batch of this many items that was pushed.
    KickMany(PoolId, usize),
    /// Verify the next block of this issuer, and send it again.
    NextBlock(usize),
    /// Put an item that has a slot on its pool's worklist.
    Push(ItemId),
    /// Put an item that has no slot on its gate's waiting list.
    List(ItemId),
    /// Tell the gate that the item is on the list.
    Listed(ItemId),
    /// A slot was handed over: start the first waiting item.
    Hand(GateId),
    /// Change the limit of a gate.
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
    /// Join the crew, as a new worker.
    Arrive,
    /// Tell the crew that this worker was woken.
    Woken,
    /// Join the running count, if still permitted.
    Start(Reserved),
    /// Pop an item.
    Take,
    /// Call the item's function.
    Begin(ItemId),
    /// Do the step with this number of the item's script.
    Script(usize),
    /// Use the CPU.
    Burn(Duration),
    /// Go to the tail of the run queue.
    Yield,
    /// Enter or leave a guard.
    Guard(Guard),
    /// Leave the running count.
    Leave,
    /// Leave the CPU for this time.
    Sleep(Duration),
    /// Record the end of a sleep.
    Awake,
    /// Sleep until the flag is set.
    Await(FlagId),
    /// Burn, yield and check again, until the flag is set.
    Spin(FlagId),
    /// Set the flag.
    Set(FlagId),
    /// Leave the guards that the item has not left.
    EndGuards,
    /// Join the running count again.
    ComeBack,
    /// Return from the item's function.
    Finish,
    /// Give the slot back.
    Complete(GateId),
    /// Decide between the next item and rest. `work` is false if the worker has found none.
    Between { work: bool },
    /// Leave the running count and go idle, in one critical section.
    Retire,
    /// Go idle, having left the running count already.
    GoIdle,
    /// Act on the crew's answer.
    Rested(Rest),
    /// Sleep until a notice comes.
    Park,
    /// If a worker is asked to give way, let an idle one of the pool leave.
    Rests,
    /// Leave between two items, so that another pool gets a thread.
    GiveWay,
    /// End the thread.
    Exit,

    // Steps of a rescuer, beside those of a worker.
    /// Check whether it was called, and sleep if not.
    Called,
    /// Take an item of its own gate.
    Rescue,
    /// Stop helping the pool.
    Relieve,
    /// Give up a reservation that is not needed any more.
    Drop(PoolId, Reserved),
}

impl Op {
    /// Returns whether this step follows the one before without a gap, unless the run is racy.
    ///
    /// With a gap, two items of one gate may swap. The design permits that where more than one item may be active.
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
