//! A set of CPU numbers, which is written and read in the format of the kernel's CPU lists.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;
use std::str::FromStr;

const WORD_BITS: usize = u64::BITS as usize;

/// A set of CPU numbers.
///
/// The CPU numbers are those of the operating system, so they may have gaps. A set is written in the format of the
/// kernel's CPU lists, with ranges: `0-3,8`.
///
/// # Examples
///
/// ```
/// use cmwq::CpuSet;
///
/// let cpus: CpuSet = "0-3,8".parse()?;
/// assert_eq!(cpus.len(), 5);
/// assert!(cpus.contains(2) && !cpus.contains(4));
/// assert_eq!(cpus.to_string(), "0-3,8");
/// # Ok::<(), cmwq::ParseCpuSetError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
#[doc(alias = "cpumask")]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` is CPU `n`. The last word is never zero, so equal sets have equal
    /// words.
    words: Vec<u64>,
}

impl CpuSet {
    /// One more than the highest CPU number that a set can hold.
    ///
    /// Because sets have this limit, a mistyped number cannot make a set use gigabytes of memory. No system has nearly
    /// this many CPUs.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// assert_eq!(CpuSet::single(CpuSet::LIMIT - 1).len(), 1);
    /// ```
    pub const LIMIT: usize = 1 << 16;

    /// Returns an empty set.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(cmwq::CpuSet::new().is_empty());
    /// ```
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Returns a set that contains only `cpu`.
    ///
    /// # Panics
    ///
    /// Panics if `cpu` is not below [`CpuSet::LIMIT`].
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(cmwq::CpuSet::single(7).to_string(), "7");
    /// ```
    pub fn single(cpu: usize) -> Self {
        Self::from_iter([cpu])
    }

    /// Returns whether `cpu` is in the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// let cpus = CpuSet::from_iter([0, 2]);
    /// assert!(cpus.contains(2));
    /// assert!(!cpus.contains(1));
    /// ```
    pub fn contains(&self, cpu: usize) -> bool {
        self.words.get(cpu / WORD_BITS).is_some_and(|word| word & bit(cpu) != 0)
    }

    /// Adds `cpu` to the set. Returns true if the CPU was not in the set before.
    ///
    /// # Panics
    ///
    /// Panics if `cpu` is not below [`CpuSet::LIMIT`].
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// let mut cpus = CpuSet::new();
    /// assert!(cpus.insert(3));
    /// assert!(!cpus.insert(3));
    /// ```
    pub fn insert(&mut self, cpu: usize) -> bool {
        assert!(cpu < Self::LIMIT, "CPU number {cpu} is not below {}", Self::LIMIT);
        let index = cpu / WORD_BITS;
        if self.words.len() <= index {
            self.words.resize(index + 1, 0);
        }
        let new = self.words[index] & bit(cpu) == 0;
        self.words[index] |= bit(cpu);
        new
    }

    /// Removes `cpu` from the set. Returns true if the CPU was in the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// let mut cpus = CpuSet::single(3);
    /// assert!(cpus.remove(3));
    /// assert!(!cpus.remove(3));
    /// assert_eq!(cpus, CpuSet::new());
    /// ```
    pub fn remove(&mut self, cpu: usize) -> bool {
        let Some(word) = self.words.get_mut(cpu / WORD_BITS) else { return false };
        let present = *word & bit(cpu) != 0;
        *word &= !bit(cpu);
        self.normalise();
        present
    }

