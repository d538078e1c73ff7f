//! Worker threads: their names, nice levels, affinity, hooks, stacks and number.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::{Executor, WorkQueue, blocking};
use testkit::{again, assert_passed, output, skip};

use crate::support::{
    Door, PROGRESS, SOON, block_only, builder, current_pool, eventually, is_portable, is_root, main_status,
    no_thread_of, one_cpu, own_nice, own_status, pool, set_own_nice, threads_of, time_limit,
};

fn own_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

/// Returns the name of a worker's thread, as the standard library shows it and as the system shows it.
fn name_and_comm(queue: &WorkQueue) -> (String, String) {
    queue.spawn(|| (own_name(), own_status("Name"))).unwrap().join().unwrap()
}

/// spec: E4.1 (names: `cmwq/0:1`, `cmwq/0:1H`, `cmwq/u8:2`)
#[test]
fn workers_have_names_like_those_of_the_kernel() {
    let (builder, prefix) = builder("l3:1 core:2 pu:1");
    let executor = builder.cpus(cmwq::CpuSet::single(1)).build().unwrap();
    let per_cpu = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    assert_eq!(name_and_comm(&per_cpu).0, format!("{prefix}/1:0"));
    let high = WorkQueue::per_cpu("q").high_priority(true).build_on(&executor).unwrap();
    let (name, comm) = name_and_comm(&high);
    assert_eq!(name, format!("{prefix}/1:0H"));
    assert_eq!(comm, name);
    // Unbound pools are numbered after the two pools of each CPU. Either of a pool's workers may take the item, because
    // the spare may be faster than the first worker.
    let unbound = WorkQueue::unbound("q").build_on(&executor).unwrap();
    let (name, _) = name_and_comm(&unbound);
    assert!(is_worker_of(&format!("{prefix}/u2:"), "", &name), "{name}");
    let managed = WorkQueue::builder("q").build_on(&executor).unwrap();
    let (name, _) = name_and_comm(&managed);
    assert!(is_worker_of(&format!("{prefix}/u3:"), "", &name), "{name}");
    // The system's name of every thread of the executor is checked. The spares may not have been made yet.
    let pools = [("1:", ""), ("1:", "H"), ("u2:", ""), ("u3:", "")]
        .map(|(pool, end)| (format!("{prefix}/{pool}"), end));
    eventually("each pool has a worker and a spare, and every thread is named", || {
        let threads = threads_of(&prefix);
        let is_known = |name: &String| {
            *name == format!("{prefix}/manager")
                || pools.iter().any(|(pool, end)| is_worker_of(pool, end, name))
        };
        threads.iter().all(is_known)
            && pools.iter().all(|(pool, end)| (0..2).all(|n| threads.contains(&format!("{pool}{n}{end}"))))
    });
}

/// Returns whether `name` consists of `pool`, the number of a worker, and `end`.
fn is_worker_of(pool: &str, end: &str, name: &str) -> bool {
    name.strip_prefix(pool)
        .and_then(|rest| rest.strip_suffix(end))
        .is_some_and(|number| number.parse::<u32>().is_ok_and(|n| n.to_string() == number))
}

/// spec: E4.1 (15 bytes; the full name through the API), E2.4 (prefix)
#[test]
fn only_the_system_shortens_a_long_prefix() {
    let (builder, _) = builder("core:1 pu:1");
    let executor = builder.thread_name_prefix("a-rather-long-prefix-ß").build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let (name, comm) = name_and_comm(&queue);
    assert_eq!(name, "a-rather-long-prefix-ß/0:0");
    assert_eq!(comm, &name[..15]);
}

