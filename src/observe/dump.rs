//! A snapshot in the format of the kernel's `wq_dump`.
//!
//! CPU sets are written as lists (`0-3,8`), whereas the kernel's tool writes hexadecimal masks. Lists stay readable
//! with many CPUs, and [`CpuSet`] and `taskset -c` can parse them.

use std::fmt;

use crate::policy::cpu_set::CpuSet;

use super::share::shares;
use super::snapshot::{
    PoolSnapshot, QueueKind, QueueSnapshot, ScopeSnapshot, ShardSnapshot, Snapshot, WorkerState,
};
use super::text::{For, Item, NAME, Name, Thread, heading, list};

/// The maximum number of CPU columns in one band of the table of queues. On a machine with more CPUs, the table
/// consists of several bands, one below the other.
const CPUS_PER_BAND: usize = 32;

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scopes.is_empty() {
            heading(f, "Affinity Scopes")?;
            writeln!(f, "unbound_cpus={}\n", self.unbound_cpus)?;
            for scope in &self.scopes {
                writeln!(f, "{scope}")?;
            }
        }
        let most = self.max_threads.map_or_else(String::new, |most| format!("of at most {most} "));
        heading(f, &format!("Worker Pools ({} {most}threads)", self.threads))?;
        pools(f, &self.pools)?;
        if !self.queues.is_empty() {
            writeln!(f)?;
            heading(f, "Workqueue CPU -> pool")?;
            matrix(f, self)?;
            rescuers(f, self)?;
            writeln!(f)?;
            heading(f, "Workqueue -> active/max_active")?;
            limits(f, &self.queues)?;
            if let (Some(pending), Some(most)) = (self.pending, self.max_pending) {
                writeln!(f, "{pending} of at most {most} items of all queues are pending")?;
            }
            if let (Some(pending), Some(most)) = (self.pending_bytes, self.max_pending_bytes) {
                writeln!(f, "{pending} of at most {most} bytes of pending items")?;
            }
            shares(f, &self.queues)?;
        }
        writeln!(f)?;
        circumstances(f, self)
    }
}

// Scopes. ---------------------------------------------------------------------------------------------------------

impl fmt::Display for ScopeSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.scope.to_string().to_uppercase();
        writeln!(f, "{name}{}", if self.is_default { " (default)" } else { "" })?;
        writeln!(f, "  nr_pods  {}", self.pods.len())?;
        let numbered = |values: Vec<String>| {
            (0..).zip(values).map(|(pod, value): (usize, _)| format!("[{pod}]={value}"))
        };
        let cpus = self.pods.iter().map(|pod| pod.cpus.to_string()).collect();
        list(f, "  pod_cpus", numbered(cpus))?;
        let node = |node: Option<usize>| node.map_or_else(|| "-1".into(), |node| node.to_string());
        let nodes = self.pods.iter().map(|pod| node(pod.node)).collect();
        list(f, "  pod_node", numbered(nodes))?;
        let pod_of = |cpu| self.pods.iter().position(|pod| pod.cpus.contains(cpu));
        let all = self.pods.iter().fold(CpuSet::new(), |all, pod| all.union(&pod.cpus));
        let pods = all.iter().filter_map(|cpu| Some(format!("[{cpu}]={}", pod_of(cpu)?)));
        list(f, "  cpu_pod ", pods)
    }
}

// Pools. ----------------------------------------------------------------------------------------------------------

/// The widths of the columns in the list of pools.
struct Widths {
    id: usize,
    users: usize,
    cpus: usize,
}

fn pools(f: &mut fmt::Formatter<'_>, pools: &[PoolSnapshot]) -> fmt::Result {
    let widest = |width: fn(&PoolSnapshot) -> usize| pools.iter().map(width).max().unwrap_or(0);
    let widths = Widths {
        id: id_width(pools),
        users: widest(|pool| pool.users.to_string().len()).max(2),
        cpus: widest(|pool| cpus_of(pool).len()),
    };
    for pool in pools {
        pool_line(f, pool, &widths)?;
        writeln!(f)?;
        let busy = pool.worker_details.iter().filter_map(|worker| Some((worker, worker.item.as_ref()?)));
        for (worker, item) in busy {
            writeln!(f, "    {} {} {}", Thread(worker), worker.state, Item(item))?;
        }
    }
    Ok(())
}

