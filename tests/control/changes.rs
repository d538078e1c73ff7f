//! Attributes that can be changed from outside, and attributes that cannot.

use cmwq::control::{Attribute, Client, ErrorKind};
use cmwq::kernel;
use cmwq::{AffinityScope, Attrs, CpuSet, WorkQueue};

use super::{Served, error_in, refused, refused_as};

fn text(cpus: &CpuSet) -> String {
    cpus.to_string()
}

/// spec: O5.1 (affinity_scope, affinity_strict, cpumask, nice, max_active), Q2.4 (`control`)
#[test]
fn each_attribute_is_changed_independently() {
    let served = Served::new("numa:2 l3:2 core:2 pu:1");
    let attrs = Attrs::new().nice(3).cpus("0-6".parse().unwrap());
    let queue = WorkQueue::builder("mail").attrs(attrs).control(true).build_on(&served.executor).unwrap();
    let mut client = served.client();
    let mut state = queue.attrs().unwrap();
    assert_eq!((state.nice, text(&state.cpus).as_str()), (3, "0-6"));

    assert_eq!(client.set("mail", Attribute::AffinityScope, "numa").unwrap(), "numa");
    state.scope = AffinityScope::Numa;
    assert_eq!(queue.attrs().unwrap(), state);
    assert_eq!(client.set("mail", Attribute::AffinityStrict, "1").unwrap(), "1");
    state.strict = true;
    assert_eq!(queue.attrs().unwrap(), state);
    for (mask, cpus) in
        [("0,2-4", "0,2-4"), ("f", "0-3"), (" ff,00000001", ""), ("00000000,00000081\n", "0,7")]
    {
        let set = client.set("mail", Attribute::CpuMask, mask);
        if cpus.is_empty() {
            assert!(refused(set).message.contains("does not use CPU 32"));
        } else {
            assert_eq!(set.unwrap(), cpus);
            state.cpus = cpus.parse().unwrap();
        }
        assert_eq!(queue.attrs().unwrap(), state);
    }
    assert_eq!(client.set("mail", Attribute::Nice, "-5").unwrap(), "-5");
    state.nice = -5;
    assert_eq!(queue.attrs().unwrap(), state);
    assert_eq!(client.set("mail", Attribute::MaxActive, "17").unwrap(), "17");
    assert_eq!((queue.max_active(), queue.attrs().unwrap()), (Some(17), state));
    assert_eq!(client.set("mail", Attribute::MaxActive, "256").unwrap(), "256");

    let all = client.attributes("mail").unwrap();
    let one_by_one: Vec<_> =
        Attribute::ALL.into_iter().map(|of| (of, client.get("mail", of).unwrap())).collect();
    assert_eq!(all, one_by_one);
    queue.spawn(|| ()).unwrap().join().unwrap();
}

/// spec: O5.1, A1, A4: an attribute that was not set follows the executor's default. It does so again after it was set
/// and reset.
#[test]
fn defaults_follow_the_executor_and_can_be_restored() {
    let served = Served::new("numa:2 l3:2 core:2 pu:1");
    let queue = WorkQueue::builder("mail").control(true).build_on(&served.executor).unwrap();
    let mut client = served.client();
    let before = queue.attrs().unwrap();
    assert_eq!(client.get("mail", Attribute::AffinityScope).unwrap(), "default (cache)");
    served.executor.set_default_scope(AffinityScope::System).unwrap();
    served.executor.set_unbound_cpus("1-5".parse().unwrap()).unwrap();
    assert_eq!(client.get("mail", Attribute::AffinityScope).unwrap(), "default (system)");
    assert_eq!(client.get("mail", Attribute::CpuMask).unwrap(), "1-5");

    assert_eq!(client.set("mail", Attribute::AffinityScope, "cpu").unwrap(), "cpu");
    assert_eq!(
        client.set("mail", Attribute::CpuMask, "0-2").unwrap(),
        "1-2",
        "the answer is the mask in force"
    );
    assert_eq!(client.set("mail", Attribute::Nice, "7").unwrap(), "7");
    assert_eq!(client.set("mail", Attribute::AffinityScope, "default").unwrap(), "default (system)");
    assert_eq!(client.set("mail", Attribute::CpuMask, "default").unwrap(), "1-5");
    assert_eq!(client.set("mail", Attribute::Nice, "default").unwrap(), before.nice.to_string());
}