/// spec: E4.5
#[test]
fn threads_have_the_name_of_a_queue_that_asks_for_it_while_they_run_its_items() {
    let (builder, prefix) = builder("core:1 pu:1");
    let executor = builder.build().unwrap();
    if is_portable(&executor) {
        return;
    }
    let queue = |name: &str, yes| WorkQueue::per_cpu(name).name_threads(yes).build_on(&executor).unwrap();
    let long = queue(&format!("{prefix}/a queue with a long name"), true);
    let (plain, short, nul) = (queue("plain", false), queue("short", true), queue("n\0l", true));
    // The other items wait until this one ends, so a worker runs several of them without a pause.
    let door = Door::default();
    let opens = door.clone();
    plain.spawn_detached(move || opens.wait_unguarded()).unwrap();
    let queues = [&long, &long, &plain, &short, &nul, &plain, &long, &short];
    let items = queues.map(|queue| queue.spawn(|| (own_name(), own_status("Name"))).unwrap());
    door.open();
    for (item, queue) in items.into_iter().zip(queues) {
        let (own, shown) = item.join().unwrap();
        assert!(is_worker_of(&format!("{prefix}/0:"), "", &own), "{own}");
        match queue.name().split('\0').next().unwrap() {
            "plain" => assert_eq!(shown, own),
            name => assert_eq!(shown, name[..name.len().min(15)]),
        }
    }
    eventually("sleeping threads have their own names", || {
        let is_own = |name: &String| {
            *name == format!("{prefix}/manager") || is_worker_of(&format!("{prefix}/0:"), "", name)
        };
        threads_of(&prefix).iter().all(is_own)
            && threads_of(&prefix).len() == 1 + pool(&executor, "0").workers
    });
}

/// spec: E4.2 (high-priority workers get the high nice level), E2.4 (nice levels)
#[test]
fn workers_have_the_nice_level_of_their_pool() {
    let (builder, _) = builder("core:1 pu:1");
    let executor = builder.build().unwrap();
    let normal = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let high = WorkQueue::per_cpu("q").high_priority(true).build_on(&executor).unwrap();
    let levels = [&normal, &high].map(|queue| queue.spawn(own_nice).unwrap().join().unwrap());
    let process = own_nice();
    let snapshot = executor.dump();
    if snapshot.nice_denied || snapshot.portable {
        assert_eq!(levels, [process, process], "{snapshot}");
    } else {
        assert_eq!(levels, [process, -20]);
    }
    let nicer = WorkQueue::unbound("q").attrs(cmwq::Attrs::new().nice(7)).build_on(&executor).unwrap();
    let level = nicer.spawn(own_nice).unwrap().join().unwrap();
    assert_eq!(level, if snapshot.portable { process } else { 7 });
    assert_eq!(pool(&executor, "0").nice, if snapshot.portable { 0 } else { process });
    assert_eq!(pool(&executor, "0H").nice, -20);
}

/// spec: E4.3 (without the privilege they run at the normal one, and that is visible in the dump, never an error)
#[test]
fn without_the_privilege_high_priority_workers_run_at_the_normal_level() {
    const CHILD: &str = "CMWQ_TEST_UNPRIVILEGED";
    let _limit = time_limit();
    if std::env::var_os(CHILD).is_some() || !is_root() {
        let executor = one_cpu();
        let high = WorkQueue::per_cpu("q").high_priority(true).build_on(&executor).unwrap();
        let level = high.spawn(own_nice).unwrap().join().unwrap();
        let snapshot = executor.dump();
        if level == -20 {
            assert!(!snapshot.nice_denied);
            assert!(std::env::var_os(CHILD).is_none(), "the child still has the privilege");
            return;
        }
        assert_eq!(level, own_nice());
        if snapshot.portable {
            assert!(!snapshot.nice_denied, "the system was not asked");
            return;
        }
        assert!(snapshot.nice_denied);
        assert!(snapshot.to_string().contains("nice levels were denied"), "{snapshot}");
        return;
    }
    let test = "threads::without_the_privilege_high_priority_workers_run_at_the_normal_level";
    let mut child = again(test);
    // A program that runs as a user other than root has no capabilities.
    child.env(CHILD, "1").uid(65534).gid(65534).current_dir("/");
    match output(&mut child) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            skip("unreachable", format_args!("another user cannot run this test: {error}"));
        }
        output => assert_passed(&output.unwrap()),
    }
}

