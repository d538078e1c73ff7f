//! The register of waiting items. Debug builds keep the register so that they can refuse a wait that closes a cycle of
//! waiting items.
//!
//! An item is registered while it waits without a timeout. A wait for a one-shot that has a deadline and has not begun
//! ends at the deadline, because the waiting thread then cancels the one-shot. The register assumes that the one-shot's
//! deadline ends this wait, even if the one-shot belongs to a scope that the waiting item has opened. An item is also
//! registered while it has an open scope, because the item cannot end before the scope ends. Before a wait begins,
//! [`policy::waits`](crate::policy::waits) decides under the register's lock whether the wait would ever end. So a
//! cycle is found when the last of its waits is about to begin. The wait at the end of a scope is not checked, but each
//! spawn into the scope is checked. The register checks one other event: a waiting item is given a slot for its next
//! run. If the item is then stuck, the register logs a report, and the item keeps waiting. If a lowered limit makes a
//! wait endless, the register notices this only at a later check.
//!
//! **No false reports.** A wait is refused only if it would never end by itself. Only a cancel of an awaited item could
//! end a refused wait. The decision never rests on outdated facts, for these reasons:
//!
//! * Before a registered item ends, or returns from its wait, its worker takes the item out of the register under the
//!   register's lock. So while another thread decides under this lock, the worker still executes the same item. The
//!   item holds the same slots, and keeps its limiter, its queue and its target in memory.
//! * A wait can be over before the worker of the waiting item has noticed this. So the register keeps the target of
//!   each wait, and reads the target's present state. A one-shot that has ended, a signal that is set, or a flush that
//!   is over blocks no item.
//! * The counts of the limiters are read before the states of the targets. Between the two reads, slots can change
//!   hands, except for the slots of stuck items. If stuck items hold all slots of a limiter, and another item's state
//!   is then read as not begun, that item has no slot, and will not get one.
//! * A flush is registered after it has begun and has counted its items. The tickets for which the flush waits do not
//!   change, and a stuck item has not reported to the flush.
//! * The register knows an item by its address. An address is not reused while its item's function runs or a thread
//!   waits for the item. An item leaves the roll of its scope before it is over. After the end of an item, its worker
//!   may run a task's waker, which may wait for other items. While the waker waits, the worker's
//!   [own address](WorkerThread::outlives) stands for the ended item.
//!
//! **Forks.** A forked process has a register of its own. The child does not use the parent's register, because that
//! register names scopes whose frames end in the child without a wait for the items. A thread of the parent may also
//! have held the lock of that register at the fork.
#![allow(unsafe_code, reason = "an item that waits keeps in memory what it is registered with")]

use std::collections::BTreeMap;
use std::ptr::NonNull;

use crate::policy::admission::Admission;
use crate::policy::item::Instance;
use crate::policy::locks::Rank;
use crate::policy::waits::{Id, Need, Picture, Slots, Waiter};
use crate::protocol::flush::Flush;
use crate::protocol::one_shot::OneShotCell;
use crate::protocol::signal::Signal;
use crate::sys::fork::{Origin, PerProcess};
use crate::sys::machine;
use crate::sys::sync::{Mutex, MutexGuard};

use crate::engine::item::entry::{Entry, Header};
use crate::engine::item::work::WorkItem;
use crate::engine::queue::shard::Limiter;
use crate::engine::queue::workqueue::Queue;
use crate::engine::refusal::WaitError;
use crate::engine::user_code::report;
use crate::engine::worker::current::{Current, Executing, executing};
use crate::engine::worker::worker_thread::{self, WorkerThread};

/// Whether this build keeps the register.
const KEPT: bool = cfg!(debug_assertions);

static REGISTER: Register = Register(PerProcess::new());

/// The nodes of the register, keyed by the address of the worker. A thread that holds the register's lock takes these
/// locks only one at a time: the lock of a queue's flushes, of an item's slow-path state, or of a roll.
struct Register(PerProcess<Mutex<BTreeMap<usize, Node>>>);

