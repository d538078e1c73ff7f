//! Reads descriptions of machines in hwloc's synthetic format. The reader uses only the parts that say to which objects
//! the CPUs belong.
//!
//! A description lists levels from the outermost to the CPUs, such as `pack:2 [numa] l3:2 core:4 pu:2`. Each level has
//! a number, which says how many of its objects are in each object of the level before. The objects of a level divide
//! the CPUs evenly and in order. So a CPU's place, divided by the number of CPUs in each object of a level, is the
//! number of the CPU's object on this level.

use std::cmp::Reverse;
use std::error::Error;
use std::fmt;

use crate::policy::cpu_set::CpuSet;
use crate::policy::topology::Cpu;

/// The largest number of CPUs that a description may have. The caller reports an error if a CPU's number is too large
/// for a [`CpuSet`]. This limit only bounds the memory that the reader uses before the caller checks the CPUs.
const CPUS: usize = 16 * CpuSet::LIMIT;

const BLANKS: [char; 2] = [' ', '\n'];

/// The reason why a description cannot be read.
#[derive(Debug)]
pub(super) struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Malformed {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Package,
    Node,
    /// A cache for data.
    Cache,
    Core,
    Cpu,
    /// A level that divides the machine but has no effect on locality: a group, a die or an instruction cache.
    Other,
}

#[derive(Debug)]
struct Level {
    kind: Kind,
    /// The number of objects of this level in the whole machine.
    width: usize,
    /// The number of NUMA nodes that are attached to each object of this level.
    attached: usize,
    /// The numbers of the level's objects, if the description does not number them in order.
    numbers: Option<String>,
}

/// The levels of the described machine. The first level is the machine itself.
#[derive(Debug)]
struct Machine {
    levels: Vec<Level>,
    /// The numbers of attached nodes, if the description does not number them in order.
    attached_numbers: Option<String>,
}

/// A NUMA node and its CPUs. The CPUs are given by their places in the order of the description.
struct Node {
    number: usize,
    first: usize,
    cpus: usize,
}

/// Reads every CPU of the description.
pub(super) fn read(description: &str) -> Result<Vec<Cpu>, Malformed> {
    let machine = parse(description)?;
    let levels = &machine.levels;
    let total = levels.last().map_or(0, |level| level.width);
    let size_of = |level: &Level| total / level.width;
    // If the machine has caches, the outermost level of caches is used. If the machine has no caches, the innermost
    // packages or nodes take the place of the caches.
    let cache = levels.iter().find(|level| level.kind == Kind::Cache);
    let outer = |level: &&Level| matches!(level.kind, Kind::Package | Kind::Node) || level.attached > 0;
    let cache = cache.or_else(|| levels.iter().rev().find(outer)).map_or(total, size_of);
    let core = levels.iter().find(|level| level.kind == Kind::Core).map_or(1, size_of);
    let nodes = nodes_by_place(&machine, total)?;
    let numbers = levels.last().map_or(Ok(None), |level| level.numbers(total))?;
    let cpu = |place: usize| Cpu {
        id: numbers.as_ref().map_or(place, |numbers| numbers[place]),
        core: place / core,
        cache: place / cache,
        node: nodes[place],
    };
    Ok((0..total).map(cpu).collect())
}

/// Returns, for each CPU, the number of its nearest node. The nearest node is the one with the fewest CPUs and, among
/// equals, the lowest number. If the machine has no node, the number is 0 for each CPU.
fn nodes_by_place(machine: &Machine, total: usize) -> Result<Vec<usize>, Malformed> {
    let mut nodes = Vec::new();
    let mut attached = Vec::new();
    for (depth, level) in machine.levels.iter().enumerate() {
        let size = total / level.width;
        if level.kind == Kind::Node {
            let numbers = level.numbers(level.width)?;
            let number = |at| numbers.as_ref().map_or(at, |numbers| numbers[at]);
            nodes.extend((0..level.width).map(|at| Node {
                number: number(at),
                first: at * size,
                cpus: size,
            }));
        }
        let each = (0..level.width * level.attached).map(|at| at / level.attached);
        attached.extend(each.map(|object| (object * size, size, depth)));
    }
    // Attached nodes are numbered in post-order, which means in the order in which a walk through the machine leaves
    // their objects.
    attached.sort_by_key(|(first, size, depth)| (first + size, Reverse(*depth)));
    let numbers =
        machine.attached_numbers.as_deref().map(|list| numbers(list, attached.len())).transpose()?;
    let number = |at| numbers.as_ref().map_or(at, |numbers| numbers[at]);
    nodes.extend(attached.iter().enumerate().map(|(at, &(first, cpus, _))| Node {
        number: number(at),
        first,
        cpus,
    }));
    // The nearest node of a CPU comes last, so that its number replaces the numbers of the CPU's other nodes.
    nodes.sort_by_key(|node| Reverse((node.cpus, node.number)));
    let mut places = vec![0; total];
    for node in nodes {
        places[node.first..node.first + node.cpus].fill(node.number);
    }
    Ok(places)
}

