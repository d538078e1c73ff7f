//! Reads, checks and changes the attributes of a queue one by one, as text.

use crate::engine::queue::workqueue::Queue;
use crate::error::attrs::ApplyAttrsError;
use crate::error::limit::SetMaxActiveError;
use crate::policy::admission::NO_LIMIT;
use crate::policy::attrs::Attrs;
use crate::policy::cpu_set::CpuSet;
use crate::policy::pods::AffinityScope;
use crate::queue::attrs;
use crate::queue::limits::set_max_active;

use super::attribute::Attribute;
use super::protocol::{ErrorKind, RequestError, shortened};

type Result<T> = std::result::Result<T, RequestError>;

/// Returns the value that is in effect for this attribute. The caller holds a reference to the queue.
pub(super) fn get(queue: &Queue, attribute: Attribute) -> Result<String> {
    let known = value_of(queue, attribute);
    known.ok_or_else(|| inapplicable(queue, attribute))
}

/// Returns all attributes that the queue has, with their values in effect.
pub(super) fn all(queue: &Queue) -> Vec<(Attribute, String)> {
    let values = Attribute::ALL.into_iter();
    values.filter_map(|attribute| Some((attribute, value_of(queue, attribute)?))).collect()
}

/// Returns the value in effect, or `None` if the queue does not have this attribute.
fn value_of(queue: &Queue, attribute: Attribute) -> Option<String> {
    let of_pool = || queue.pool_attrs();
    match attribute {
        Attribute::AffinityScope => {
            let scope = of_pool()?.scope;
            Some(if queue.has_default_scope() { format!("default ({scope})") } else { scope.to_string() })
        }
        Attribute::AffinityStrict => Some(digit(of_pool()?.strict)),
        Attribute::CpuMask => Some(of_pool()?.cpus.to_string()),
        Attribute::Nice => Some(of_pool()?.nice.to_string()),
        Attribute::MaxActive => {
            Some(queue.max_active()).filter(|items| *items != NO_LIMIT).map(|items| items.to_string())
        }
        Attribute::Histograms => Some(digit(queue.latency().is_some())),
    }
}

fn digit(yes: bool) -> String {
    u8::from(yes).to_string()
}

/// Changes only this attribute of the queue. Then returns the attribute's value as [`get`] does. The caller holds a
/// reference to the queue.
pub(super) fn set(queue: &Queue, attribute: Attribute, value: &str) -> Result<String> {
    if !queue.spec.control {
        let message = format!(
            "queue {:?} cannot be changed from outside: its program must build it with `control()`",
            shortened(queue.name())
        );
        return Err(RequestError::new(ErrorKind::NotControllable, message));
    }
    if value_of(queue, attribute).is_none() {
        return Err(inapplicable(queue, attribute));
    }
    let value = value.trim();
    match attribute {
        Attribute::AffinityScope => {
            let scope = value.parse::<AffinityScope>().map_err(|_| {
                let names = AffinityScope::ALL.map(AffinityScope::name).join(", ");
                bad(attribute, value, &format!("one of default, {names}"))
            })?;
            change(queue, Attrs::new().scope(scope), |attrs| attrs.scope(scope))
        }
        Attribute::AffinityStrict => {
            let strict = flag(attribute, value)?;
            change(queue, Attrs::new(), |attrs| attrs.strict(strict))
        }
        Attribute::CpuMask if value == "default" => change(queue, Attrs::new(), Attrs::without_cpus),
        Attribute::CpuMask => {
            let cpus = cpus_of(value).map_err(|right| bad(attribute, value, &right))?;
            change(queue, Attrs::new().cpus(cpus.clone()), |attrs| attrs.cpus(cpus))
        }
        Attribute::Nice if value == "default" => change(queue, Attrs::new(), Attrs::without_nice),
        Attribute::Nice => {
            let level =
                value.parse().map_err(|_| bad(attribute, value, "a number from -20 to 19, or default"))?;
            change(queue, Attrs::new().nice(level), |attrs| attrs.nice(level))
        }
        Attribute::MaxActive => {
            let right = || format!("a number from 1 to {}", queue.spec.most_active);
            let items = value.parse().map_err(|_| bad(attribute, value, &right()))?;
            set_max_active(queue, items).map_err(|error| of_limit(&error))
        }
        Attribute::Histograms => {
            queue.time_items(flag(attribute, value)?);
            Ok(())
        }
    }?;
    get(queue, attribute)
}

/// Checks `new`, which contains only the changed attribute. If `new` is valid, applies `change` to the queue's
/// attributes.
fn change(queue: &Queue, new: Attrs, change: impl FnOnce(Attrs) -> Attrs) -> Result<()> {
    attrs::change_attrs(queue, &new, change).map_err(|error| {
        let kind = match error {
            ApplyAttrsError::PerCpu | ApplyAttrsError::Bh => ErrorKind::Inapplicable,
            ApplyAttrsError::ShutDown => ErrorKind::ShutDown,
            ApplyAttrsError::NoCpu => {
                let message = "the mask names no CPU; write default to use all CPUs of the executor";
                return RequestError::new(ErrorKind::BadValue, message);
            }
            _ => ErrorKind::BadValue,
        };
        RequestError::new(kind, error.to_string())
    })
}