impl Register {
    fn lock(&self) -> MutexGuard<'static, BTreeMap<usize, Node>> {
        self.0.get_or_init(|| Mutex::ranked(Rank::Waits, BTreeMap::new())).lock()
    }
}

/// The target of a wait.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// The end of a one-shot. `limiter` is the lane of the one-shot. If the one-shot has a deadline and has not begun,
    /// the wait ends at the deadline.
    OneShot { item: *const Header, limiter: *const Limiter, state: &'a OneShotCell, has_deadline: bool },
    /// A flush that has begun on this queue.
    Flush { queue: &'a Queue, flush: &'a Flush },
    /// The signal of a reusable item. The signal is set when a run that has begun ends, or when a submission ends.
    Work { item: &'a WorkItem, signal: &'a Signal },
}

impl Target<'_> {
    /// Tells a made-up machine (a simulation) the target of the calling thread's wait. The machine remembers the target
    /// until the returned value is dropped.
    #[inline]
    pub(super) fn says(&self) -> impl Sized + use<> {
        match *self {
            Target::OneShot { item, .. } => machine::waits_for_item(item.addr(), || {
                // SAFETY: the caller has a handle, which keeps the item in memory.
                let operations = unsafe { &*item }.operations;
                // SAFETY: an item's header has the functions for the item's own type, and the pointer is not null.
                let item_type = unsafe { (operations.item_type)(NonNull::new_unchecked(item.cast_mut())) };
                format!("item {}", item_type.name())
            }),
            Target::Flush { queue, .. } => {
                machine::waits_for_queue(queue.name(), || format!("the items of queue {:?}", queue.name()))
            }
            Target::Work { item, .. } => machine::waits_for_item(std::ptr::from_ref(item).addr(), || {
                format!("item {}", item.item_type.name())
            }),
        }
    }
}

/// An item that waits, has open scopes, or lends its thread to another item.
struct Node {
    current: Current,
    executing: Executing,
    scopes: Vec<*const Roll>,
    /// The target of the item's wait, if it waits. The target lives in the frame of the waiting function.
    target: Option<Target<'static>>,
    /// The address of the worker that executes another item on the same thread, if the thread is lent to that item.
    lent_to: Option<usize>,
}

// SAFETY: threads may share the objects to which a node points, and these objects stay in memory as long as the node
// is registered.
unsafe impl Send for Node {}

/// The items of a scope that have not ended. Each item is listed with its [`Need`], for which the item that opened the
/// scope waits. A forked process does not use the roll, because a thread of the parent may have held the roll's lock at
/// the fork.
#[derive(Debug)]
pub(crate) struct Roll {
    members: Mutex<Members>,
    origin: Origin,
}

#[derive(Default, Debug)]
struct Members {
    next: u64,
    by_number: BTreeMap<u64, Member>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    need: Need,
    /// The address of the item, or 0 until the item's cell is made.
    item: Id,
}

/// Takes a wait out of the register when this value is dropped.
pub(crate) struct Registered(usize);

/// Takes a lent thread out of the register when this value is dropped. The field is the address of the worker whose
/// item lends its thread.
pub(crate) struct Lent(usize);

/// Takes a scope out of the register when this value is dropped.
pub(crate) struct OpenScope<'roll> {
    worker: Option<usize>,
    roll: &'roll Roll,
}

/// Registers a wait without a timeout. Refuses and logs a wait that would never end.
pub(super) fn register(target: Target<'_>) -> Result<Option<Registered>, WaitError> {
    let Some((worker, current)) = whose() else { return Ok(None) };
    // SAFETY: only the lifetime is changed. The target is taken out of the register before the caller's frame ends,
    // either by the drop of `Registered` or further down in this function.
    let target = unsafe { std::mem::transmute::<Target<'_>, Target<'static>>(target) };
    let mut nodes = REGISTER.lock();
    nodes.entry(worker).or_insert_with(|| Node::new(current)).target = Some(target);
    // A lowered limit may keep a scope of the caller open. The caller is then stuck, although this wait ends.
    let report = report_if(&nodes, |n, node, is_blocked| {
        n == worker && node.needs_of_target(&nodes).into_iter().any(is_blocked)
    });
    let Some(report) = report else { return Ok(Some(Registered(worker))) };
    take_out(&mut nodes, worker, |node| node.target = None);
    drop(nodes);
    report!(error, "a wait is refused because it would never end: {report}");
    Err(WaitError::WouldDeadlock)
}

