//! Properties of handles and errors: equality, numbers, unwind safety, causes of errors, and counts of items.

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::blocking::channel::{self, RecvCancellableError, SendCancellableError};
use cmwq::{
    AffinityScope, ApplyAttrsError, Attrs, BuildExecutorError, BuildQueueError, CancelToken, Cancelled,
    CpuSet, EnableError, EnqueueBatchError, Executor, ExecutorBuilder, JoinError, JoinHandle,
    ParseAffinityScopeError, ParseCpuSetError, PeriodicHandle, Permit, QueueError, Refused, RefusedBatch,
    RunError, ScopeError, ScopedJoinHandle, SetDefaultScopeError, SetMaxActiveError, SetUnboundCpusError,
    SetWeightError, ShutdownError, StopOnDrop, TopologyError, TopologySource, WaitError, Work, WorkQueue,
    WorkQueueBuilder,
};

use crate::support::{
    all_kinds, begun_on, cpus, eventually, held, on_each_executor, one_cpu, one_cpu_unseen, stress,
    time_limit,
};

/// spec: Q1.7, W2.7: handles of the same queue or item are equal. Each queue and each item has a number of its own.
#[test]
fn equal_handles_lead_to_the_same_thing() {
    let executor = one_cpu();
    let queues = all_kinds(&executor);
    let ids: HashSet<_> = queues.iter().map(WorkQueue::id).collect();
    assert_eq!(ids.len(), queues.len());
    let one_more = WorkQueue::builder("n").build_on(&executor).unwrap();
    assert!(queues[0] == queues[0].clone() && queues[0] != one_more && !ids.contains(&one_more.id()));
    let current = queues[1].spawn(|| cmwq::current_queue().unwrap()).unwrap().join().unwrap();
    assert_eq!(current, queues[1]);
    assert_eq!(HashSet::from([current, queues[1].clone(), queues[2].clone()]).len(), 2);

    let (tell, told) = std::sync::mpsc::channel();
    let work =
        Work::with_handle(move |this| tell.send((this.clone(), cmwq::current_work().unwrap())).unwrap());
    queues[0].enqueue(&work).unwrap();
    let (this, current) = told.recv().unwrap();
    assert!(this == work && current == work && this.id() == work.id());
    assert_ne!(work, Work::new(|| ()));
    assert!(executor == executor.clone() && executor != one_cpu());
    // The item itself has sent these two handles.
    drop((this, current));
}

/// spec: W9.7: `catch_unwind` accepts closures that own handles.
#[test]
fn handles_are_unwind_safe() {
    fn is_safe<T: UnwindSafe + RefUnwindSafe>() {}
    is_safe::<Executor>();
    is_safe::<WorkQueue>();
    is_safe::<Work>();
    is_safe::<PeriodicHandle>();
    is_safe::<CancelToken>();
    is_safe::<Permit>();
    is_safe::<WorkQueueBuilder>();
    is_safe::<ExecutorBuilder>();
    is_safe::<ScopedJoinHandle<'_, std::cell::Cell<u8>>>();
    is_safe::<StopOnDrop<std::cell::Cell<u8>>>();
    is_safe::<JoinHandle<std::cell::Cell<u8>>>();
    is_safe::<QueueError>();
    is_safe::<JoinError>();
    let queue = WorkQueue::builder("q").build_on(&one_cpu()).unwrap();
    let unwound = std::panic::catch_unwind(|| {
        let handle = queue.spawn(|| 7).unwrap();
        assert_eq!(handle.join().unwrap(), 8, "on purpose");
    });
    assert!(unwound.is_err());
    assert_eq!(queue.spawn(|| 7).unwrap().join().unwrap(), 7);
}

