//! The table of proofs: `tests/SPEC.md` is `tests/contract.md` with the tests of each clause. The comments of tests
//! name the clauses. `docs/contract.md` has the rows. Each row has clauses, and each clause has a test or is marked as
//! *not yet*.
//!
//! `spec: F1.2` in a test's comment means the second clause of row F1, and `spec: F1` the row as a whole. Several
//! clauses are separated by commas. Each clause may have a remark in parentheses. `make spec` writes the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;

use super::{Source, exists, named_tests, root, sources_of};

/// The row of departures from the kernel, which has no number.
const DEPARTURES: &str = "D";

/// The heads of the contract's table and of the table with tests.
const HEADS: [&str; 2] =
    ["| clause | promise |\n|---|---|\n", "| clause | promise | tests |\n|---|---|---|\n"];

/// The prefix of a clause that no test proves yet.
const NOT_YET: &str = "*not yet*";

/// The tests of each clause or row.
type Proofs = BTreeMap<String, BTreeSet<String>>;

/// Returns the ids of the rows of `docs/contract.md`, in their order.
fn rows() -> &'static [String] {
    static ROWS: OnceLock<Vec<String>> = OnceLock::new();
    ROWS.get_or_init(|| ids_of(&fs::read_to_string(root().join("docs/contract.md")).unwrap()))
}

/// Returns the ids at the beginning of the lines of a contract's tables.
fn ids_of(contract: &str) -> Vec<String> {
    let ids = contract.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    ids.filter(|id| is_name(id) && !id.contains('.')).map(str::to_owned).collect()
}

fn is_row(name: &str) -> bool {
    rows().iter().any(|row| row == name)
}

/// Returns the row of a clause, `F1` of `F1.2`.
fn row_of(clause: &str) -> &str {
    clause.split('.').next().unwrap_or(clause)
}

/// Returns a sort key: by row in the order of the contract, then by number.
fn place(clause: &str) -> (usize, u32) {
    let (row, number) = clause.split_once('.').unwrap_or((clause, "0"));
    let at = rows().iter().position(|known| known == row).unwrap_or(rows().len());
    (at, number.parse().unwrap_or(u32::MAX))
}

/// Returns the clauses and rows that a comment names.
fn named_in(comment: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, mark) in comment.match_indices("spec: ") {
        let mut rest = &comment[at + mark.len()..];
        loop {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
            let name = rest[..end].trim_end_matches('.');
            // A word of another form ends the list. A name that is no row of the contract is an error of the table.
            if !is_name(name) {
                break;
            }
            found.push(name.to_owned());
            rest = after_remark(&rest[name.len()..]);
            match rest.strip_prefix(", ") {
                Some(next) => rest = next,
                None => break,
            }
        }
    }
    found
}

/// Returns whether the name has the form of a row or a clause, such as `F1`, `F1.2` or `D`.
fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix(|c: char| c.is_ascii_uppercase());
    let is_number = |rest: &str| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    name == DEPARTURES || rest.is_some_and(is_number)
}

/// Returns the text after a remark in parentheses, if there is one.
fn after_remark(text: &str) -> &str {
    let mut depth = 0;
    let Some(remark) = text.strip_prefix(" (") else { return text };
    let end = remark.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth < 0
    });
    end.map_or("", |(end, _)| &remark[end + 1..])
}

/// Returns the module of a file, as the paths of tests name it: `it::flush` of `tests/it/flush.rs`, `policy::idle_set`
/// of `src/policy/idle_set.rs`, `cmwqctl::cli` of `cmwqctl/tests/cli.rs`, `examples::axum::http` of
/// `examples/axum/tests/http.rs`, `lab::service::smoke` of `lab/service/tests/smoke.rs`.
fn module_of(path: &str) -> String {
    let folders = match path.split('/').next() {
        Some("cmwqctl") => 1,
        Some("examples") => 2,
        Some("lab") if path.starts_with("lab/service/") => 2,
        _ => 0,
    };
    let package: usize = path.split_inclusive('/').take(folders).map(str::len).sum();
    let (package, path) = path.split_at(package);
    let path = path.trim_start_matches("lab/undeclared/");
    let path = path.trim_start_matches("src/").trim_start_matches("tests/").trim_end_matches(".rs");
    let path = path.trim_end_matches("/mod").trim_end_matches("/main");
    format!("{package}{path}").replace('/', "::")
}

