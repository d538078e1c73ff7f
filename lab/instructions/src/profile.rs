//! The instructions of each function. Inlined code counts for the function that contains it.
//!
//! `callgrind_annotate` would attribute all instructions to a thread's first function, because counting begins in the
//! middle of other functions.

use std::collections::HashMap;

/// The instructions of each function in some rounds, without those of the functions that it calls.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    functions: HashMap<String, u64>,
}

impl Profile {
    /// Adds callgrind's output for a round.
    pub(crate) fn add(&mut self, text: &str) {
        let mut names: HashMap<&str, &str> = HashMap::new();
        let (mut function, mut is_of_callee) = ("", false);
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                function = known(&mut names, name);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                known(&mut names, name);
            } else if line.starts_with("calls=") {
                is_of_callee = true;
            } else if let Some(own) = cost(line)
                && !std::mem::take(&mut is_of_callee)
            {
                *self.functions.entry(function.to_owned()).or_default() += own;
            }
        }
    }

    /// Returns the functions with the most instructions, the largest number first. The numbers are instructions per
    /// operation, for this many operations.
    pub(crate) fn most(&self, operations: usize) -> Vec<(String, f64)> {
        let total: u64 = self.functions.values().sum();
        let matters = |(_, own): &(&String, &u64)| **own * 200 >= total && **own > 0;
        let each = |(name, own): (&String, &u64)| (name.clone(), *own as f64 / operations as f64);
        let mut most: Vec<(String, f64)> = self.functions.iter().filter(matters).map(each).collect();
        most.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        most
    }
}

/// Returns the name of a function. callgrind writes a name together with a number once, and later only the number.
fn known<'t>(names: &mut HashMap<&'t str, &'t str>, text: &'t str) -> &'t str {
    match text.split_once(' ') {
        Some((number, name)) => {
            names.insert(number, name);
            name
        }
        None => names.get(text).copied().unwrap_or(text),
    }
}

/// Returns the cost in a line. Such a line begins with a position, which is absolute or relative to the last position.
fn cost(line: &str) -> Option<u64> {
    line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)).then_some(())?;
    line.split_once(' ')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_a_callee_are_its_own() {
        let text = "events: Ir\nsummary: 115\n\nfn=(3) push\n0 40\n+3 20\ncfn=(7) alloc\ncalls=2 0\n0 50\n* 5\n\n\
                    fn=(7)\n0 50\n\nfn=(9) idle\n\ntotals: 115\n";
        let mut profile = Profile::default();
        profile.add(text);
        let own = |name: &str, count: f64| (name.to_owned(), count);
        assert_eq!(profile.most(5), [own("push", 13.0), own("alloc", 10.0)]);
        profile.add(text);
        assert_eq!(profile.most(10), [own("push", 13.0), own("alloc", 10.0)], "numbers are those of a round");
    }
}