impl Drop for Registered {
    fn drop(&mut self) {
        take_out(&mut REGISTER.lock(), self.0, |node| node.target = None);
    }
}

/// Registers that the calling item lends its thread to the item of this worker, and cannot end before that item. No
/// check is needed, because the worker's item does not wait yet.
pub(crate) fn lends_to(worker: &WorkerThread) -> Option<Lent> {
    let (outer, current) = whose()?;
    let lent_to = Some(std::ptr::from_ref(worker).addr());
    REGISTER.lock().entry(outer).or_insert_with(|| Node::new(current)).lent_to = lent_to;
    Some(Lent(outer))
}

impl Drop for Lent {
    fn drop(&mut self) {
        take_out(&mut REGISTER.lock(), self.0, |node| node.lent_to = None);
    }
}

/// Registers a scope that the calling item opens. The calling item does not end before the members of the roll.
pub(crate) fn open_scope(roll: &Roll) -> OpenScope<'_> {
    let whose = whose();
    if let Some((worker, current)) = whose {
        REGISTER.lock().entry(worker).or_insert_with(|| Node::new(current)).scopes.push(roll);
    }
    OpenScope { worker: whose.map(|(worker, _)| worker), roll }
}

impl Drop for OpenScope<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.worker {
            let ended = |scope: &*const Roll| !std::ptr::eq(*scope, self.roll);
            take_out(&mut REGISTER.lock(), worker, |node| node.scopes.retain(ended));
        }
    }
}

/// Logs a report if this item is stuck. A worker calls this after it has given the running item the slot of its next
/// run, because the item may be waiting for another item that needs this slot.
pub(crate) fn slot_was_kept(item: Id) {
    if !KEPT {
        return;
    }
    let report = report_if(&REGISTER.lock(), |_, node, _| node.current.item.addr() == item);
    if let Some(report) = report {
        report!(error, "an item that was given the slot of its next run would never end: {report}");
    }
}

impl Roll {
    /// Makes the empty roll of a scope whose queue belongs to the process of this origin.
    pub(crate) fn new(origin: Origin) -> Self {
        Self { members: Mutex::default(), origin }
    }

    /// Adds to the roll an item that needs a slot of this lane. Returns the item's number. If the item that opened the
    /// scope would be stuck because of the new item, logs a report, and returns `None`.
    pub(crate) fn enlist(&self, limiter: *const Limiter) -> Option<u64> {
        let need = Need::Slot(limiter.addr());
        let number = self.change(|members| {
            members.next += 1;
            members.by_number.insert(members.next, Member { need, item: 0 });
            members.next
        });
        let Some(report) = self.report_if_blocked(need) else { return Some(number) };
        // The logger is user code, and may wait, so the refused item first leaves the roll.
        self.strike(number);
        report!(error, "an item of a scope is refused because the scope would never end: {report}");
        None
    }

    /// Returns a report if the item that opened the scope is stuck, and stuck items block this need of the scope.
    fn report_if_blocked(&self, need: Need) -> Option<String> {
        if !KEPT {
            return None;
        }
        report_if(&REGISTER.lock(), |_, node, is_blocked| {
            node.scopes.iter().any(|scope| std::ptr::eq(*scope, self)) && is_blocked(need)
        })
    }

    /// Notes that the member with this number is the item at this address. The item is not queued yet.
    pub(crate) fn is_made(&self, number: u64, item: Id) {
        self.change(|members| members.by_number.get_mut(&number).map(|member| member.item = item));
    }