impl Level {
    fn numbers(&self, count: usize) -> Result<Option<Vec<usize>>, Malformed> {
        self.numbers.as_deref().map(|list| numbers(list, count)).transpose()
    }
}

// The text. -------------------------------------------------------------------------------------------------------

fn parse(description: &str) -> Result<Machine, Malformed> {
    let root = Level { kind: Kind::Other, width: 1, attached: 0, numbers: None };
    let mut machine = Machine { levels: vec![root], attached_numbers: None };
    let mut rest = description;
    let _of_the_machine = attributes(&mut rest)?;
    loop {
        rest = rest.trim_start_matches(BLANKS);
        if rest.is_empty() {
            break;
        }
        match rest.strip_prefix('[') {
            Some(inside) => rest = machine.attach(inside)?,
            None => rest = machine.divide(rest)?,
        }
    }
    machine.check()?;
    Ok(machine)
}

impl Machine {
    /// Parses text such as `numa]`, which attaches a node to each object of the last level. Returns the rest of the
    /// text.
    fn attach<'a>(&mut self, text: &'a str) -> Result<&'a str, Malformed> {
        let missing = || Malformed(format!("`[{text}` has no closing bracket: write `[numa]`"));
        let end = text.find(['(', ']']).ok_or_else(missing)?;
        let (name, mut rest) = text.split_at(end);
        if kind(name)? != Kind::Node {
            return Err(Malformed(format!("`[{name}]` cannot be attached: only nodes can, as `[numa]`")));
        }
        self.attached_numbers = attributes(&mut rest)?;
        if let Some(level) = self.levels.last_mut() {
            level.attached += 1;
        }
        rest.strip_prefix(']').ok_or_else(missing)
    }

    /// Parses text such as `core:2`, which adds a level to the machine. Returns the rest of the text.
    fn divide<'a>(&mut self, text: &'a str) -> Result<&'a str, Malformed> {
        let word = text.split(BLANKS).next().unwrap_or(text);
        let (name, rest) = text
            .split_once(':')
            .ok_or_else(|| Malformed(format!("`{word}` has no number: write `core:2`")))?;
        let kind = kind(name)?;
        let rest = rest.trim_start_matches(BLANKS);
        let (digits, mut rest) =
            rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let count = number(digits).ok_or_else(|| {
            Malformed(format!(
                "`{word}` needs a number after the colon, as in `{name}:2`, that has no leading zero"
            ))
        })?;
        if count == 0 {
            return Err(Malformed(format!("`{name}:0` leaves nothing: write 1 or more")));
        }
        let above = self.levels.last().map_or(1, |level| level.width);
        let width = above.checked_mul(count).filter(|width| *width <= CPUS);
        let width = width.ok_or_else(|| Malformed(format!("`{name}:{digits}` makes too many of them")))?;
        let numbers = attributes(&mut rest)?;
        self.levels.push(Level { kind, width, attached: 0, numbers });
        Ok(rest)
    }

    fn check(&self) -> Result<(), Malformed> {
        let count = |kind| self.levels.iter().filter(|level| level.kind == kind).count();
        for (kind, name) in
            [(Kind::Package, "pack"), (Kind::Node, "numa"), (Kind::Core, "core"), (Kind::Cpu, "pu")]
        {
            if count(kind) > 1 {
                return Err(Malformed(format!("`{name}` is a level twice: once is enough")));
            }
        }
        if self.levels.last().is_none_or(|level| level.kind != Kind::Cpu || level.attached > 0) {
            return Err(Malformed("the last level is not that of the CPUs: end with `pu:1`".to_owned()));
        }
        if count(Kind::Node) > 0 && self.levels.iter().any(|level| level.attached > 0) {
            return Err(Malformed("nodes are a level, and attached as well: choose one way".to_owned()));
        }
        Ok(())
    }
}

/// The names of levels. A description may shorten a name to its first two or more letters.
const NAMES: [(&str, Kind); 8] = [
    ("package", Kind::Package),
    ("socket", Kind::Package),
    ("numanode", Kind::Node),
    ("node", Kind::Node),
    ("die", Kind::Other),
    ("group", Kind::Other),
    ("core", Kind::Core),
    ("pu", Kind::Cpu),
];

