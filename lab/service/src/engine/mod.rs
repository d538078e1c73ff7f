//! The engines. All engines admit the same number of requests, shed (reject) further requests, and do the same work.
//! Each engine is set up as its documentation advises experienced users.

mod cmwq;
mod rayon;
mod tokio;

use std::fmt;
use std::sync::Arc;

use ::tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Failure;
use crate::setup::{self, Limit};
use crate::work::Work;

/// The name of an engine. The engines whose names end in `-nice` give the threads that do the work a nice level, so
/// that the threads of the HTTP server have precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) kind: Kind,
    pub(crate) nice: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cmwq,
    Tokio,
    Rayon,
}

impl Name {
    pub(crate) const ALL: [Self; 6] = [
        Self { kind: Kind::Cmwq, nice: false },
        Self { kind: Kind::Cmwq, nice: true },
        Self { kind: Kind::Tokio, nice: false },
        Self { kind: Kind::Tokio, nice: true },
        Self { kind: Kind::Rayon, nice: false },
        Self { kind: Kind::Rayon, nice: true },
    ];

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|name| name.to_string() == text);
        found.ok_or_else(|| {
            format!(
                "there is no engine {text}; there are {}",
                Self::ALL.map(|name| name.to_string()).join(", ")
            )
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Cmwq => "cmwq",
            Kind::Tokio => "tokio",
            Kind::Rayon => "rayon",
        })?;
        f.write_str(if self.nice { "-nice" } else { "" })
    }
}

/// The error of a request that is shed. The service answers it with status 503.
#[derive(Debug)]
pub(crate) struct Busy;

/// An engine that runs.
pub(crate) enum Engine {
    Cmwq(cmwq::Engine),
    Tokio(tokio::Engine),
    Rayon(rayon::Engine),
}

impl Engine {
    pub(crate) fn start(name: Name) -> Result<Self, Failure> {
        let nice = name.nice.then(|| setup::level(setup::NICE));
        Ok(match name.kind {
            Kind::Cmwq => Self::Cmwq(cmwq::Engine::start(nice)?),
            Kind::Tokio => Self::Tokio(tokio::Engine::start(nice)?),
            Kind::Rayon => Self::Rayon(rayon::Engine::start(nice)?),
        })
    }

    /// Admits the work and awaits its result, or sheds the work.
    pub(crate) async fn run(&self, work: Work) -> Result<u64, Busy> {
        match self {
            Self::Cmwq(engine) => engine.run(work).await,
            Self::Tokio(engine) => engine.run(work).await,
            Self::Rayon(engine) => engine.run(work).await,
        }
    }
}

/// Two semaphores that admit requests. `admitted` decides which requests are shed, and the admitted requests wait for
/// `running`.
struct Gate {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

/// The semaphore places of a request. Dropping this value gives them back.
struct Places {
    _admitted: OwnedSemaphorePermit,
    _running: Option<OwnedSemaphorePermit>,
}

impl Gate {
    fn new(limit: Limit) -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        Self { admitted: semaphore(limit.admitted), running: semaphore(limit.running) }
    }

    /// Admits a request that waits outside of this gate.
    fn admit(&self) -> Result<Places, Busy> {
        let admitted = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| Busy)?;
        Ok(Places { _admitted: admitted, _running: None })
    }

    /// Admits a request, and waits until it may run.
    async fn enter(&self) -> Result<Places, Busy> {
        let places = self.admit()?;
        let running = Arc::clone(&self.running).acquire_owned().await.map_err(|_| Busy)?;
        Ok(Places { _running: Some(running), ..places })
    }
}

/// Gives the calling thread a nice level. If the system does not permit that, the thread keeps its present level.
fn be_nice(level: i32) {
    let _ = rustix::process::setpriority_process(None, level);
}

#[cfg(test)]
mod tests {
    use super::{Engine, Name};
    use crate::setup::{block_limit, compute_limit};
    use crate::work::Work;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn names_are_parsed() {
        for name in Name::ALL {
            assert_eq!(Name::parse(&name.to_string()), Ok(name));
        }
        assert!(Name::parse("threads").is_err());
    }

    /// Far more requests than are admitted come at the same time. The engine sheds only the requests beyond the bound.
    #[test]
    fn every_engine_sheds_beyond_the_same_bound() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        for name in Name::ALL {
            let engine = Arc::new(Engine::start(name).unwrap());
            for (work, limit) in [
                (Work::Compute { hashes: 20 }, compute_limit()),
                (Work::Block { time: Duration::from_millis(500) }, block_limit()),
            ] {
                let admitted = runtime.block_on(async {
                    let tasks: Vec<_> = (0..4 * limit.admitted)
                        .map(|_| {
                            let engine = Arc::clone(&engine);
                            tokio::spawn(async move { engine.run(work).await.is_ok() })
                        })
                        .collect();
                    let mut admitted = 0;
                    for task in tasks {
                        admitted += usize::from(task.await.unwrap());
                    }
                    admitted
                });
                // cmwq counts an item as begun only when its worker has taken it, so fewer items may be admitted. On a
                // busy machine, some items end before the last request comes, so more items may be admitted.
                let fewest = limit.admitted - limit.running;
                assert!((fewest..=2 * limit.admitted).contains(&admitted), "{name}: {work:?}: {admitted}");
            }
        }
    }
}
