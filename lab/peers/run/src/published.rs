//! Finds tests and examples in a published source.

/// Returns the module of unit tests at the end of a file, with its attribute, unchanged.
pub(crate) fn unit_tests(source: &str) -> Option<&str> {
    const HEADS: [&str; 2] = ["#[cfg(test)]\nmod test {\n", "#[cfg(test)]\nmod tests {\n"];
    let start = HEADS.iter().find_map(|head| source.find(head))?;
    let end = start + source[start..].find("\n}\n").map(|at| at + "\n}\n".len())?;
    Some(&source[start..end])
}

/// Returns the documentation comments that contain code, with unchanged text. Each becomes the documentation of an
/// empty module.
pub(crate) fn examples(source: &str) -> Vec<String> {
    let mut blocks: Vec<Vec<&str>> = vec![Vec::new()];
    for line in source.lines() {
        let line = line.trim_start();
        match line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
            Some(text) => blocks.last_mut().expect("there is a block").push(text),
            None => blocks.push(Vec::new()),
        }
    }
    blocks.retain(|block| block.iter().any(|line| line.trim_start().starts_with("```")));
    blocks.iter().map(|block| block.iter().map(|line| format!("///{line}\n")).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! A pool.\n//!\n//! ```\n//! assert!(true);\n//! ```\n\n/// No code.\nfn one() {}\n\n    \
        /// ```\n    /// two();\n    /// ```\n    fn two() {}\n\n\
        #[cfg(test)]\nmod tests {\n    fn three() {\n    }\n}\n\nmod more {\n}\n";

    #[test]
    fn the_module_of_tests_is_taken_word_for_word() {
        assert_eq!(unit_tests(SOURCE), Some("#[cfg(test)]\nmod tests {\n    fn three() {\n    }\n}\n"));
        assert_eq!(unit_tests("fn one() {}\n"), None);
    }

    #[test]
    fn comments_with_code_are_examples() {
        let two = "/// ```\n/// two();\n/// ```\n";
        assert_eq!(examples(SOURCE), ["/// A pool.\n///\n/// ```\n/// assert!(true);\n/// ```\n", two]);
    }
}