impl fmt::Display for PoolSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pool_line(f, self, &Widths { id: 2, users: 2, cpus: 0 })
    }
}

fn pool_line(f: &mut fmt::Formatter<'_>, pool: &PoolSnapshot, widths: &Widths) -> fmt::Result {
    let Widths { id, users, cpus } = *widths;
    let target = pool.target.map_or_else(|| "-".into(), |target| target.to_string());
    write!(
        f,
        "pool[{:0id$}] ref={:users$} nice={:3} idle/workers={:3}/{:3} {:cpus$} name={} running={} waking={} \
         pending={} target={target}",
        pool.id,
        pool.users,
        pool.nice,
        pool.idle,
        pool.workers,
        cpus_of(pool),
        pool.name,
        pool.running,
        pool.waking,
        pool.pending,
    )?;
    if pool.binding != pool.cpus {
        write!(f, " binding={}", pool.binding)?;
    }
    for (said, word) in [(pool.bh, " bh"), (pool.strict, " strict"), (pool.creating, " creating")] {
        f.write_str(if said { word } else { "" })?;
    }
    match pool.stalled_for {
        Some(time) => write!(f, " stalled={}", For(time)),
        None => Ok(()),
    }
}

fn cpus_of(pool: &PoolSnapshot) -> String {
    match pool.cpus.first() {
        Some(cpu) if pool.per_cpu => format!("cpu={cpu:3}"),
        _ => format!("cpus={}", pool.cpus),
    }
}

fn id_width(pools: &[PoolSnapshot]) -> usize {
    pools.iter().map(|pool| pool.id).max().unwrap_or(0).to_string().len().max(2)
}

impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Idle => "idle",
            Self::Waking => "waking",
            Self::Between => "between",
            Self::Running => "running",
            Self::MayBlock => "may_block",
            Self::Blocked => "blocked",
            Self::Asleep => "asleep",
            Self::Uncounted => "uncounted",
            Self::Hog => "hog",
            Self::Exiting => "exiting",
        })
    }
}

// Queues. ---------------------------------------------------------------------------------------------------------

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Managed => "managed",
            Self::PerCpu => "per_cpu",
            Self::Unbound => "unbound",
            Self::Ordered => "ordered",
            Self::Bh => "bh",
        })
    }
}

fn matrix(f: &mut fmt::Formatter<'_>, snapshot: &Snapshot) -> fmt::Result {
    let width = id_width(&snapshot.pools).max(snapshot.cpus.iter().last().unwrap_or(0).to_string().len());
    let cpus: Vec<usize> = snapshot.cpus.iter().collect();
    let bands: Vec<&[usize]> = cpus.chunks(CPUS_PER_BAND).collect();
    for (n, band) in bands.iter().enumerate() {
        let is_last = n + 1 == bands.len();
        let title = "[    workqueue \\ CPU";
        write!(f, "{title:0$}", NAME + 10)?;
        for cpu in *band {
            write!(f, " {cpu:width$}")?;
        }
        writeln!(f, "{}]", if is_last { format!(" {:>1$}", "dfl", width.max(3)) } else { String::new() })?;
        for queue in &snapshot.queues {
            write!(f, "{} {:9}", Name(&queue.name), kind_of(queue))?;
            let mut shards = queue.shards.iter().peekable();
            for cpu in *band {
                while shards.next_if(|shard| shard.cpu < *cpu).is_some() {}
                write_id(f, shards.next_if(|shard| shard.cpu == *cpu).map(|shard| shard.pool), width)?;
            }
            if is_last && queue.attrs.is_some() {
                write_id(f, queue.default_pool, width.max(3))?;
            }
            writeln!(f)?;
        }
    }
    Ok(())
}

fn kind_of(queue: &QueueSnapshot) -> String {
    let strict = queue.attrs.as_ref().is_some_and(|attrs| attrs.strict);
    format!("{}{}", queue.kind, if strict { ",S" } else { "" })
}

fn write_id(f: &mut fmt::Formatter<'_>, id: Option<usize>, width: usize) -> fmt::Result {
    match id {
        Some(id) => write!(f, " {id:width$}"),
        None => write!(f, " {:>width$}", "-"),
    }
}

