//! Every public function has an example of its own, or an example on the page of its type or module calls it.

use std::collections::BTreeMap;

use super::sources_of;

/// A public function, as the sources define it.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    /// The type or trait that the function belongs to, or the module of a free function.
    page: String,
    name: String,
    has_example: bool,
}

/// Returns the examples in a comment.
fn examples_of(comment: &str) -> String {
    comment.split("```").skip(1).step_by(2).collect::<Vec<_>>().join("\n")
}

/// Returns the word at the beginning of the text.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// Returns the type in a line that begins an `impl` block. Returns `None` if the block implements a trait.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let mut depth = 0;
    let end = rest.find(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        c == ' ' && depth == 0
    })?;
    (!rest.contains(" for ")).then(|| word(&rest[end + 1..]))
}

/// Reads the public functions of a file, and adds its examples to those of their pages.
fn read(path: &str, text: &str, examples: &mut BTreeMap<String, String>) -> Vec<Function> {
    let module =
        path.strip_suffix("/mod.rs").or(path.rsplit_once('/').map(|(folder, _)| folder)).unwrap_or(path);
    let (mut page, mut in_trait) = (String::new(), false);
    let (mut comment, mut hidden, mut attribute) = (String::new(), false, 0);
    let mut functions = Vec::new();
    for line in text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default().lines() {
        let code = line.trim_start();
        if let Some(text) = code.strip_prefix("//!") {
            *examples.entry(module.to_owned() + "//!").or_default() += &format!("{text}\n");
            continue;
        }
        if let Some(text) = code.strip_prefix("///") {
            comment += &format!("{text}\n");
            continue;
        }
        if attribute > 0 || code.starts_with("#[") {
            let count = |c| code.matches(c).count() as i32;
            attribute += count('[') - count(']');
            hidden |= code.contains("hidden");
            continue;
        }
        if code.starts_with("//") {
            continue;
        }
        let own = examples_of(&std::mem::take(&mut comment));
        let public = code.strip_prefix("pub ").unwrap_or(if in_trait && line.len() - code.len() == 4 {
            code
        } else {
            ""
        });
        let public = public.trim_start_matches("const ");
        if line == code && !code.is_empty() {
            let kind = ["struct ", "enum ", "trait "].into_iter().find(|kind| public.starts_with(kind));
            if let Some(kind) = kind {
                page = word(&public[kind.len()..]).to_owned();
                *examples.entry(page.clone()).or_default() += &own;
                in_trait = kind == "trait ";
            } else if code.starts_with("impl") {
                (page, in_trait) = (implemented(code).unwrap_or_default().to_owned(), false);
            }
        }
        if let Some(name) = public.strip_prefix("fn ").map(word).filter(|_| !hidden) {
            let page = if line == code { module.to_owned() } else { page.clone() };
            functions.push(Function {
                page: page.clone(),
                name: name.to_owned(),
                has_example: !own.is_empty(),
            });
            *examples.entry(page).or_default() += &own;
        }
        hidden = false;
    }
    functions
}

/// Returns whether the code calls a function of this name.
fn calls(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = &code[at + name.len()..];
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            && (after.starts_with('(') || after.starts_with("::<"))
    })
}

#[test]
fn every_public_function_has_an_example_or_its_page_calls_it() {
    let mut examples = BTreeMap::new();
    let sources = sources_of("src");
    let shipped = sources
        .iter()
        .filter(|source| !["src/runs", "src/sys", "src/guide"].iter().any(|at| source.path.starts_with(at)));
    let functions: Vec<Function> =
        shipped.flat_map(|source| read(&source.path, &source.text, &mut examples)).collect();
    assert!(functions.len() > 250, "{}", functions.len());
    let page = |page: &String| {
        let module = examples.get(&(page.clone() + "//!")).map(|text| examples_of(text)).unwrap_or_default();
        examples.get(page).cloned().unwrap_or_default() + &module
    };
    let lacking: Vec<&Function> = functions
        .iter()
        .filter(|function| !function.has_example && !calls(&page(&function.page), &function.name))
        .collect();
    assert!(lacking.is_empty(), "{lacking:#?}");
}

#[test]
fn functions_and_examples_are_found() {
    let text = "/// A.\n/// ```\n/// A::new().one();\n/// ```\n#[derive(\n    Debug\n)]\npub struct A;\n\nimpl<T: Into<U>> A {\n    \
                pub fn one(self) {}\n\n    /// ```\n    /// two();\n    /// ```\n    #[must_use]\n    pub const fn two(self) {}\n\n    \
                #[doc(hidden)]\n    pub fn three() {}\n}\n\nimpl Clone for A {\n    fn clone() {}\n}\n";
    let mut examples = BTreeMap::new();
    let function = |name: &str, has_example| Function { page: "A".into(), name: name.into(), has_example };
    assert_eq!(read("src/a.rs", text, &mut examples), [function("one", false), function("two", true)]);
    assert!(calls(&examples["A"], "one") && !calls(&examples["A"], "ne"));
    assert!(calls("a.b::<C>()", "b") && !calls("a.bc()", "b"));
}
