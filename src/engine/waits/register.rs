//! The register of items that wait, kept in debug builds: a wait that closes a cycle among them is refused.
//!
//! An item is registered while it waits without a timeout, and from the opening of a scope to its end, since it cannot
//! end before that. Before a wait begins, [`policy::waits`](crate::policy::waits) is asked, under the register's lock,
//! whether it would ever end; so every cycle of waits is found by the last one that closes it, and each of them may
//! be that one but the end of a scope. What makes no wait of its own is not asked for: if a limit is lowered, only who
//! waits later learns of it. Where an item is stuck because of a slot that it was given while it waited, that is
//! logged, and it goes on waiting.
//!
//! **No false reports.** A wait is refused only if it would never end, unless somebody outside cancels what is waited
//! for. Nothing that the answer is made of can be out of date:
//!
//! * A registered item cannot end or go on before it has taken itself out, which needs the lock. So whom the register
//!   names still executes the same item, holds the same slots, and keeps its gate, its queue and what it waits for
//!   in place.
//! * It may have been *answered* already, and not have noticed. So the register does not say whether somebody waits,
//!   but what for, and that is asked for its present state: a one-shot that has ended, a signal that is set, or a
//!   flush that is over is in nobody's way.
//! * The counts of the gates are read before these states. Only slots of items that are stuck do not change; so if
//!   these were all slots of a gate, an item that has not begun by then had none, and will get none.
//! * A flush has begun, and has counted what it waits for, before it is registered. Which tickets that includes does not
//!   change, and an item that is stuck has not reported.
//! * An item is told by its address, which nobody else has while its worker works for it, or anybody waits for it.
//!
//! **Forks.** A forked process has a register of its own. The nodes of the parent's name scopes whose frames end in the child
//! without their items, and one of the parent's threads may have held the lock.
#![allow(unsafe_code, reason = "an item that waits keeps in place what it is registered with")]

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::policy::admission::Admission;
use crate::policy::flush::Ticket;
use crate::policy::waits::{Id, Need, Picture, Slots, Waiter};
use crate::sys::fork::PerProcess;
use crate::sys::sync::{Mutex, MutexGuard};

use super::super::context::Current;
use super::super::entry::Entry;
use super::super::item_type::ItemType;
use super::super::refusal::WaitError;
use super::super::shard::Gate;
use super::super::user_code::report;
use super::super::worker::{self, WorkerThread};
use super::Target;

/// Is a register kept?
const KEPT: bool = cfg!(debug_assertions);

static REGISTER: Register = Register(PerProcess::new());

/// By the address of the worker. Its lock takes, inside, those of a flush, of an item's ledger, and of a roll.
struct Register(PerProcess<Mutex<BTreeMap<usize, Node>>>);

impl Register {
    fn lock(&self) -> MutexGuard<'static, BTreeMap<usize, Node>> {
        self.0.get_or_init(|| Mutex::new(BTreeMap::new())).lock()
    }
}

thread_local! {
    /// The item that this worker executes.
    static EXECUTING: Cell<Executing> = const {
        Cell::new(Executing { item_type: None, gate: std::ptr::null(), ticket: None })
    };
}

#[derive(Clone, Copy)]
struct Executing {
    /// `None` before the first one.
    item_type: Option<&'static ItemType>,
    /// In which it holds a slot. For an item in a bh context, that is not its lane.
    gate: *const Gate,
    ticket: Option<Ticket>,
}

/// An item that cannot end before something else.
struct Node {
    current: Current,
    executing: Executing,
    scopes: Vec<*const Roll>,
    /// What it waits for. Lives in the frame of the function that waits.
    target: Option<Target<'static>>,
}

// SAFETY: what a node points to is shared by threads, and stays in place as long as the node is registered.
unsafe impl Send for Node {}

/// The items of a scope.
#[derive(Default, Debug)]
pub(crate) struct Roll(Mutex<Members>);

#[derive(Default, Debug)]
struct Members {
    next: u64,
    by_number: BTreeMap<u64, Need>,
}

/// Takes a wait out of the register.
pub(crate) struct Registered(usize);

impl Executing {
    fn item_type(&self) -> &'static str {
        self.item_type.map_or("", ItemType::name)
    }
}

/// Takes a scope out of the register.
pub(crate) struct OpenScope<'roll> {
    worker: Option<usize>,
    roll: &'roll Roll,
}

/// The calling worker begins to work for an entry.
#[inline]
pub(crate) fn begins(entry: &Entry, item_type: &'static ItemType) {
    if KEPT {
        EXECUTING.set(Executing {
            item_type: Some(item_type),
            gate: entry.shard().gate(),
            ticket: entry.ticket(),
        });
    }
}

/// The type of the item that the calling worker executes, in a debug build.
pub(crate) fn item_type() -> &'static str {
    EXECUTING.get().item_type()
}

/// Registers a wait without a timeout, unless it would never end.
pub(super) fn register(target: Target<'_>) -> Result<Option<Registered>, WaitError> {
    let Some((worker, current)) = whose() else { return Ok(None) };
    // SAFETY: only the lifetime is changed. The node is taken out before the caller's frame ends: by `Registered`, or
    // here.
    let target = unsafe { std::mem::transmute::<Target<'_>, Target<'static>>(target) };
    let mut nodes = REGISTER.lock();
    nodes.entry(worker).or_insert_with(|| Node::new(current)).target = Some(target);
    let Some(report) = report_if(&nodes, |n, _| *n == worker) else { return Ok(Some(Registered(worker))) };
    take_out(&mut nodes, worker, |node| node.target = None);
    drop(nodes);
    report!(error, "a wait is refused, it would never end: {report}");
    Err(WaitError::WouldDeadlock)
}