fn rescuers(f: &mut fmt::Formatter<'_>, snapshot: &Snapshot) -> fmt::Result {
    let has = snapshot.queues.iter().filter_map(|queue| Some((queue, queue.rescuer.as_ref()?)));
    let rows: Vec<_> = has
        .map(|(queue, rescuer)| {
            let unbound = queue.attrs.as_ref().map_or_else(String::new, |attrs| attrs.cpus.to_string());
            let pid = rescuer.thread_id.map_or_else(|| "-".into(), |id| id.to_string());
            (queue, unbound, pid, rescuer.cpus.to_string())
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f)?;
    heading(f, "Workqueue -> rescuer")?;
    let unbound = rows.iter().map(|row| row.1.len()).max().unwrap_or(0).max("unbound_cpus".len());
    let cpus = rows.iter().map(|row| row.3.len()).max().unwrap_or(0).max("rescuer_cpus".len());
    writeln!(
        f,
        "{:NAME$} {:>unbound$} {:>8} {:>cpus$}]",
        "[    workqueue", "unbound_cpus", "pid", "rescuer_cpus"
    )?;
    for (queue, of_queue, pid, of_rescuer) in rows {
        writeln!(f, "{} {of_queue:>unbound$} {pid:>8} {of_rescuer:>cpus$}", Name(&queue.name))?;
    }
    Ok(())
}

fn limits(f: &mut fmt::Formatter<'_>, queues: &[QueueSnapshot]) -> fmt::Result {
    writeln!(f, "{:NAME$} {:>5} {:>5} {:>8} {:>8}]", "[    workqueue", "of", "max", "active", "inactive")?;
    for queue in queues {
        let max = queue.max_active.map_or_else(|| "-".into(), |max| max.to_string());
        let of = if queue.limited_as_a_whole { "all" } else { "cpu" };
        let row = format!("{} {of:>5} {max:>5} {:>8} {:>8}", Name(&queue.name), queue.active, queue.inactive);
        let on_cpus = queue.shards.iter().filter_map(|shard| on_cpu(shard, &max));
        let said = [(queue.frozen, "frozen"), (queue.draining, "draining")];
        let words = said.into_iter().filter(|(yes, _)| *yes).map(|(_, word)| word.to_owned());
        list(f, &row, words.chain(on_cpus))?;
    }
    Ok(())
}

/// Returns the counts of one CPU's active and waiting items, such as `[3]=256/256+7`, where 7 items wait for a slot.
/// Returns `None` if both counts are zero, or if the queue is limited as a whole.
fn on_cpu(shard: &ShardSnapshot, max: &str) -> Option<String> {
    let (active, inactive) = (shard.active?, shard.inactive?);
    let waiting = if inactive > 0 { format!("+{inactive}") } else { String::new() };
    (active + inactive > 0).then(|| format!("[{}]={active}/{max}{waiting}", shard.cpu))
}

// Facts about the system. -----------------------------------------------------------------------------------------

fn circumstances(f: &mut fmt::Formatter<'_>, snapshot: &Snapshot) -> fmt::Result {
    if snapshot.forked {
        writeln!(f, "the executor belongs to the process that this one was forked from")?;
    }
    write!(f, "undeclared blocking: detection {}", snapshot.detection)?;
    match &snapshot.detection_fallback {
        Some(why) => writeln!(f, " ({why})")?,
        None => writeln!(f)?,
    }
    if snapshot.portable {
        writeln!(
            f,
            "on this system workers have no CPU affinity and no nice levels: the system chooses their CPUs"
        )?;
    }
    if snapshot.nice_denied {
        writeln!(
            f,
            "nice levels were denied: such workers run at the executor's normal level or, if that was denied as \
             well, at that of the thread that started the manager"
        )?;
    }
    if snapshot.affinity_denied {
        writeln!(f, "CPU affinity was denied: the system chooses the CPUs of workers")?;
    }
    if snapshot.thread_limit_reached {
        writeln!(f, "the limit of threads was reached: work has waited for a thread")?;
    }
    if !snapshot.lost_cpus.is_empty() {
        writeln!(f, "lost CPUs: {}", snapshot.lost_cpus)?;
    }
    if let Some(quota) = snapshot.cpu_quota {
        writeln!(f, "CPU quota: {quota:.2}")?;
    }
    if snapshot.stalls > 0 {
        writeln!(f, "stalls reported: {}", snapshot.stalls)?;
    }
    Ok(())
}