/// spec: W9.8: an error prints its cause or returns it as its source, but not both. So a report names each cause once.
#[test]
fn no_error_prints_its_source() {
    let executor = one_cpu();
    let queue = WorkQueue::builder("q").build_on(&executor).unwrap();
    let panicked = || queue.spawn(|| panic!("no luck")).unwrap().join().unwrap_err();
    let no_topology = TopologySource::Synthetic("nonsense".into());
    let refused = |_name: &str| Err::<(), _>(io::Error::other("a reason of the hook"));
    let no_threads = Executor::builder().before_spawn(refused).build().unwrap_err();
    let only_managers = |name: &str| match name.contains("/R-") {
        true => Err(io::Error::other("a reason of the hook")),
        false => Ok(()),
    };
    let picky = Executor::builder().before_spawn(only_managers).build().unwrap();
    let no_rescuer = WorkQueue::builder("q").rescuer(true).build_on(&picky).unwrap_err();
    let built = Executor::builder().topology(no_topology.clone()).build();
    let Err(BuildExecutorError::Topology(topology)) = built else { panic!("{built:?}") };
    let mut errors: Vec<Box<dyn Error>> = vec![
        Box::<TopologyError>::new(topology),
        Box::new(Executor::builder().topology(no_topology).build().unwrap_err()),
        Box::new(Executor::builder().cpus(CpuSet::new()).build().unwrap_err()),
        Box::new(BuildExecutorError::Cpus(io::Error::other("a reason of the system"))),
        Box::new(no_threads),
        Box::new(no_rescuer),
        Box::new(BuildQueueError::EmptyName),
        Box::new(panicked()),
        Box::new(RunError::Failed(panicked())),
        Box::new(RunError::Refused(QueueError::Full)),
        Box::new(ScopeError::Dropped { items: 2 }),
        Box::new(ShutdownError::Global),
        Box::new(WaitError::TimedOut),
        Box::new(EnableError::NotDisabled),
        Box::<ParseCpuSetError>::new("x".parse::<CpuSet>().unwrap_err()),
        Box::<ParseAffinityScopeError>::new("x".parse::<AffinityScope>().unwrap_err()),
        Box::new(ApplyAttrsError::NoCpu),
        Box::<ApplyAttrsError>::new(queue.apply_attrs(Attrs::new().nice(20)).unwrap_err()),
        Box::<SetMaxActiveError>::new(queue.set_max_active(0).unwrap_err()),
        Box::<SetWeightError>::new(queue.set_weight(0).unwrap_err()),
        Box::<SetUnboundCpusError>::new(executor.set_unbound_cpus(CpuSet::new()).unwrap_err()),
        Box::<SetDefaultScopeError>::new(executor.set_default_scope(AffinityScope::Default).unwrap_err()),
        Box::new(Cancelled::Requested),
        Box::new(Cancelled::DeadlinePassed),
    ];
    errors.extend(errors_of_submissions(&queue));
    errors.extend(errors_of_the_control_socket());
    let mut with_source = 0;
    for error in &errors {
        let (mut text, mut source) = (error.to_string(), error.source());
        while let Some(cause) = source {
            with_source += 1;
            assert!(!text.contains(&cause.to_string()), "{text:?} contains its source {cause}");
            (text, source) = (cause.to_string(), cause.source());
        }
    }
    assert!(with_source >= 3, "{with_source}");
}

/// Returns errors that own the refused items or closures.
fn errors_of_submissions(queue: &WorkQueue) -> Vec<Box<dyn Error>> {
    let work = Work::new(|| ());
    work.disable();
    let batch: EnqueueBatchError = queue.items([work]).enqueue().unwrap_err();
    let closure = || 7;
    let one: Refused<fn() -> i32> = queue.item(closure as fn() -> i32).on_cpu(1 << 20).spawn().unwrap_err();
    let many = queue.items([closure as fn() -> i32]).on_cpu(1 << 20);
    let many: RefusedBatch<fn() -> i32, usize> = many.spawn_detached().unwrap_err();
    let token = CancelToken::new();
    token.cancel();
    let (sender, receiver) = channel::bounded::<u8>(0);
    let received: RecvCancellableError = token.enter(|| receiver.recv_cancellable()).unwrap_err();
    let sent: SendCancellableError<u8> = token.enter(|| sender.send_cancellable(1)).unwrap_err();
    vec![Box::new(batch), Box::new(one), Box::new(many), Box::new(received), Box::new(sent)]
}

#[cfg(all(unix, feature = "control"))]
fn errors_of_the_control_socket() -> Vec<Box<dyn Error>> {
    use cmwq::control::{
        Attribute, Client, ClientError, ParseAttributeError, RequestError, ServeError, Server,
    };

    let nowhere: ClientError = Client::connect("/dev/null").unwrap_err();
    let taken: ServeError = Server::start_at(&one_cpu(), "/dev/null").unwrap_err();
    let unknown: ParseAttributeError = "color".parse::<Attribute>().unwrap_err();
    let text = r#"{ "kind": "bad_value", "message": "write a number" }"#;
    let answer: RequestError = serde_json::from_str(text).unwrap();
    let lost = ClientError::Io(io::Error::other("a reason of the system"));
    vec![
        Box::new(nowhere),
        Box::new(taken),
        Box::new(unknown),
        Box::new(answer.clone()),
        Box::new(ClientError::Answer(answer)),
        Box::new(lost),
    ]
}