/// spec: E2.8 (threads never inherit the creator's affinity, nice or signal mask)
#[test]
fn workers_inherit_nothing_from_their_creator_or_issuer() {
    let _limit = time_limit();
    if is_portable(&one_cpu()) {
        return;
    }
    let process = own_nice();
    let own = if process < 10 { 10 } else { 19 };
    let creator = move || {
        core_affinity::set_for_current(core_affinity::get_core_ids().unwrap().pop().unwrap());
        set_own_nice(own);
        block_only(libc::SIGUSR1);
        let own_mask = own_status("SigBlk");
        let builder = Executor::builder().random_placement(3).thread_name_prefix("inh");
        let executor = builder.progress_check(PROGRESS).build().unwrap();
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let facts = || (current_pool(), own_status("Cpus_allowed_list"), own_nice(), own_status("SigBlk"));
        for _ in 0..50 {
            let (cpu, allowed, nice, mask) = queue.spawn(facts).unwrap().join().unwrap();
            assert_eq!(cpu, allowed, "a worker of a per-CPU pool is bound to its CPU");
            let denied = executor.dump().nice_denied;
            assert_eq!(nice, if denied { own } else { process });
            // The main thread blocks all signals for a moment each time when it makes the thread of a test.
            eventually("the mask is the main thread's", || mask == main_status("SigBlk"));
        }
        let unbound = WorkQueue::unbound("q").attrs(cmwq::Attrs::new().scope(cmwq::AffinityScope::System));
        let unbound = unbound.build_on(&executor).unwrap();
        let (_, allowed, _, _) = unbound.spawn(facts).unwrap().join().unwrap();
        assert_eq!(allowed.parse::<cmwq::CpuSet>().unwrap(), *executor.cpus());
        assert_eq!(own_status("SigBlk"), own_mask, "the creator keeps its own mask");
    };
    std::thread::spawn(creator).join().unwrap();
}

/// spec: E2.7 (on-thread-start/-stop hooks)
#[test]
fn hooks_run_on_every_worker_once_and_their_panics_are_contained() {
    let _limit = time_limit();
    for panics in [false, true] {
        let started = Arc::new(Mutex::new(Vec::new()));
        let stopped = Arc::new(Mutex::new(Vec::new()));
        let note = |list: &Arc<Mutex<Vec<String>>>| {
            let list = Arc::clone(list);
            move || {
                list.lock().unwrap().push(own_name());
                assert!(!panics, "a panic on purpose");
            }
        };
        let (builder, prefix) = builder("l3:1 core:2 pu:1");
        let builder = builder.on_thread_start(note(&started)).on_thread_stop(note(&stopped));
        let executor = builder.build().unwrap();
        let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
        let begun = Arc::clone(&started);
        let item = move || begun.lock().unwrap().contains(&own_name());
        assert!(queue.spawn(item).unwrap().join().unwrap(), "the hook runs before the first item");
        drop((queue, executor));
        eventually("all threads ended", || no_thread_of(&prefix));
        let (mut started, mut stopped) = (started.lock().unwrap().clone(), stopped.lock().unwrap().clone());
        started.sort();
        stopped.sort();
        assert!(!started.is_empty());
        assert_eq!(started, stopped);
    }
}

/// spec: E2.4 (stack size)
#[test]
fn workers_have_the_requested_stack_size() {
    fn deep(kilobytes: usize) -> u64 {
        let page = std::hint::black_box([kilobytes as u8; 1024]);
        if kilobytes == 0 { 0 } else { u64::from(std::hint::black_box(&page)[17] & 1) + deep(kilobytes - 1) }
    }
    let (builder, _) = builder("core:1 pu:1");
    let executor = builder.stack_size(32 << 20).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    // The default stack of 2 MiB would be too small for this recursion.
    assert_eq!(queue.spawn(|| deep(5000)).unwrap().join().unwrap(), 2500);
}