/// Returns the tests of a source, with the comments above them. A function with the attribute of a test is a test, and
/// so is a function with a clause that `is_listed`. A function belongs to the modules of its file that are indented
/// less.
fn commented(source: &Source, is_listed: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let (mut modules, mut found): (Vec<(usize, String)>, Vec<_>) = (Vec::new(), Vec::new());
    let mut comment = String::new();
    let mut is_test = false;
    for line in source.text.lines() {
        let code = line.trim_start();
        let depth = line.len() - code.len();
        let words: Vec<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        if let Some(text) = code.strip_prefix("///") {
            comment.push_str(text);
        } else if let Some(at) =
            words.iter().position(|word| *word == "fn").filter(|_| !code.starts_with("//"))
        {
            modules.retain(|(of_module, _)| *of_module < depth);
            let function = words.get(at + 1).copied().unwrap_or_default();
            let names = modules.iter().map(|(_, name)| name.as_str()).chain([function]);
            let path = names.fold(module_of(&source.path), |path, name| format!("{path}::{name}"));
            let comment = std::mem::take(&mut comment);
            if std::mem::take(&mut is_test) || !named_in(&comment).is_empty() && is_listed(function) {
                found.push((path, comment));
            }
        } else if code.ends_with('{') && words.contains(&"mod") {
            modules.retain(|(of_module, _)| *of_module < depth);
            let at = words.iter().position(|word| *word == "mod").unwrap_or(0);
            modules.push((depth, words.get(at + 1).copied().unwrap_or_default().to_owned()));
            comment.clear();
        } else if code.starts_with("#[") {
            is_test |= code == "#[test]" || code.starts_with("#[tokio::test");
        } else if !code.starts_with("//") {
            comment.clear();
            is_test = false;
        }
    }
    found
}

fn proofs() -> Proofs {
    let mut proofs = Proofs::new();
    let sources: Vec<_> = ["src", "tests", "examples", "cmwqctl", "lab/service", "lab/undeclared"]
        .into_iter()
        .flat_map(sources_of)
        .collect();
    for source in &sources {
        // Some programs list their tests in another file of the same folder.
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let near = || sources.iter().filter(|other| other.path.starts_with(folder));
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let words = || near().flat_map(|source| source.text.split(|c| !is_part(c)));
        let is_listed = |name: &str| words().filter(|word| *word == name).count() > 1;
        for (test, comment) in commented(source, is_listed) {
            for clause in named_in(&comment) {
                proofs.entry(clause).or_default().insert(test.clone());
            }
        }
    }
    proofs
}

/// Parses a line of the contract's table into its clause and its words.
fn clause_of(line: &str) -> Option<(&str, &str)> {
    let (clause, words) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
    is_row(row_of(clause)).then_some((clause, words))
}

/// Returns the table with its tests, and a list of errors.
fn joined(contract: &str, proofs: &Proofs) -> (String, Vec<String>) {
    let (mut table, mut wrong) = (String::new(), Vec::new());
    let clauses: Vec<(&str, &str)> = contract.lines().filter_map(clause_of).collect();
    for line in contract.lines() {
        let Some((clause, words)) = clause_of(line) else {
            table.push_str(&format!("{line}\n"));
            continue;
        };
        let tests = proofs.get(clause);
        match (words.starts_with(NOT_YET), tests) {
            (true, Some(_)) => wrong.push(format!("{clause} has a test, but is marked {NOT_YET}")),
            (false, None) => wrong.push(format!("no test says `spec: {clause}` ({words})")),
            _ => {}
        }
        table.push_str(&line_of(clause, words, tests));
        // The line of the row as a whole follows its last clause.
        let row = row_of(clause);
        if clauses.iter().rfind(|(other, _)| row_of(other) == row).is_some_and(|(last, _)| *last == clause) {
            let whole = proofs.get(row).filter(|_| row != clause);
            table.push_str(
                &whole.map_or(String::new(), |tests| line_of(row, "the row as a whole", Some(tests))),
            );
        }
    }
    let places: Vec<_> = clauses.iter().map(|(clause, _)| place(clause)).collect();
    if !places.is_sorted_by(|one, next| one < next) {
        wrong.push("the clauses are not in order, or two have one number".into());
    }
    let listed: BTreeSet<&str> = clauses.iter().map(|(clause, _)| row_of(clause)).collect();
    wrong.extend(
        rows().iter().filter(|row| !listed.contains(row.as_str())).map(|row| format!("{row} is missing")),
    );
    let known: BTreeSet<&str> = clauses.iter().map(|(clause, _)| *clause).collect();
    let is_known = |clause: &str| {
        if clause.contains('.') { known.contains(clause) } else { is_row(clause) }
    };
    for (clause, tests) in proofs.iter().filter(|(clause, _)| !is_known(clause)) {
        wrong.push(format!("there is no clause {clause}, which {tests:?} name"));
    }
    (table.replacen(HEADS[0], HEADS[1], 1), wrong)
}

fn line_of(clause: &str, words: &str, tests: Option<&BTreeSet<String>>) -> String {
    let tests: Vec<String> = tests.into_iter().flatten().map(|test| format!("`{test}`")).collect();
    format!("| {clause} | {words} | {} |\n", tests.join(", "))
}

