use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn parse(list: &str) -> Result<CpuSet, ParseCpuSetError> {
    list.parse()
}

#[test]
fn lists_are_read_and_written_as_the_kernel_does() {
    for (list, written, cpus) in [
        ("", "", vec![]),
        ("\n", "", vec![]),
        ("0", "0", vec![0]),
        ("0-3,8\n", "0-3,8", vec![0, 1, 2, 3, 8]),
        ("8, 0-3", "0-3,8", vec![0, 1, 2, 3, 8]),
        ("1,2,3,1-2", "1-3", vec![1, 2, 3]),
        ("62-65", "62-65", vec![62, 63, 64, 65]),
        ("5-5,65535", "5,65535", vec![5, 65535]),
    ] {
        let set = parse(list).unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), cpus, "{list:?}");
        assert_eq!(set.to_string(), written, "{list:?}");
    }
    assert_eq!(format!("{:?}", parse("0-3,8").unwrap()), "CpuSet(0-3,8)");
}

#[test]
fn a_wrong_list_names_the_wrong_entry() {
    let not_a_number = |entry: &str| ParseCpuSetError::NotANumber { entry: entry.to_owned() };
    let too_large = |entry: &str| ParseCpuSetError::TooLarge { entry: entry.to_owned() };
    for (list, error) in [
        ("0,,3", not_a_number("")),
        ("0,", not_a_number("")),
        ("1,x", not_a_number("x")),
        ("-1", not_a_number("-1")),
        ("+1", not_a_number("+1")),
        ("1-2-3", not_a_number("1-2-3")),
        ("0-8:2/4", not_a_number("0-8:2/4")),
        ("0 - 3", not_a_number("0 - 3")),
        ("3-", not_a_number("3-")),
        ("0,3-2", ParseCpuSetError::Reversed { entry: "3-2".to_owned() }),
        ("65536", too_large("65536")),
        ("0-99999999999999999999999999", too_large("0-99999999999999999999999999")),
    ] {
        assert_eq!(parse(list), Err(error), "{list:?}");
    }
}

#[test]
#[should_panic(expected = "CPU number 65536 is not below 65536")]
fn a_number_out_of_bounds_is_refused() {
    CpuSet::single(CpuSet::LIMIT);
}

#[test]
fn a_removed_cpu_leaves_no_trace() {
    let mut cpus = CpuSet::from_iter([1, 4000]);
    assert!(cpus.remove(4000));
    assert!(!cpus.remove(60_000));
    assert_eq!(cpus, CpuSet::single(1));
    assert!(CpuSet::single(1).intersection(&CpuSet::single(2)).is_empty());
}

fn some_cpus() -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..300_usize, 0..80)
}

proptest! {
    #[test]
    fn operations_are_those_of_a_plain_set(a in some_cpus(), b in some_cpus()) {
        let (x, y): (CpuSet, CpuSet) = (a.iter().copied().collect(), b.iter().copied().collect());
        prop_assert!(x.iter().eq(a.iter().copied()));
        prop_assert_eq!(x.len(), a.len());
        prop_assert_eq!(x.first(), a.first().copied());
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!(x == y, a == b);
        prop_assert!(x.union(&y).iter().eq(a.union(&b).copied()));
        prop_assert!(x.intersection(&y).iter().eq(a.intersection(&b).copied()));
        prop_assert!(x.intersection(&y).is_subset(&x));
        prop_assert_eq!(parse(&x.to_string()), Ok(x));
    }

    #[test]
    fn a_random_text_is_refused_or_read_as_it_is_written(text in "[0-9,\\-x ]{0,20}") {
        if let Ok(cpus) = parse(&text) {
            prop_assert_eq!(parse(&cpus.to_string()), Ok(cpus));
        }
    }
}

#[test]
fn a_set_is_iterated_and_combined_like_other_collections() {
    let (one, other): (CpuSet, CpuSet) = ("0-2,64,130".parse().unwrap(), "2-3,130-131".parse().unwrap());
    let mut seen = Vec::new();
    for cpu in &one {
        seen.push(cpu);
    }
    assert_eq!(seen, [0, 1, 2, 64, 130]);
    assert_eq!((one.iter().len(), one.iter().skip(3).size_hint()), (5, (2, Some(2))));
    assert_eq!(one.clone().into_iter().next_back(), Some(130));
    assert_eq!((&one | &other).to_string(), "0-3,64,130-131");
    assert_eq!((&one & &other).to_string(), "2,130");
    let mut both = one.clone();
    both |= &other;
    assert_eq!(both, one.clone() | other.clone());
    both &= &one;
    assert_eq!((both, one.clone() & other), (one.clone(), "2,130".parse().unwrap()));
    assert_eq!(CpuSet::new().iter().next(), None);
}