    /// Notes that a worker executes the member with this number, which is the item at this address.
    pub(crate) fn begins(&self, number: u64, item: Id) {
        self.change(|members| members.by_number.insert(number, Member { need: Need::End(item), item }));
    }

    /// Removes from the roll a member that is over.
    pub(crate) fn strike(&self, number: u64) {
        self.change(|members| members.by_number.remove(&number));
    }

    fn change<R: Default>(&self, change: impl FnOnce(&mut Members) -> R) -> R {
        if KEPT && !self.origin.is_forked() { change(&mut self.members.lock()) } else { R::default() }
    }
}

/// Returns the address of the calling worker, and the item for which the worker works. Returns `None` if the caller
/// works for no item, or if this build keeps no register.
fn whose() -> Option<(usize, Current)> {
    if !KEPT {
        return None;
    }
    worker_thread::with_current(|worker| {
        let worker = worker?;
        Some((std::ptr::from_ref::<WorkerThread>(worker).addr(), worker.current()?))
    })
}

fn take_out(
    nodes: &mut MutexGuard<'_, BTreeMap<usize, Node>>,
    worker: usize,
    change: impl FnOnce(&mut Node),
) {
    if let Some(node) = nodes.get_mut(&worker) {
        change(node);
        if node.target.is_none() && node.scopes.is_empty() && node.lent_to.is_none() {
            nodes.remove(&worker);
        }
    }
}

/// Returns a report if one of the nodes that `is_asked_for` selects is stuck. The report tells which item waits for
/// which other item. The third argument of `is_asked_for` tells whether stuck items block a need.
fn report_if(
    nodes: &BTreeMap<usize, Node>,
    is_asked_for: impl Fn(usize, &Node, &dyn Fn(Need) -> bool) -> bool,
) -> Option<String> {
    let picture = picture(nodes);
    let stuck = picture.stuck();
    let is_blocked = |need| picture.blocks(need, &stuck);
    let is_asked_for = |worker: &usize, node| is_asked_for(*worker, node, &is_blocked);
    let mut asked =
        nodes.iter().enumerate().filter(|(n, (worker, node))| stuck[*n] && is_asked_for(worker, node));
    let (from, _) = asked.next()?;
    let all: Vec<&Node> = nodes.values().collect();
    let chain = picture.chain(from, &stuck);
    let names: Vec<String> = chain.iter().map(|n| all[*n].name()).collect();
    Some(format!("{}, which waits for one of these", names.join(", which waits for ")))
}

fn picture(nodes: &BTreeMap<usize, Node>) -> Picture {
    let mut picture = Picture::default();
    for node in nodes.values() {
        let mut holds = vec![node.executing.limiter.addr()];
        picture.limiters.entry(holds[0]).or_insert_with(|| slots(node.limiter().cell.load()));
        let lane = node.current.lane().addr();
        if lane != holds[0] {
            // This lane is a bh context, which has one slot, and the item holds that slot.
            holds.push(lane);
            picture.limiters.insert(lane, Slots { active: 1, max: 1 });
        }
        let kept = node.current.with_kept(|entry| {
            let limiter = entry.shard().limiter();
            (std::ptr::from_ref(limiter).addr(), slots(limiter.cell.load()))
        });
        if let Some((limiter, slots)) = kept {
            holds.push(limiter);
            picture.limiters.entry(limiter).or_insert(slots);
        }
        picture.waiters.push(Waiter { item: node.current.item.addr(), holds, needs: Vec::new() });
    }
    // The needs are read only after all limiters, for the reason that the module's documentation gives.
    for (waiter, node) in picture.waiters.iter_mut().zip(nodes.values()) {
        waiter.needs = node.needs(nodes);
    }
    picture
}

fn slots(word: Admission) -> Slots {
    Slots { active: word.active(), max: word.max() }
}

impl Node {
    fn new(current: Current) -> Self {
        Self { current, executing: executing(), scopes: Vec::new(), target: None, lent_to: None }
    }

    fn limiter(&self) -> &Limiter {
        // SAFETY: the item's entry is not completed while the node is registered.
        unsafe { &*self.executing.limiter }
    }