fn kind(name: &str) -> Result<Kind, Malformed> {
    let lower = name.to_ascii_lowercase();
    let known = match lower.strip_prefix('l') {
        Some(cache) => cache_kind(cache.strip_suffix("cache").unwrap_or(cache)),
        None => {
            let digits = lower.trim_end_matches(|c: char| c.is_ascii_digit());
            let lower = if digits.starts_with("gr") { digits } else { &lower };
            let named = |(full, _): &&(&str, Kind)| lower.len() >= 2 && full.starts_with(lower);
            NAMES.iter().find(named).map(|(_, kind)| *kind)
        }
    };
    known.ok_or_else(|| {
        Malformed(format!(
            "`{name}` is not a kind of level: write pack, die, numa, group, l5 to l1, core or pu"
        ))
    })
}

/// Returns the kind of a level of caches. `cache` is the level's name without the `l`, such as `3` or `1i`.
fn cache_kind(cache: &str) -> Option<Kind> {
    match cache.as_bytes() {
        [b'1'..=b'5'] | [b'1'..=b'5', b'd' | b'u'] => Some(Kind::Cache),
        [b'1'..=b'3', b'i'] => Some(Kind::Other),
        _ => None,
    }
}

/// Removes attributes, such as `(size=1MB indexes=1,0)`, from the beginning of the text, if there are any. Returns the
/// value of the attribute `indexes`.
fn attributes(text: &mut &str) -> Result<Option<String>, Malformed> {
    let Some(inside) = text.strip_prefix('(') else { return Ok(None) };
    let Some((inside, rest)) = inside.split_once(')') else {
        return Err(Malformed(format!("`{text}` has no closing parenthesis")));
    };
    *text = rest;
    let mut indexes = None;
    for attribute in inside.split(BLANKS).filter(|attribute| !attribute.is_empty()) {
        match attribute.split_once('=') {
            Some(("indexes", "")) => {
                return Err(Malformed("`indexes=` has no numbers: write `indexes=0,1`".to_owned()));
            }
            Some(("indexes", list)) => indexes = Some(list.to_owned()),
            Some(("size" | "memory" | "memorysidecachesize", _)) => {}
            _ => {
                return Err(Malformed(format!(
                    "`{attribute}` is not an attribute: write `size=`, `memory=` or `indexes=`"
                )));
            }
        }
    }
    Ok(indexes)
}

/// Parses the numbers of `count` objects, which are given as a list (`0,2,1,3`) or as loops (`2*2:1*2`).
fn numbers(indexes: &str, count: usize) -> Result<Vec<usize>, Malformed> {
    let numbers = if indexes.contains('*') { interleaved(indexes, count)? } else { listed(indexes)? };
    if numbers.len() != count {
        let given = numbers.len();
        return Err(Malformed(format!("`indexes={indexes}` has {given} numbers where {count} are needed")));
    }
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Malformed(format!("`indexes={indexes}` gives the number {} twice", pair[0]))),
        None => Ok(numbers),
    }
}

/// Parses a decimal number. Refuses a sign. Also refuses a zero in front of other digits, because hwloc would read such
/// a number as an octal number.
fn number(text: &str) -> Option<usize> {
    let is_octal = text.len() > 1 && text.starts_with('0');
    let is_decimal = !is_octal && text.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal.then(|| text.parse().ok())?
}

fn listed(indexes: &str) -> Result<Vec<usize>, Malformed> {
    let parse = |text: &str| {
        number(text).ok_or_else(|| {
            Malformed(format!("`{text}` in `indexes={indexes}` is not a number, or has a leading zero"))
        })
    };
    indexes.split(',').map(parse).collect()
}

/// Parses loops, each written as `step*times`. The innermost loop comes first. For example, `2*2:1*2` numbers four
/// objects as 0, 2, 1, 3. The outermost loop may be left out if its step is 1.
fn interleaved(indexes: &str, count: usize) -> Result<Vec<usize>, Malformed> {
    let wrong = |part: &str| {
        Malformed(format!("`{part}` in `indexes={indexes}` is not a step and a count: write `2*4`"))
    };
    let mut loops = Vec::new();
    for part in indexes.split(':') {
        let (step, times) = part.split_once('*').ok_or_else(|| wrong(part))?;
        let parse = |text: &str| number(text).filter(|number| (1..=CPUS).contains(number));
        loops.push((parse(step).ok_or_else(|| wrong(part))?, parse(times).ok_or_else(|| wrong(part))?));
    }
    let covered = loops.iter().try_fold(1_usize, |all, (_, times)| all.checked_mul(*times));
    let covered = covered.filter(|covered| count % covered == 0);
    let covered = covered.ok_or_else(|| {
        Malformed(format!(
            "`indexes={indexes}` does not go through {count} objects: the counts' product must divide {count}"
        ))
    })?;
    loops.push((1, count / covered));
    let number_of = |at: usize| {
        let digit = |(number, weight), (step, times)| (number + at / step % times * weight, weight * times);
        loops.iter().copied().fold((0, 1), digit).0
    };
    Ok((0..count).map(number_of).collect())
}