/// spec: O5.4 (bad names or values get a clear error and change nothing)
#[test]
fn bad_values_change_nothing_and_are_reported() {
    let served = Served::new("core:4 pu:1");
    let queue = WorkQueue::builder("mail").control(true).build_on(&served.executor).unwrap();
    let before = (queue.attrs(), queue.max_active());
    let mut client = served.client();
    for (attribute, value, words) in [
        (
            Attribute::AffinityScope,
            "caches",
            r#"affinity_scope cannot be "caches": write one of default, cpu, smt"#,
        ),
        (Attribute::AffinityScope, "", r#"cannot be """#),
        (Attribute::AffinityStrict, "yes", "write 0 or 1"),
        (Attribute::CpuMask, "0-4", "the executor does not use CPU 4; it uses 0-3"),
        (Attribute::CpuMask, "", "the mask names no CPU; write default"),
        (Attribute::CpuMask, "0x0", "the mask names no CPU"),
        (Attribute::CpuMask, "3-0", "write a list of CPUs such as 0-3,8, a mask"),
        (Attribute::CpuMask, "all", "write a list of CPUs"),
        (Attribute::Nice, "20", "nice level 20 does not exist; levels go from -20 to 19"),
        (Attribute::Nice, "low", "write a number from -20 to 19, or default"),
        (Attribute::Nice, "99999999999999", "write a number from -20 to 19"),
        (Attribute::MaxActive, "513", "max_active is 513; it must be 1 to 512"),
        (Attribute::MaxActive, "0", "max_active is 0; it must be 1 to 512"),
        (Attribute::MaxActive, "-1", "write a number from 1 to 512"),
        (Attribute::MaxActive, "1e3", "write a number"),
    ] {
        let message = refused_as(ErrorKind::BadValue, client.set("mail", attribute, value));
        assert!(message.contains(words), "{message}");
        let message =
            refused(client.set("mail", attribute, &value.repeat(2000).replace("default", ""))).message;
        assert!(message.len() < 2000, "{message}");
        assert_eq!((queue.attrs(), queue.max_active()), before, "{attribute} {value:?}");
    }
    let plain = WorkQueue::unbound("plain").control(true).build_on(&served.executor).unwrap();
    let message = refused_as(ErrorKind::BadValue, client.set("plain", Attribute::MaxActive, "many"));
    assert!(message.contains("write a number from 1 to 2000"), "{message}");
    drop(plain);
    let mut raw = served.raw();
    let answer = raw.ask(r#"{"request":"set","queue":"mail","attribute":"limit","value":"5"}"#);
    assert!(answer.contains("unknown_attribute"), "{answer}");
    let error = error_in(&answer);
    assert_eq!(error.kind, ErrorKind::UnknownAttribute);
    assert!(error.message.contains("write one of affinity_scope"), "{error}");
}

/// spec: Q2.4 (`control`), O5.2 (only queues marked `control` can be changed)
#[test]
fn queues_that_are_not_marked_can_only_be_read() {
    let served = Served::new("core:4 pu:1");
    let queue = WorkQueue::builder("mail").build_on(&served.executor).unwrap();
    let before = (queue.attrs(), queue.max_active());
    let mut client = served.client();
    for (attribute, value) in client.attributes("mail").unwrap() {
        assert_eq!(client.get("mail", attribute).unwrap(), value);
        let message = refused_as(ErrorKind::NotControllable, client.set("mail", attribute, "1"));
        assert!(message.contains("its program must build it with `control()`"), "{message}");
    }
    assert_eq!((queue.attrs(), queue.max_active()), before);
}

/// spec: O5.1, Q2
#[test]
fn each_kind_has_the_attributes_that_mean_something_there() {
    fn names(client: &mut Client, queue: &str) -> Vec<&'static str> {
        client.attributes(queue).unwrap().into_iter().map(|(attribute, _)| attribute.name()).collect()
    }
    let served = Served::new("core:4 pu:1");
    let of_pods = ["affinity_scope", "affinity_strict", "cpumask", "nice"];
    let queues = [
        WorkQueue::builder("managed"),
        WorkQueue::unbound("unbound"),
        WorkQueue::ordered("ordered"),
        WorkQueue::per_cpu("per-cpu"),
        kernel::bh("bh"),
    ]
    .map(|builder| builder.control(true).build_on(&served.executor).unwrap());
    let mut client = served.client();
    for queue in ["managed", "unbound", "ordered"] {
        assert!(names(&mut client, queue).starts_with(&of_pods), "{queue}");
        assert_eq!(client.set(queue, Attribute::AffinityScope, "system").unwrap(), "system");
    }
    for queue in ["per-cpu", "bh"] {
        assert!(!names(&mut client, queue).iter().any(|name| of_pods.contains(name)), "{queue}");
        for attribute in
            [Attribute::AffinityScope, Attribute::AffinityStrict, Attribute::CpuMask, Attribute::Nice]
        {
            let message = refused_as(ErrorKind::Inapplicable, client.get(queue, attribute));
            assert!(message.contains("its items run on the CPU that they were queued on"), "{message}");
            refused_as(ErrorKind::Inapplicable, client.set(queue, attribute, "1"));
        }
    }
    assert_eq!(client.set("per-cpu", Attribute::MaxActive, "3").unwrap(), "3");
    for queue in &queues {
        assert_eq!(client.set(queue.name(), Attribute::Histograms, "1").unwrap(), "1");
        queue.spawn(|| ()).unwrap().join().unwrap();
        assert!(queue.latency().is_some(), "{}", queue.name());
        assert_eq!(client.set(queue.name(), Attribute::Histograms, "0").unwrap(), "0");
        refused_as(ErrorKind::BadValue, client.set(queue.name(), Attribute::Histograms, "on"));
        assert!(queue.latency().is_none(), "{}", queue.name());
    }
    assert_eq!(client.get("ordered", Attribute::MaxActive).unwrap(), "1");
    refused_as(ErrorKind::Inapplicable, client.set("ordered", Attribute::MaxActive, "2"));
    let message = refused_as(ErrorKind::Inapplicable, client.get("bh", Attribute::MaxActive));
    assert!(message.contains("a bh queue runs one item at a time on each CPU"), "{message}");
    refused_as(ErrorKind::Inapplicable, client.set("bh", Attribute::MaxActive, "2"));
}
