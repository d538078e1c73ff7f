use super::*;
use crate::policy::pods::{AffinityScope, Pods};

#[cfg(feature = "hwloc")]
mod agreement;
mod trees;

fn described(description: &str) -> Result<Topology, TopologyError> {
    load(&TopologySource::Synthetic(description.to_owned()))
}

fn all_of(topology: &Topology) -> CpuSet {
    topology.cpus().iter().map(|cpu| cpu.id).collect()
}

fn pods(topology: &Topology, scope: AffinityScope) -> String {
    let pods = Pods::derive(topology, scope, &all_of(topology));
    pods.pods().iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" ")
}

/// spec: A1, A6 (descriptions of machines). The columns are a description, and the pods of the scopes `smt`, `cache`
/// and `numa`.
const DESCRIBED: [(&str, &str, &str, &str); 20] = [
    ("l3:2 core:2 pu:2", "0-1 2-3 4-5 6-7", "0-3 4-7", "0-7"),
    ("numa:2 core:4 pu:1", "0 1 2 3 4 5 6 7", "0-3 4-7", "0-3 4-7"),
    // For CPUs without caches, the innermost package or node, or else the whole machine, takes the place of the cache.
    ("core:2 pu:1", "0 1", "0-1", "0-1"),
    ("pack:2 core:2 pu:1", "0 1 2 3", "0-1 2-3", "0-3"),
    ("pack:1 numa:2 core:2 pu:1", "0 1 2 3", "0-1 2-3", "0-1 2-3"),
    ("numa:2 pack:2 core:2 pu:1", "0 1 2 3 4 5 6 7", "0-1 2-3 4-5 6-7", "0-3 4-7"),
    ("l2:2 core:2 pu:1", "0 1 2 3", "0-1 2-3", "0-3"),
    ("l3:2 l2:2 l1:1 core:1 pu:1", "0 1 2 3", "0-1 2-3", "0-3"),
    ("pu:1", "0", "0", "0"),
    ("pu:2", "0 1", "0-1", "0-1"),
    ("l3:2 core:1 pu:2(indexes=0,2,1,3)", "0,2 1,3", "0,2 1,3", "0-3"),
    ("l3:2 core:1 pu:2(indexes=2*2:1*2)", "0,2 1,3", "0,2 1,3", "0-3"),
    ("l3:2 core:2 pu:2(indexes=2*4)", "0,4 1,5 2,6 3,7", "0-1,4-5 2-3,6-7", "0-7"),
    ("l3:2 core:1 pu:1(indexes=2000,70)", "70 2000", "70 2000", "70,2000"),
    // Instruction caches, dies and groups have no effect. The reader accepts long names of levels, such as `Package`
    // for `pack`, and ignores sizes.
    ("Package:2 die:1 group:1 l1iCache:2 core:1 pu:1", "0 1 2 3", "0-1 2-3", "0-3"),
    ("socket:1 L3Cache:2(size=1MB) L2d:1 Core:1 PU:2", "0-1 2-3", "0-1 2-3", "0-3"),
    (" node:2(memory=1GB)\n core:1  pu:1 ", "0 1", "0 1", "0 1"),
    ("(memory=1GB) pack:2 [numa(memory=1GB)] l3:2 pu:1", "0 1 2 3", "0 1 2 3", "0-1 2-3"),
    ("pack:2 [numa] core:2 pu:1", "0 1 2 3", "0-1 2-3", "0-1 2-3"),
    ("[numa] pack:1 [numa] group:2 [numa] [numa] core:2 pu:1", "0 1 2 3", "0-1 2-3", "0-1 2-3"),
];

/// spec: A1.1, A1.4, A6.1: the CPUs of a description are in the same groups with and without hwloc.
#[test]
fn groups_are_those_of_the_description() {
    for (description, smt, cache, numa) in DESCRIBED {
        let topology = described(description).unwrap();
        assert_eq!(pods(&topology, AffinityScope::Smt), smt, "smt of {description}");
        assert_eq!(pods(&topology, AffinityScope::Cache), cache, "cache of {description}");
        assert_eq!(pods(&topology, AffinityScope::Numa), numa, "numa of {description}");
        let source = TopologySource::Synthetic(description.to_owned());
        assert_eq!(without_hwloc(&source).unwrap(), topology, "{description}");
    }
}