fn of_limit(error: &SetMaxActiveError) -> RequestError {
    let kind = match error {
        SetMaxActiveError::Ordered | SetMaxActiveError::Bh => ErrorKind::Inapplicable,
        SetMaxActiveError::MaxActive { .. } => ErrorKind::BadValue,
    };
    RequestError::new(kind, error.to_string())
}

fn flag(attribute: Attribute, value: &str) -> Result<bool> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(bad(attribute, value, "0 or 1")),
    }
}

fn bad(attribute: Attribute, value: &str, right: &str) -> RequestError {
    let message = format!("{attribute} cannot be {:?}: write {right}", shortened(value));
    RequestError::new(ErrorKind::BadValue, message)
}

fn inapplicable(queue: &Queue, attribute: Attribute) -> RequestError {
    let why = match attribute {
        Attribute::MaxActive => "a bh queue runs one item at a time on each CPU",
        _ => "its items run on the CPU that they were queued on",
    };
    let known: Vec<&str> = all(queue).into_iter().map(|(known, _)| known.name()).collect();
    let name = shortened(queue.name());
    let message = format!("queue {name:?} has no {attribute}: {why}; it has {}", known.join(", "));
    RequestError::new(ErrorKind::Inapplicable, message)
}

/// Reads a list of CPUs (`0-3,8`), or a mask of CPUs as the kernel writes it (`f`, `ff,00000000`, `0x3`).
///
/// A text that could be a list or a mask is read as a list, with one exception: a text of several groups is read as a
/// mask if each group after the first has eight digits.
///
/// # Errors
///
/// If the text has none of the valid forms, returns an error that describes these forms.
fn cpus_of(text: &str) -> std::result::Result<CpuSet, String> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let mut groups = text.split(',').skip(1).peekable();
    let is_grouped = groups.peek().is_some() && groups.all(|group| group.len() == 8);
    let is_mask = is_grouped || text.bytes().any(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_digit());
    let digits = hexadecimal.or(is_mask.then_some(text));
    match digits.map(mask_of) {
        Some(mask) => mask.ok_or_else(|| {
            "a list of CPUs such as 0-3,8, a mask such as f or ff,00000000, or default".to_owned()
        }),
        None => text.parse().map_err(|_| {
            "a list of CPUs such as 0-3,8, a mask such as 0xf or ff,00000000, or default".to_owned()
        }),
    }
}

/// Reads a mask of CPUs: groups of 32 bits in hexadecimal, the highest group first. The first group may have any
/// length. Returns `None` if the text is not a mask.
fn mask_of(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    let (mut lowest, first) = (0, text.matches(',').count());
    for (n, group) in text.rsplit(',').enumerate() {
        let is_last = n == first;
        if group.is_empty() || (group.len() != 8 && !is_last) {
            return None;
        }
        for (digit, letter) in group.chars().rev().enumerate() {
            let bits = letter.to_digit(16)?;
            let set = (0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| lowest + 4 * digit + bit);
            for cpu in set {
                if cpu >= CpuSet::LIMIT {
                    return None;
                }
                cpus.insert(cpu);
            }
        }
        lowest += 32;
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// spec: O5.1 (each text for the attribute `cpumask` is read as a list or as a mask of CPUs, or is refused)
    #[test]
    fn cpus_are_read_as_lists_and_as_masks() {
        for (text, cpus) in [
            ("0-3", Some("0-3")),
            ("0-3,8", Some("0-3,8")),
            ("7", Some("7")),
            ("10", Some("10")),
            ("0x10", Some("4")),
            ("f", Some("0-3")),
            ("1f", Some("0-4")),
            ("ff,00000000", Some("32-39")),
            ("0,00000003", Some("0-1")),
            ("00000000,00000003", Some("0-1")),
            ("80000001,00000000,f0000000", Some("28-31,64,95")),
            ("0x8000000000000001", Some("0,63")),
            ("f,0", None),
            ("0-f", None),
            ("0x", None),
            ("g", None),
            ("3-1", None),
            ("-1", None),
            ("4294967296", None),
            ("", Some("")),
        ] {
            let read = cpus_of(text).ok().map(|cpus| cpus.to_string());
            assert_eq!(read.as_deref(), cpus, "{text:?}");
        }
        assert!(cpus_of(&"f".repeat(CpuSet::LIMIT)).is_err(), "no text makes it allocate gigabytes");
    }

    proptest! {
        #[test]
        fn any_set_is_read_from_both_forms(cpus in proptest::collection::vec(0_usize..200, 0..30)) {
            let cpus: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(cpus_of(&cpus.to_string()), Ok(cpus.clone()));
            let group = |group: usize| (0..32).filter(|bit| cpus.contains(32 * group + bit)).fold(0_u32, |word, bit| word | 1 << bit);
            let mask = (0..7).rev().map(|n| format!("{:08x}", group(n))).collect::<Vec<_>>().join(",");
            prop_assert_eq!(cpus_of(&mask), Ok(cpus));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-fx,\\- ]{0,40}") {
            drop(cpus_of(&text));
        }
    }
}
