//! A snapshot in the form of the kernel's `wq_dump`.

use std::fmt;

use super::snapshot::{PoolSnapshot, Snapshot};

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Worker Pools ({} threads)", self.threads)?;
        writeln!(f, "============")?;
        for pool in &self.pools {
            writeln!(f, "{pool}")?;
        }
        if self.forked {
            writeln!(f, "the executor belongs to the process that this one was forked from")?;
        }
        write!(f, "undeclared blocking: detection {}", self.detection)?;
        match &self.detection_fallback {
            Some(why) => writeln!(f, " ({why})")?,
            None => writeln!(f)?,
        }
        if self.portable {
            writeln!(
                f,
                "this system has no CPU affinity and no nice levels for workers: they run wherever it puts them"
            )?;
        }
        if self.nice_denied {
            writeln!(
                f,
                "nice levels were denied: such workers run at the executor's normal level or, if that was denied as \
                 well, at that of the thread that started the manager"
            )?;
        }
        if self.affinity_denied {
            writeln!(f, "CPU affinity was denied: workers run wherever the system puts them")?;
        }
        if !self.lost_cpus.is_empty() {
            writeln!(f, "lost CPUs: {}", self.lost_cpus)?;
        }
        if let Some(quota) = self.cpu_quota {
            writeln!(f, "CPU quota: {quota:.2}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PoolSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.target.map_or("none".into(), |target| target.to_string());
        write!(
            f,
            "pool[{}] nice={} idle/workers={}/{} running={} waking={} target={target} pending={} cpus={}",
            self.name, self.nice, self.idle, self.workers, self.running, self.waking, self.pending, self.cpus
        )?;
        if self.creating {
            write!(f, " creating")?;
        }
        for worker in &self.crew {
            write!(f, "\n    worker {:?}", worker)?;
        }
        Ok(())
    }
}