/// spec: E2.5 (max threads in all), S5: at the cap, items wait, and no item is lost.
#[test]
fn there_are_never_more_threads_than_permitted() {
    let _limit = time_limit();
    for cap in [1, 3] {
        let (alive, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (builder, prefix) = builder("core:1 pu:1");
        let (here, most) = (Arc::clone(&alive), Arc::clone(&peak));
        let builder = builder.max_threads(cap).on_thread_start(move || {
            most.fetch_max(here.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        });
        let executor = builder
            .on_thread_stop(move || {
                alive.fetch_sub(1, Ordering::SeqCst);
            })
            .build()
            .unwrap();
        for queue in [WorkQueue::per_cpu("q"), WorkQueue::unbound("q"), WorkQueue::builder("q")] {
            let queue = queue.build_on(&executor).unwrap();
            let door = Door::default();
            let begun = Arc::new(AtomicUsize::new(0));
            let handles: Vec<_> = (0..8)
                .map(|n| {
                    let (door, begun) = (door.clone(), Arc::clone(&begun));
                    let item = move || {
                        begun.fetch_add(1, Ordering::SeqCst);
                        door.wait();
                        n
                    };
                    queue.spawn(item).unwrap()
                })
                .collect();
            eventually("an item began", || begun.load(Ordering::SeqCst) > 0);
            assert!(begun.load(Ordering::SeqCst) <= cap);
            assert!(executor.dump().threads <= cap);
            door.open();
            for (n, handle) in handles.into_iter().enumerate() {
                assert_eq!(handle.join().unwrap(), n);
            }
        }
        assert!(
            peak.load(Ordering::SeqCst) <= cap,
            "{} threads, {cap} permitted",
            peak.load(Ordering::SeqCst)
        );
        drop(executor);
        eventually("all threads ended", || no_thread_of(&prefix));
    }
}

/// spec: E2.5 (hitting the cap is like a failed thread creation): the pools take turns with the only thread.
#[test]
fn under_the_cap_idle_threads_of_other_pools_make_room() {
    let _limit = time_limit();
    let (builder, _) = builder("core:3 pu:1");
    let executor = builder.max_threads(1).random_placement(5).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let handles: Vec<_> = (0..12).map(|_| queue.spawn(current_pool).unwrap()).collect();
    let join = |handle: cmwq::JoinHandle<String>| match handle.join_timeout(SOON) {
        Ok(result) => result.unwrap(),
        Err(_) => panic!("the item never ran: {}", executor.dump()),
    };
    let mut pools: Vec<String> = handles.into_iter().map(join).collect();
    pools.sort();
    pools.dedup();
    assert_eq!(pools, ["0", "1", "2"]);
    assert_eq!(executor.dump().threads, 1);
}

/// spec: E2.5: while blocked items hold all threads that the cap permits, another item waits until one of these threads
/// is free.
#[test]
fn at_the_cap_blocked_items_degrade_to_waiting() {
    let _limit = time_limit();
    let (builder, _) = builder("core:1 pu:1");
    let executor = builder.max_threads(2).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    let door = Door::default();
    let done = Arc::new(AtomicBool::new(false));
    let waiters: Vec<_> = (0..2)
        .map(|_| {
            let door = door.clone();
            queue.spawn(move || door.wait()).unwrap()
        })
        .collect();
    let flag = Arc::clone(&done);
    let last = queue.spawn(move || blocking(|| flag.store(true, Ordering::SeqCst))).unwrap();
    eventually("both threads are taken", || {
        pool(&executor, "0").workers == 2 && pool(&executor, "0").idle == 0
    });
    let last = last.join_timeout(Duration::from_millis(30)).unwrap_err();
    assert!(!done.load(Ordering::SeqCst), "a third thread would have been needed");
    door.open();
    last.join().unwrap();
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
}

/// spec: E2.6 (before_spawn), E3, P1.2: if a worker cannot be made, the item waits until the manager has tried again.
#[test]
fn a_thread_that_cannot_be_made_is_tried_again() {
    let _limit = time_limit();
    let (builder, _) = builder("core:1 pu:1");
    let refusals = Arc::new(AtomicUsize::new(2));
    let left = Arc::clone(&refusals);
    let hook = move |name: &str| match name.ends_with("/manager") {
        false if left.load(Ordering::SeqCst) > 0 => {
            // The hook refuses twice: first with an error, and then with a panic.
            assert_ne!(left.fetch_sub(1, Ordering::SeqCst), 1, "a panic on purpose");
            Err(std::io::Error::other("no thread today"))
        }
        _ => Ok(()),
    };
    let executor = builder.before_spawn(hook).build().unwrap();
    let queue = WorkQueue::per_cpu("q").build_on(&executor).unwrap();
    assert_eq!(queue.spawn(|| 5).unwrap().join().unwrap(), 5);
    assert_eq!(refusals.load(Ordering::SeqCst), 0);
}
