//! The attributes of a queue, as the view shows them and as the user types them.

use cmwq::control::Attribute;
use cmwq::observe::QueueSnapshot;

/// Returns the value in effect, from the snapshot. Returns `None` if queues of this kind do not have the attribute.
pub(crate) fn value(queue: &QueueSnapshot, attribute: Attribute) -> Option<String> {
    let attrs = queue.attrs.as_ref();
    match attribute {
        Attribute::AffinityScope => attrs.map(|attrs| attrs.scope.to_string()),
        Attribute::AffinityStrict => attrs.map(|attrs| u8::from(attrs.strict).to_string()),
        Attribute::CpuMask => attrs.map(|attrs| attrs.cpus.to_string()),
        Attribute::Nice => attrs.map(|attrs| attrs.nice.to_string()),
        Attribute::MaxActive => queue.max_active.map(|limit| limit.to_string()),
        Attribute::Histograms => Some(u8::from(queue.latency.is_some()).to_string()),
        _ => None,
    }
}

/// Describes the values that the user can type.
pub(crate) fn possible(attribute: Attribute) -> &'static str {
    match attribute {
        Attribute::AffinityScope => "cpu, smt, cache, cache_shard, numa, system or default",
        Attribute::AffinityStrict => "0: items may start elsewhere; 1: they stay in their pod",
        Attribute::CpuMask => "a list of CPUs, 0-3,8, a mask, 0xf, or default",
        Attribute::Nice => "-20 to 19, or default",
        Attribute::MaxActive => "items in flight at once: 1 to 512, plain unbound: 2000",
        Attribute::Histograms => "0: off; 1: times of items are recorded",
        _ => "",
    }
}