    /// Returns how many CPUs are in the set.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(cmwq::CpuSet::from_iter([0, 2000]).len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// assert!(CpuSet::new().is_empty());
    /// assert!(!CpuSet::single(0).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the CPUs in ascending order.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// let cpus = CpuSet::from_iter([9, 1, 4]);
    /// assert_eq!(cpus.iter().collect::<Vec<_>>(), [1, 4, 9]);
    /// ```
    pub fn iter(&self) -> CpuSetIter<'_> {
        CpuSetIter::new(&self.words)
    }

    /// Returns the lowest CPU, if there is any.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// assert_eq!(CpuSet::from_iter([5, 3]).first(), Some(3));
    /// assert_eq!(CpuSet::new().first(), None);
    /// ```
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// Returns the CPUs that are in both sets.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// let common = CpuSet::from_iter([0, 1]).intersection(&CpuSet::from_iter([1, 2]));
    /// assert_eq!(common, CpuSet::single(1));
    /// ```
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        let mut common = Self { words };
        common.normalise();
        common
    }

    /// Returns the CPUs that are in either set.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// let all = CpuSet::from_iter([0, 1]).union(&CpuSet::from_iter([1, 2]));
    /// assert_eq!(all.to_string(), "0-2");
    /// ```
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (long, short) = if self.words.len() < other.words.len() { (other, self) } else { (self, other) };
        let mut all = long.clone();
        for (word, more) in all.words.iter_mut().zip(&short.words) {
            *word |= more;
        }
        all
    }

    /// Returns whether every CPU of this set is in `other` too.
    ///
    /// # Examples
    ///
    /// ```
    /// use cmwq::CpuSet;
    ///
    /// assert!(CpuSet::single(1).is_subset(&CpuSet::from_iter([1, 2])));
    /// assert!(!CpuSet::single(3).is_subset(&CpuSet::from_iter([1, 2])));
    /// ```
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.len() <= other.words.len() && self.words.iter().zip(&other.words).all(|(a, b)| a & !b == 0)
    }

    fn normalise(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn bit(cpu: usize) -> u64 {
    1 << (cpu % WORD_BITS)
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<usize> for CpuSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    /// Reads a kernel CPU list. White space around the list and around its entries is ignored, so the text of a file
    /// can be parsed without trimming. A list without entries is the empty set.
    fn from_str(list: &str) -> Result<Self, ParseCpuSetError> {
        let mut cpus = Self::new();
        if list.trim().is_empty() {
            return Ok(cpus);
        }
        for entry in list.split(',').map(str::trim) {
            let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
            let (first, last) = (parse_cpu(entry, first)?, parse_cpu(entry, last)?);
            if first > last {
                return Err(ParseCpuSetError::Reversed { entry: entry.to_owned() });
            }
            cpus.extend(first..=last);
        }
        Ok(cpus)
    }
}

fn parse_cpu(entry: &str, digits: &str) -> Result<usize, ParseCpuSetError> {
    // `parse` alone would accept a plus sign. For a text of digits, `parse` fails only if the number is too large.
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseCpuSetError::NotANumber { entry: entry.to_owned() });
    }
    match digits.parse() {
        Ok(cpu) if cpu < CpuSet::LIMIT => Ok(cpu),
        _ => Err(ParseCpuSetError::TooLarge { entry: entry.to_owned() }),
    }
}

/// The reason why a text is not a CPU list. Each variant carries the invalid entry.
///
/// # Examples
///
/// ```
/// use cmwq::{CpuSet, ParseCpuSetError};
///
/// let error = "0-3,9-8".parse::<CpuSet>().unwrap_err();
/// assert_eq!(error, ParseCpuSetError::Reversed { entry: "9-8".to_owned() });
/// assert_eq!(error.to_string(), "CPU range `9-8` runs downwards: write the lower number first");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseCpuSetError {
    /// The entry is neither a number nor two numbers joined by `-`.
    NotANumber {
        /// The entry as it was written.
        entry: String,
    },
    /// The first number of a range is greater than the last.
    Reversed {
        /// The entry as it was written.
        entry: String,
    },
    /// A number is not below [`CpuSet::LIMIT`].
    TooLarge {
        /// The entry as it was written.
        entry: String,
    },
}

impl fmt::Display for ParseCpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber { entry } => {
                write!(f, "`{entry}` is no CPU number or range: write a list such as `0-3,8`")
            }
            Self::Reversed { entry } => {
                write!(f, "CPU range `{entry}` runs downwards: write the lower number first")
            }
            Self::TooLarge { entry } => {
                write!(f, "`{entry}` names a CPU out of bounds: write numbers below {}", CpuSet::LIMIT)
            }
        }
    }
}

impl Error for ParseCpuSetError {}

mod iter;
mod operators;
#[cfg(feature = "serde")]
mod wire;

pub use self::iter::CpuSetIter;

#[cfg(test)]
mod tests;
