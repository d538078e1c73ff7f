//! Tests that hwloc and the readers without hwloc read the same topology.

use proptest::prelude::*;

use super::super::*;
use super::{DESCRIBED, described};

fn by_hwloc(source: &TopologySource) -> Topology {
    checked(source, hwloc::read(source)).unwrap()
}

fn by_hand(description: &str) -> Topology {
    checked(&TopologySource::Probe, synthetic::read(description).map_err(Into::into)).unwrap()
}

/// spec: A6.3
#[cfg(target_os = "linux")]
#[test]
fn hwloc_and_linux_tell_the_same_of_this_machine() {
    let by_linux = sysfs::read("/sys".as_ref()).unwrap().expect("the tests run where /sys is mounted");
    assert_eq!(checked(&TopologySource::Probe, Ok(by_linux)).unwrap(), by_hwloc(&TopologySource::Probe));
}

/// spec: A6.3, E2.2 (XML)
#[test]
fn xml_tells_the_same_as_the_description_that_it_came_from() {
    for (description, ..) in DESCRIBED {
        let from_xml = load(&TopologySource::Xml(hwloc::xml_of(description))).unwrap();
        assert_eq!(from_xml, described(description).unwrap(), "{description}");
        assert_eq!(from_xml, by_hand(description), "{description}");
        assert_eq!(from_xml, Topology::new(from_xml.cpus().to_vec()));
    }
}

#[test]
fn bad_xml_is_an_error_wherever_it_was_cut() {
    let xml = |document: &str| load(&TopologySource::Xml(document.to_owned()));
    let machine_without_cpus =
        "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\"/></topology>";
    for document in
        ["garbage", "\0</topology>", "<topology></topology>", "<a></topology>", machine_without_cpus]
    {
        assert!(xml(document).unwrap_err().to_string().contains("`lstopo machine.xml`"), "{document}");
    }
    let whole = hwloc::xml_of("l3:2 core:1 pu:1");
    let whole = whole.trim_end_matches(['\n', '\0']);
    assert!(xml(whole).is_ok());
    for end in 0..whole.len() {
        assert!(xml(&whole[..end]).is_err(), "cut at {end}");
    }
}

/// Generates descriptions in which each level may be present or absent. The levels are in the order of real machines,
/// from the outermost on.
fn descriptions() -> impl Strategy<Value = String> {
    let level = |name: &'static str, most: usize| prop_oneof![2 => Just(String::new()), 1 => (1..=most).prop_map(move |n| format!("{name}:{n} "))];
    let attached = || prop_oneof![4 => Just(""), 1 => Just("[numa] "), 1 => Just("[numa] [numa] ")];
    let outer = (level("group", 2), level("pack", 2), level("die", 2), level("numa", 2), level("l4", 2));
    let inner = (level("l3", 3), level("l2", 2), level("l1", 1), level("l1i", 1), level("core", 3));
    (outer, inner, 1..=3_usize, [attached(), attached(), attached()], any::<u64>()).prop_map(
        |(outer, inner, threads, at, seed)| {
            let (group, pack, die, numa, l4) = outer;
            let (l3, l2, l1, l1i, core) = inner;
            let at = if numa.is_empty() { at } else { [""; 3] };
            let levels =
                format!("{}{group}{pack}{}{die}{numa}{l4}{l3}{}{l2}{l1}{l1i}{core}", at[0], at[1], at[2]);
            let total = by_hand(&format!("{levels}pu:{threads}")).cpus().len();
            format!("{levels}pu:{threads}{}", indexes(total, seed))
        },
    )
}

/// Returns the attribute that numbers `total` CPUs: an empty text, a list with gaps, or loops.
fn indexes(total: usize, seed: u64) -> String {
    match seed % 3 {
        0 => String::new(),
        1 => {
            let mut list: Vec<usize> = (0..total).map(|at| at * 3).collect();
            list.rotate_left(seed as usize / 3 % total);
            let list: Vec<String> = list.iter().map(usize::to_string).collect();
            format!("(indexes={})", list.join(","))
        }
        _ => {
            let steps: Vec<usize> = (1..=total).filter(|step| total % step == 0).collect();
            let step = steps[seed as usize / 3 % steps.len()];
            format!("(indexes={step}*{}:1*{step})", total / step)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// spec: A6.3
    #[test]
    fn hwloc_and_the_small_reader_tell_the_same_of_a_description(description in descriptions()) {
        let source = TopologySource::Synthetic(description.clone());
        prop_assert_eq!(by_hwloc(&source), by_hand(&description), "{}", description);
    }

    /// spec: A6.3: hwloc accepts each description that the reader without hwloc accepts, and reads the same topology.
    /// So the feature `hwloc` makes no valid description invalid.
    #[test]
    fn the_readers_agree_on_what_looks_like_a_description(
        text in "( |\\[numa\\]|pu:|core:|l3:|[0-9]{1,2}|\\(indexes=|[0-9],|[0-9]\\*[0-9]|:|\\)){0,8}",
    ) {
        // hwloc takes minutes and gigabytes for the largest machines.
        if synthetic::read(&text).is_ok_and(|cpus| cpus.len() <= 1000) {
            prop_assert_eq!(described(&text).ok(), Some(by_hand(&text)), "{}", text);
        }
    }
}