    fn name(&self) -> String {
        format!("{} of queue {:?}", self.executing.item_type(), self.current.queue().name())
    }

    /// Returns what must happen before the item can end.
    fn needs(&self, nodes: &BTreeMap<usize, Self>) -> Vec<Need> {
        // SAFETY: a scope stays open, and its roll stays in memory, as long as the roll is in the list.
        let rolls = self.scopes.iter().map(|roll| unsafe { &**roll });
        let members =
            rolls.flat_map(|roll| roll.members.lock().by_number.values().copied().collect::<Vec<_>>());
        // If this item joins a member, and the member's deadline will cancel the member, that member does not keep the
        // scope open.
        let is_cancelled_in_time = |member: &Member| match self.target {
            Some(Target::OneShot { item, state, has_deadline: true, .. }) => {
                member.item == item.addr() && !state.load().has_begun()
            }
            _ => false,
        };
        // The needs of the wait come first, so that the chain in a report follows the wait, and not a scope.
        let mut needs = self.needs_of_target(nodes);
        needs.extend(members.filter(|member| !is_cancelled_in_time(member)).map(|member| member.need));
        // The item's thread may be lent to the item of another worker. The register knows the other worker's item only
        // while that worker is registered.
        let inner = self.lent_to.and_then(|inner| nodes.get(&inner));
        needs.extend(inner.map(|inner| Need::End(inner.current.item.addr())));
        needs
    }

    /// Returns what must happen before the item's present wait ends.
    fn needs_of_target(&self, nodes: &BTreeMap<usize, Self>) -> Vec<Need> {
        let mut needs = Vec::new();
        match self.target {
            None => {}
            Some(Target::OneShot { item, limiter, state, has_deadline }) => {
                let state = state.load();
                if state.has_begun() {
                    needs.push(Need::End(item.addr()));
                } else if !state.is_finished() && !has_deadline {
                    needs.push(Need::Slot(limiter.addr()));
                }
            }
            Some(Target::Flush { queue, flush }) => {
                let waits_for = |ticket| queue.flush.waits_for(flush, ticket);
                let in_the_way = nodes.values().filter(|node| {
                    // `with_kept` calls this closure under the lock of the slow-path state, and a thread that holds
                    // this lock must not take the lock of the flushes. So the closure only returns the ticket, and does
                    // not call `waits_for`, which takes the lock of the flushes.
                    let ticket_of =
                        |entry: &Entry| std::ptr::eq(entry.shard().queue(), queue).then(|| entry.ticket());
                    (std::ptr::eq(node.current.queue(), queue) && waits_for(node.executing.ticket))
                        || node.current.with_kept(ticket_of).flatten().is_some_and(waits_for)
                });
                needs.extend(in_the_way.map(|node| Need::End(node.current.item.addr())));
            }
            Some(Target::Work { item, signal }) => needs.extend(need_of_work(item, signal, nodes)),
        }
        needs
    }
}

/// Returns what must happen before this signal of a reusable item is set.
fn need_of_work(item: &WorkItem, signal: &Signal, nodes: &BTreeMap<usize, Node>) -> Option<Need> {
    let instance = item.cell.instance_of(signal);
    let need = match instance {
        Instance::None => None,
        // The item's present run must end first, even if the target is the next run.
        _ if item.cell.load().is_running() => Some(Need::End(std::ptr::from_ref(item).addr())),
        // The awaited run has just ended.
        Instance::Running => None,
        Instance::Pending => {
            // If there is a timer, a thread may be firing it, or the timer may be held during a drain.
            let lane = item.cell.timer().map(|timer| timer.lane()).or_else(|| {
                let home = item.cell.load().home();
                nodes.values().find_map(|node| node.current.lane_of(home))
            });
            lane.map(|lane| Need::Slot(lane.addr()))
        }
    };
    // A later submission may have replaced the awaited one since the first read. The need may then be that of the later
    // submission, and is ignored.
    need.filter(|_| item.cell.instance_of(signal) == instance)
}
