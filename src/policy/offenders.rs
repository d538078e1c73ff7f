//! Decides which offences of items, such as a block without a guard, are reported. Reports become ever rarer, like the
//! kernel's reports of CPU hogs.

#![forbid(unsafe_code)]

/// The number of an item type's first reported offence. The offences are numbered from 1 on.
pub(crate) const TOLD_FROM: u64 = 4;

/// Returns whether the offence number `count` of an item type is reported. The reported offences are the 4th, 5th, 7th,
/// 11th, 19th, 35th, and so on.
pub(crate) const fn is_told(count: u64) -> bool {
    count >= TOLD_FROM && (count - (TOLD_FROM - 1)).is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// spec: S2.2 (reported from the 4th time with exponential back-off)
    #[test]
    fn the_fourth_is_reported_and_then_ever_fewer() {
        let told: Vec<u64> = (0..600).filter(|count| is_told(*count)).collect();
        assert_eq!(told, [4, 5, 7, 11, 19, 35, 67, 131, 259, 515]);
        assert!(!is_told(u64::MAX));
        assert!(is_told((1 << 63) + 3), "the last one");
    }
}
