//! Any bytes that come to the control socket: each line is answered by a line of JSON, and nothing else happens.
//!
//! The first byte says how many of the next ones are the lengths of the pieces in which the rest comes.
#![no_main]

use std::sync::OnceLock;

use cmwq::kernel;
use cmwq::{Executor, TopologySource, WorkQueue};

/// An executor of a few queues of all kinds, some of which can be changed.
fn executor() -> &'static (Executor, Vec<WorkQueue>) {
    static ONE: OnceLock<(Executor, Vec<WorkQueue>)> = OnceLock::new();
    ONE.get_or_init(|| {
        let topology = TopologySource::Synthetic("numa:2 l3:2 core:2 pu:1".into());
        let executor = Executor::builder().topology(topology).build().expect("it can be made");
        let builders = [
            WorkQueue::builder("n").control(true),
            WorkQueue::builder("twin").control(true),
            WorkQueue::unbound("twin").control(true),
            WorkQueue::ordered("o").control(true),
            WorkQueue::per_cpu("p").control(true),
            kernel::bh("b").control(true),
            WorkQueue::builder("kept"),
        ];
        let queues = builders.map(|builder| builder.build_on(&executor).expect("it can be made"));
        (executor, queues.into())
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (executor, queues) = executor();
    let kept = (queues[6].attrs(), queues[6].max_active());
    let pieces = bytes.first().map_or(0, |first| usize::from(first % 8)).min(bytes.len().saturating_sub(1));
    let (pieces, said) = bytes.get(1..).unwrap_or_default().split_at(pieces);
    cmwq::control::fuzz(executor, said, pieces);
    assert_eq!(kept, (queues[6].attrs(), queues[6].max_active()), "it was not to be changed");
});