#[test]
fn a_bad_description_is_an_error_that_says_what_is_right() {
    for read in [load, without_hwloc] {
        let error_of =
            |description: &str| read(&TopologySource::Synthetic(description.to_owned())).unwrap_err();
        for description in ["", " ", "garbage", "l3:4 core", "pu:0", "pu:-1", "core:2 l3:", "pu:2\0", "🦀"]
        {
            let error = error_of(description);
            let message = error.to_string();
            assert!(message.contains(&format!("synthetic topology {description:?}")), "{message}");
            assert!(message.contains("write levels such as \"l3:4 core:3 pu:2\""), "{message}");
            assert!(error.source().is_some());
        }
        assert_eq!(
            error_of("pu:1(indexes=65536)").to_string(),
            "the synthetic topology \"pu:1(indexes=65536)\" has a CPU 65536: numbers must be below 65536"
        );
    }
}

/// The columns are a description, and a part of its error message.
///
/// spec: A6.1
#[test]
fn a_malformed_description_is_told_what_is_wrong_where() {
    for (description, said) in [
        ("", "end with `pu:1`"),
        ("l3:2", "end with `pu:1`"),
        ("pu:2 core:2", "end with `pu:1`"),
        ("pu:2 [numa]", "end with `pu:1`"),
        ("l3:2 c:2 pu:1", "`c` is not a kind of level"),
        ("l6:2 pu:1", "`l6` is not a kind of level"),
        ("l4i:2 pu:1", "`l4i` is not a kind of level"),
        ("machine:2 pu:1", "`machine` is not a kind of level"),
        ("core pu", "`core` has no number"),
        ("core:x pu:1", "`core:x` needs a number"),
        ("core:99999999999999999999 pu:1", "needs a number"),
        ("core:1 pu:08", "`pu:08` needs a number after the colon, as in `pu:2`, that has no leading zero"),
        ("pu:2(indexes=00,1)", "`00` in `indexes=00,1` is not a number, or has a leading zero"),
        ("pu:2(indexes=+1,0)", "`+1` in"),
        ("pu:4(indexes=02*2)", "is not a step"),
        ("core:2 pu:0", "`pu:0` leaves nothing"),
        ("core:70000 pu:70000", "`pu:70000` makes too many"),
        ("core:2 core:2 pu:1", "`core` is a level twice"),
        ("numa:2 [numa] pu:1", "attached as well"),
        ("[core] pu:1", "`[core]` cannot be attached"),
        ("[numa pu:1", "has no closing bracket"),
        ("[numa() pu:1", "has no closing bracket"),
        ("pu:2(indexes=0,1", "no closing parenthesis"),
        ("pu:2(speed=3)", "`speed=3` is not an attribute"),
        ("(indexes= )pu:1", "`indexes=` has no numbers"),
        ("pu:2(indexes=0)", "has 1 numbers where 2 are needed"),
        ("pu:2(indexes=0,0)", "gives the number 0 twice"),
        ("pu:2(indexes=0,-1)", "`-1` in `indexes=0,-1` is not a number"),
        ("pu:4(indexes=2*)", "`2*` in `indexes=2*` is not a step"),
        ("pu:4(indexes=0*2)", "is not a step"),
        ("pu:4(indexes=1*3)", "does not go through 4 objects"),
        ("pu:4(indexes=1*2:1*2)", "gives the number"),
        ("numa:2(indexes=1*3) pu:1", "does not go through 2 objects"),
    ] {
        let error = synthetic::read(description).unwrap_err().to_string();
        assert!(error.contains(said), "{description}: {error}");
    }
}

/// spec: E2.9: a topology without a CPU, which a kernel or a library could report, is an error.
#[test]
fn a_topology_needs_a_cpu() {
    let error = checked(&TopologySource::Probe, Ok(Vec::new())).unwrap_err();
    assert!(matches!(error, TopologyError::NoCpu { from: TopologySource::Probe }), "{error:?}");
    assert!(error.to_string().ends_with("has no CPU: at least one is needed"), "{error}");
}

/// spec: A6.2: without hwloc, the error for XML says which feature can read XML.
#[test]
fn without_hwloc_xml_is_an_error_that_names_the_feature() {
    let error = without_hwloc(&TopologySource::Xml("<topology></topology>".to_owned())).unwrap_err();
    assert!(matches!(error, TopologyError::NeedsHwloc { from: TopologySource::Xml(_) }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the topology in XML needs hwloc: build cmwq with its default feature `hwloc`, or give a synthetic description"
    );
}

/// spec: E2.2
#[test]
fn this_machine_has_every_cpu_of_the_process() {
    for read in [load, without_hwloc] {
        let topology = read(&TopologySource::Probe).unwrap();
        assert!(affinity::process_cpus().unwrap().is_subset(&all_of(&topology)));
    }
}