#[test]
fn comments_are_read() {
    for (comment, named) in [
        ("spec: F1", &["F1"][..]),
        (
            "spec: P3.2 (under (one) limit, F1), P1, P2.1: F4 is said. Then spec: W10.3.",
            &["P3.2", "P1", "P2.1", "W10.3"],
        ),
        ("spec: D.1, D", &["D.1", "D"]),
        ("the spec: says F1", &[]),
        ("spec: E9, E1", &["E9", "E1"]),
    ] {
        assert_eq!(named_in(comment), named, "{comment}");
    }
    let text = "/// spec: E1\n#[test]\nfn a() {}\n// b\n\n/// c\nmod tests {\n    /// spec: E2\n    /// (d)\n    #[test]\n    \
                fn e() {}\n}\n/// spec: E3\nfn f() {}\n/// spec: E4\nfn g() {}\n";
    let source = Source { path: "src/policy/mod.rs".into(), text: text.into() };
    let functions = commented(&source, |name| name == "g");
    let names: Vec<&str> = functions.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["policy::a", "policy::tests::e", "policy::g"]);
    assert_eq!(functions[1].1, " spec: E2 (d)");
}

#[test]
fn errors_of_a_table_are_reported() {
    let contract = "Words.\n| E1.1 | a |\n| E1.2 | *not yet*: b |\n| E2.1 | c |\n";
    let proof = |clause: &str| (clause.to_owned(), BTreeSet::from(["t::x".to_owned()]));
    let (table, wrong) = joined(contract, &[proof("E1.1"), proof("E1"), proof("E2.1")].into());
    let lines = "| E1.1 | a | `t::x` |\n| E1.2 | *not yet*: b |  |\n| E1 | the row as a whole | `t::x` |\n| E2.1 | c | `t::x` |\n";
    assert_eq!(table, format!("Words.\n{lines}"));
    assert_eq!(wrong.len(), rows().len() - 2, "only errors about missing rows: {wrong:?}");

    let told = |contract: &str, proofs: &[&str]| {
        let (_, wrong) = joined(contract, &proofs.iter().map(|clause| proof(clause)).collect());
        wrong.len() - (rows().len() - 2)
    };
    assert_eq!(
        told(contract, &["E1.1", "E2.1", "E1.2"]),
        1,
        "a clause with a test that is marked as not yet"
    );
    assert_eq!(told(contract, &["E1.1"]), 1, "a clause without a test");
    assert_eq!(told(contract, &["E1.1", "E2.1", "E2.7"]), 1, "a clause that does not exist");
    assert_eq!(told(contract, &["E1.1", "E2.1", "E9"]), 1, "a row that does not exist");
    assert_eq!(told("| E2.1 | c |\n| E1.1 | a |\n", &["E1.1", "E2.1"]), 1, "clauses out of order");
}

#[test]
fn rows_of_the_contract_are_read() {
    let text = "| id | promise |\n|---|---|\n| E1 | a `E9` |\n| E10 | b |\nE7 is text.\n\n| D | c |\n";
    assert_eq!(ids_of(text), ["E1", "E10", "D"]);
    let twice: BTreeSet<&String> = rows().iter().collect();
    assert_eq!(twice.len(), rows().len(), "an id stands in the contract twice");
    assert!(rows().len() > 60, "{:?}", rows());
}

/// The rows describe promises to users. So they use the names of the present crate, and name no file outside of it.
#[test]
fn the_contract_stands_by_itself() {
    let contract = fs::read_to_string(root().join("docs/contract.md")).unwrap();
    for path in
        contract.split('`').skip(1).step_by(2).filter(|word| word.contains('/') && !word.contains(' '))
    {
        let is_file = ["src", "tests", "docs", "lab"].iter().any(|folder| path.starts_with(folder));
        assert!(!is_file || root().join(path).exists(), "there is no {path}");
    }
    assert!(contract.lines().all(|line| !line.starts_with('|') || line.ends_with('|')));
}

#[test]
fn the_table_of_proofs_is_up_to_date() {
    let contract = fs::read_to_string(root().join("tests/contract.md")).unwrap();
    let (table, wrong) = joined(&contract, &proofs());
    assert!(wrong.is_empty(), "{wrong:#?}");
    let missing: Vec<&str> = named_tests(&table).into_iter().filter(|test| !exists(test)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let file = root().join("tests/SPEC.md");
    let head = "<!-- Made by `make spec` from tests/contract.md and the comments of tests. -->\n\n";
    let table = format!("{head}{table}");
    if std::env::var_os("CMWQ_BLESS").is_some() {
        fs::write(file, table).unwrap();
    } else {
        let old = fs::read_to_string(file).unwrap_or_default();
        assert!(old == table, "tests/SPEC.md is out of date: make spec");
    }
}