#[cfg(not(all(unix, feature = "control")))]
fn errors_of_the_control_socket() -> Vec<Box<dyn Error>> {
    Vec::new()
}

/// spec: F0.3: a queue counts its running and its waiting items.
#[test]
fn running_and_waiting_items_are_counted() {
    let _limit = time_limit();
    for queue in all_kinds(&one_cpu()) {
        assert_eq!((queue.running(), queue.waiting()), (0, 0));
    }
    let queue = WorkQueue::ordered("q").build_on(&one_cpu()).unwrap();
    let (_work, door, _) = begun_on(&queue);
    let behind = [(); 3].map(|()| queue.spawn(|| ()).unwrap());
    let later = queue.item(|| ()).after(Duration::from_secs(3600)).spawn().unwrap();
    assert_eq!((queue.running(), queue.waiting(), queue.len()), (1, 3, 4), "an armed timer is not queued");
    door.open();
    behind.into_iter().for_each(|item| item.join().unwrap());
    eventually("nothing is left", || (queue.running(), queue.waiting()) == (0, 0));
    assert!(later.cancel());
}

/// spec: F1.7: a wait for an idle queue also waits for a chain of items that moves from CPU to CPU, and refuses no
/// submission.
#[test]
fn a_wait_for_an_idle_queue_follows_items_across_cpus() {
    const STEPS: usize = 20;
    fn step(queue: &WorkQueue, left: usize, ended: Arc<AtomicBool>) {
        let again = queue.clone();
        let item = move || match left {
            0 => ended.store(true, Ordering::Relaxed),
            _ => step(&again, left - 1, ended),
        };
        drop(queue.item(item).on_cpu(left % 4).spawn().unwrap());
    }
    let executor = cpus(4);
    let queues = [WorkQueue::per_cpu("p"), WorkQueue::unbound("u").max_active(1)];
    for queue in queues.map(|queue| queue.build_on(&executor).unwrap()) {
        for round in 0..stress(200) {
            let ended = Arc::new(AtomicBool::new(false));
            step(&queue, STEPS, Arc::clone(&ended));
            match round % 2 {
                0 => queue.wait_idle().unwrap(),
                _ => cmwq::blocking::block_on(queue.wait_idle_async()).unwrap(),
            }
            assert!(ended.load(Ordering::Relaxed), "round {round}");
            assert!(queue.is_empty());
        }
        // Another thread submits items during the wait.
        let stop = Arc::new(AtomicBool::new(false));
        let issuer = {
            let (queue, stop) = (queue.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    queue.items((0..3).map(|_| || ())).spawn_detached().unwrap();
                    queue.spawn(|| ()).unwrap().join().unwrap();
                }
            })
        };
        for _ in 0..stress(200) {
            queue.wait_idle().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        issuer.join().unwrap();
    }
}

/// spec: F1.7: a wait for an idle queue includes the items that items submit, refuses no submission, and can time out.
#[test]
fn a_wait_for_an_idle_queue_includes_later_items() {
    on_each_executor(|executor| {
        for queue in all_kinds(executor) {
            let again = queue.clone();
            let (mut left, tail) = (5, queue.clone());
            let chain = Work::with_handle(move |this| {
                left -= 1;
                if left > 0 {
                    again.enqueue(this).unwrap();
                }
            });
            queue.enqueue(&chain).unwrap();
            queue.spawn(move || tail.spawn_detached(|| ()).unwrap()).unwrap();
            queue.wait_idle().unwrap();
            assert!(queue.is_empty() && !chain.is_pending());
        }
    });
    let queue = WorkQueue::builder("q").build_on(&one_cpu_unseen()).unwrap();
    let (item, door) = held(&queue);
    assert_eq!(queue.wait_idle_timeout(Duration::from_millis(2)), Err(WaitError::TimedOut));
    queue.spawn(|| ()).unwrap();
    door.open();
    item.join().unwrap();
    queue.wait_idle().unwrap();
    let own = queue.clone();
    assert_eq!(queue.spawn(move || own.wait_idle()).unwrap().join().unwrap(), Err(WaitError::WouldDeadlock));
}