impl Drop for Registered {
    fn drop(&mut self) {
        take_out(&mut REGISTER.lock(), self.0, |node| node.target = None);
    }
}

/// The calling item opens a scope: it does not end before the members of the roll.
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

/// Is an item that has opened this scope stuck, now that the roll has one more member?
pub(crate) fn closes_cycle(roll: &Roll) -> bool {
    if !KEPT {
        return false;
    }
    let has_opened = |_: &usize, node: &Node| node.scopes.iter().any(|scope| std::ptr::eq(*scope, roll));
    let report = report_if(&REGISTER.lock(), has_opened);
    if let Some(report) = &report {
        report!(error, "an item of a scope is refused, the scope would never end: {report}");
    }
    report.is_some()
}

/// An item that is being executed was given the slot of its next run. It may be waiting for an item that needs it.
pub(crate) fn slot_was_kept() {
    if !KEPT {
        return;
    }
    let report = report_if(&REGISTER.lock(), |_, _| true);
    if let Some(report) = report {
        report!(error, "a wait will never end, because of a slot that was given meanwhile: {report}");
    }
}

impl Roll {
    /// An item comes that needs a slot of this gate.
    pub(crate) fn enlist(&self, gate: *const Gate) -> u64 {
        self.change(|members| {
            members.next += 1;
            members.by_number.insert(members.next, Need::Slot(gate.addr()));
            members.next
        })
    }

    /// The member is executed, as this item.
    pub(crate) fn begins(&self, number: u64, item: Id) {
        self.change(|members| members.by_number.insert(number, Need::End(item)));
    }

    /// The member is over.
    pub(crate) fn strike(&self, number: u64) {
        self.change(|members| members.by_number.remove(&number));
    }

    fn change<R: Default>(&self, change: impl FnOnce(&mut Members) -> R) -> R {
        if KEPT { change(&mut self.0.lock()) } else { R::default() }
    }
}

/// The worker that calls, and what it works for.
fn whose() -> Option<(usize, Current)> {
    if !KEPT {
        return None;
    }
    worker::with_current(|worker| {
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
        if node.target.is_none() && node.scopes.is_empty() {
            nodes.remove(&worker);
        }
    }
}

/// Is one of these nodes stuck? Then who waits for whom, in words.
fn report_if(nodes: &BTreeMap<usize, Node>, is_asked_for: impl Fn(&usize, &Node) -> bool) -> Option<String> {
    let picture = picture(nodes);
    let stuck = picture.stuck();
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
        let mut holds = vec![node.executing.gate.addr()];
        picture.gates.entry(holds[0]).or_insert_with(|| slots(node.gate().cell.load()));
        let lane = node.current.gate.addr();
        if lane != holds[0] {
            // A bh context: a lane of one, which the item is in.
            holds.push(lane);
            picture.gates.insert(lane, Slots { active: 1, max: 1 });
        }
        let kept = node.current.with_kept(|entry| {
            let gate = entry.shard().gate();
            (std::ptr::from_ref(gate).addr(), slots(gate.cell.load()))
        });
        if let Some((gate, slots)) = kept {
            holds.push(gate);
            picture.gates.entry(gate).or_insert(slots);
        }
        picture.waiters.push(Waiter { item: node.current.item.addr(), holds, needs: Vec::new() });
    }
    // Only now, when all gates have been read.
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
        Self { current, executing: EXECUTING.get(), scopes: Vec::new(), target: None }
    }

    fn gate(&self) -> &Gate {
        // SAFETY: the item's entry is not completed while its worker waits, and so while the node is registered.
        unsafe { &*self.executing.gate }
    }

    fn name(&self) -> String {
        // SAFETY: as above.
        let queue = unsafe { &*self.current.queue };
        format!("{} of queue {:?}", self.executing.item_type(), queue.name())
    }

    fn needs(&self, nodes: &BTreeMap<usize, Self>) -> Vec<Need> {
        // SAFETY: a scope is open as long as it is in the list.
        let rolls = self.scopes.iter().map(|roll| unsafe { &**roll });
        let mut needs: Vec<Need> =
            rolls.flat_map(|roll| roll.0.lock().by_number.values().copied().collect::<Vec<_>>()).collect();
        match self.target {
            None => {}
            Some(Target::OneShot { item, gate, state }) => {
                let state = state.load();
                if state.has_begun() {
                    needs.push(Need::End(item.addr()));
                } else if !state.is_finished() {
                    needs.push(Need::Slot(gate.addr()));
                }
            }
            Some(Target::Flush { queue, flush }) => {
                let waits_for = |ticket| queue.flush.waits_for(flush, ticket);
                let in_the_way = nodes.values().filter(|node| {
                    // The lock of the flushes is not taken inside an item's, but the other way round.
                    let ticket_of =
                        |entry: &Entry| std::ptr::eq(entry.shard().queue(), queue).then(|| entry.ticket());
                    (std::ptr::eq(node.current.queue, queue) && waits_for(node.executing.ticket))
                        || node.current.with_kept(ticket_of).flatten().is_some_and(waits_for)
                });
                needs.extend(in_the_way.map(|node| Need::End(node.current.item.addr())));
            }
            Some(Target::Work { item, signal }) if !signal.is_set() => {
                let state = item.cell.load();
                if state.is_running() {
                    needs.push(Need::End(std::ptr::from_ref(item).addr()));
                } else if state.is_pending_on_list() {
                    // SAFETY: as in `gate`.
                    let queues = nodes.values().map(|node| unsafe { &*node.current.queue });
                    let lane = queues.filter_map(|queue| queue.lane_of(state.home())).next();
                    needs.extend(lane.map(|lane| Need::Slot(lane.addr())));
                }
            }
            Some(Target::Work { .. }) => {}
        }
        needs
    }
}
