//! The limits of the process's cgroups, versions 1 and 2: the CPU quota, and the number of tasks.
//!
//! Each level of a hierarchy may set a limit, and the smallest limit applies. If the limit of a level cannot be read or
//! is malformed, the level counts as unlimited. Many systems have no cgroups, and containers show only a part of them.
//! This module reads only text files, so it finds no limits on a system without these files.

use std::io;
use std::path::{Path, PathBuf};

use crate::policy::quota::Quota;
use crate::sys::{lossy, machine};

/// The cgroups that may limit the process's CPU time.
#[derive(Debug)]
pub(crate) struct CpuGroups {
    root: PathBuf,
    /// The text of `/proc/self/cgroup` from which `folders` was made.
    membership: Option<String>,
    /// The folders of the process's own groups, each followed by the folders of the groups above it.
    folders: Vec<PathBuf>,
    /// The quota that was read last.
    last: Option<Quota>,
}

/// A place where a hierarchy of cgroups is mounted.
struct Mount {
    /// The group whose folder is mounted at the path `point`.
    root: String,
    point: String,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    /// A hierarchy of version 1, with the requested controller.
    One,
    Two,
}

impl CpuGroups {
    /// Returns the process's cgroups. `last` is the quota that stays in force until the files can be read.
    pub(crate) fn of_process(last: Option<Quota>) -> Self {
        Self { last, ..Self::below("/") }
    }

    /// Returns a value that reads the process's cgroups from the files below the folder `root`. Outside of tests,
    /// `root` is `/`.
    fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), membership: None, folders: Vec::new(), last: None }
    }

    /// Returns the present quota. Reads the mounts again only if the process has moved to other groups.
    pub(crate) fn quota(&mut self) -> Option<Quota> {
        if machine::listens() {
            return None;
        }
        // If the files cannot be read at the moment, the quota that was read last stays in force.
        if let Ok(quota) = self.read() {
            self.last = quota;
        }
        self.last
    }

    fn read(&mut self) -> io::Result<Option<Quota>> {
        let membership = text(&self.root.join("proc/self/cgroup"))?;
        if membership != self.membership {
            let folders = |groups| folders_of(&self.root, groups, "cpu");
            self.folders = membership.as_deref().map_or(Ok(Vec::new()), folders)?;
            self.membership = membership;
        }
        let mut least: Option<Quota> = None;
        for folder in &self.folders {
            for quota in [quota_of_two(folder)?, quota_of_one(folder)?].into_iter().flatten() {
                least = Some(least.map_or(quota, |least| least.min(quota)));
            }
        }
        Ok(least)
    }
}

/// Returns the limit that the process's cgroups set on the number of tasks (processes and their threads). The limit
/// covers the tasks of all processes in these cgroups. Ignores a limit that cannot be read. Ignores all limits if the
/// process lacks descriptors or memory to read them.
pub(crate) fn task_limit() -> Option<u64> {
    task_limit_below(Path::new("/")).ok().flatten()
}

fn task_limit_below(root: &Path) -> io::Result<Option<u64>> {
    let groups = text(&root.join("proc/self/cgroup"))?.unwrap_or_default();
    let mut least = None;
    for folder in folders_of(root, &groups, "pids")? {
        // If there is no limit, the file contains `max`, which is not a number.
        let limit = text(&folder.join("pids.max"))?.and_then(|text| text.trim().parse().ok());
        least = least.into_iter().chain(limit).min();
    }
    Ok(least)
}

/// Returns the folders of the process's groups for this controller, and the folders of the groups above these groups.
/// Leaves out folders that are not visible.
fn folders_of(root: &Path, membership: &str, controller: &str) -> io::Result<Vec<PathBuf>> {
    let mounts = text(&root.join("proc/self/mountinfo"))?.unwrap_or_default();
    let mounts: Vec<Mount> = mounts.lines().filter_map(|line| Mount::parse(line, controller)).collect();
    let groups = membership.lines().filter_map(|line| group(line, controller));
    Ok(groups.flat_map(|(version, path)| upwards(root, &mounts, version, path)).collect())
}

/// Returns the folder of the group `path`, and the folders of the groups above this group. Leaves out folders that are
/// not visible.
fn upwards(root: &Path, mounts: &[Mount], version: Version, path: &str) -> Vec<PathBuf> {
    let of_version = || mounts.iter().filter(|mount| mount.version == version);
    let exact = of_version().find_map(|mount| Some((mount, below(path, &mount.root)?)));
    // In a container, `/proc/self/cgroup` and `mountinfo` may use different roots. If no mount shows the process's
    // group, the group of the first mount counts as the process's own group, because the groups that are visible in the
    // container are the container's groups.
    let Some((mount, path)) = exact.or_else(|| Some((of_version().next()?, ""))) else {
        return Vec::new();
    };
    let top = root.join(mount.point.trim_start_matches('/'));
    let own = top.join(path.trim_matches('/'));
    own.ancestors().take_while(|folder| folder.starts_with(&top)).map(Path::to_owned).collect()
}

/// Returns the part of `path` below the group `root`. Returns `None` if `path` is not visible below `root`.
fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root.trim_end_matches('/'))?;
    // Groups beyond the root of a namespace are not visible.
    let is_seen = !rest.split('/').any(|part| part == "..");
    (is_seen && (rest.is_empty() || rest.starts_with('/'))).then_some(rest)
}

/// Parses a line of `/proc/self/cgroup`, such as `4:cpu,cpuacct:/a/b` or `0::/a/b`. Returns `None` if the line does not
/// name the group of this controller.
fn group<'a>(line: &'a str, controller: &str) -> Option<(Version, &'a str)> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    match controllers {
        "" if number == "0" => Some((Version::Two, path)),
        _ if controllers.split(',').any(|known| known == controller) => Some((Version::One, path)),
        _ => None,
    }
}

impl Mount {
    /// Parses a line of `/proc/self/mountinfo`. The line has six fields, optional further fields, a dash, and three
    /// last fields.
    fn parse(line: &str, controller: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (unescape(before.next()?), unescape(before.next()?));
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let version = match kind {
            "cgroup2" => Version::Two,
            "cgroup" if options.split(',').any(|option| option == controller) => Version::One,
            _ => return None,
        };
        Some(Self { root, point, version })
    }
}

/// Decodes a path of `mountinfo`. The system writes white space and backslashes in paths as a backslash and three octal
/// digits.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

/// Reads a file. If descriptors or memory are short, returns an error, because the next attempt may succeed. Returns
/// `None` if the file does not exist, or cannot be read for another reason.
fn text(path: &Path) -> io::Result<Option<String>> {
    match lossy::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if may_be_over_soon(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns whether the error says that the process or the system has run out of some resource. An error of this kind
/// says nothing about the file that could not be read.
fn may_be_over_soon(error: &io::Error) -> bool {
    [libc::EMFILE, libc::ENFILE, libc::ENOMEM].into_iter().any(|code| error.raw_os_error() == Some(code))
}

fn quota_of_two(folder: &Path) -> io::Result<Option<Quota>> {
    let text = text(&folder.join("cpu.max"))?.unwrap_or_default();
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    // If there is no quota, the first field is `max`, which is not a number.
    Ok(quota(fields.next().flatten(), fields.next().flatten()))
}

fn quota_of_one(folder: &Path) -> io::Result<Option<Quota>> {
    let read = |name| -> io::Result<Option<u64>> {
        Ok(text(&folder.join(name))?.and_then(|text| text.trim().parse().ok()))
    };
    // If there is no quota, the file contains −1, which is not a `u64`.
    Ok(quota(read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?))
}

fn quota(micros: Option<u64>, period: Option<u64>) -> Option<Quota> {
    Quota::new(micros?, period?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// spec: C5: a process that has no descriptor left keeps the quota that it read last.
    #[test]
    fn a_lack_of_descriptors_may_be_over_soon() {
        for (code, soon) in
            [(libc::EMFILE, true), (libc::ENFILE, true), (libc::ENOENT, false), (libc::EACCES, false)]
        {
            assert_eq!(may_be_over_soon(&io::Error::from_raw_os_error(code)), soon, "{code}");
        }
    }
    use std::sync::atomic::{AtomicUsize, Ordering};

    const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str =
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct";

    /// A folder with text files in the layout of a real system.
    struct Tree(PathBuf);

    impl Tree {
        fn new(groups: &str, mounts: &[&str], files: &[(&str, &str)]) -> Self {
            static MADE: AtomicUsize = AtomicUsize::new(0);
            let name = format!("cmwq-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
            let tree = Self(std::env::temp_dir().join(name));
            tree.write("proc/self/cgroup", groups);
            tree.write("proc/self/mountinfo", mounts.join("\n"));
            files.iter().for_each(|(path, text)| tree.write(&format!("sys/fs/cgroup/{path}"), text));
            tree
        }

        fn write(&self, path: &str, text: impl AsRef<[u8]>) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn quota(&self) -> Option<Quota> {
            CpuGroups::below(&self.0).quota()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    /// A quota in hundredths of a CPU.
    fn percent(percent: u64) -> Option<Quota> {
        Quota::new(percent, 100)
    }

    /// spec: C5.3 (v2)
    #[test]
    fn in_version_2_the_smallest_quota_counts() {
        let tree = Tree::new(
            "0::/a/b/c\n",
            &["22 1 8:1 / / rw - ext4 /dev/sda1 rw", V2],
            &[
                ("a/b/c/cpu.max", "max 100000\n"),
                ("a/b/cpu.max", "150000 100000\n"),
                ("a/cpu.max", "40000 10000"),
            ],
        );
        assert_eq!(tree.quota(), percent(150));
        let mut groups = CpuGroups::below(&tree.0);
        assert_eq!(groups.quota(), percent(150));
        tree.write("sys/fs/cgroup/a/b/c/cpu.max", "50000 100000\n");
        assert_eq!(groups.quota(), percent(50), "a quota may change");
        tree.write("proc/self/cgroup", "0::/a\n");
        assert_eq!(groups.quota(), percent(400), "and the process its group");
        tree.write("proc/self/cgroup", "0::/elsewhere\n");
        assert_eq!(groups.quota(), None);
    }

    /// spec: C5.3 (v1)
    #[test]
    fn in_version_1_the_smallest_quota_counts() {
        let groups = "9:cpuset:/x\n4:cpu,cpuacct:/a/b\n3:memory:/a\n1:name=systemd:/y\n0::/z\n";
        let file = |name: &str| format!("cpu,cpuacct/{name}");
        let (own, own_period) = (file("a/b/cpu.cfs_quota_us"), file("a/b/cpu.cfs_period_us"));
        let (above, above_period) = (file("a/cpu.cfs_quota_us"), file("a/cpu.cfs_period_us"));
        let files = |quota| {
            [(&*own, quota), (&*own_period, "50000\n"), (&*above, "300000\n"), (&*above_period, "100000\n")]
        };
        assert_eq!(Tree::new(groups, &[V1], &files("-1\n")).quota(), percent(300));
        assert_eq!(Tree::new(groups, &[V1], &files("100000\n")).quota(), percent(200));
        assert_eq!(Tree::new(groups, &[V1], &files("200000\n")).quota(), percent(300));
    }

    /// spec: C5.3 (v1 and v2)
    #[test]
    fn both_versions_may_be_there() {
        let v2 = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let files = [
            ("unified/a/cgroup.procs", "1\n"),
            ("cpu,cpuacct/b/cpu.cfs_quota_us", "25000"),
            ("cpu,cpuacct/b/cpu.cfs_period_us", "100000"),
        ];
        assert_eq!(Tree::new("4:cpu,cpuacct:/b\n0::/a\n", &[V1, v2], &files).quota(), percent(25));
    }

    /// spec: C5.3: a container sees only a part of the hierarchy, and the groups have other paths in the container.
    #[test]
    fn a_container_sees_its_own_groups() {
        let inside = "31 23 0:28 /docker/1f /sys/fs/cgroup ro - cgroup2 cgroup rw";
        let table = [
            // The columns are the group, the mount, the file with the quota, and whether the quota is found.
            ("/", V2, "cpu.max", true),
            ("/docker/1f", inside, "cpu.max", true),
            ("/docker/1f/sub", inside, "sub/cpu.max", true),
            ("/docker/1f/sub", inside, "cpu.max", true),
            ("/docker/1f2", inside, "2/cpu.max", false),
            // If the group's path does not lie below the mount's root, or leads out of the namespace, the visible group
            // counts as the process's own group.
            ("/", inside, "cpu.max", true),
            ("/../other", V2, "cpu.max", true),
            ("/../other", V2, "other/cpu.max", false),
        ];
        for (group, mount, file, seen) in table {
            let tree = Tree::new(&format!("0::{group}\n"), &[mount], &[(file, "20000 100000\n")]);
            assert_eq!(tree.quota().is_some(), seen, "{group} {mount} {file}");
        }
    }

    /// spec: E2.5 (the smallest limit that the cgroups set on tasks applies)
    #[test]
    fn the_smallest_limit_on_tasks_counts() {
        let v1 = "33 31 0:30 / /sys/fs/cgroup/pids rw shared:10 master:1 - cgroup cgroup rw,pids";
        let limit = |groups: &str, mounts: &[&str], files: &[(&str, &str)]| {
            task_limit_below(&Tree::new(groups, mounts, files).0).unwrap()
        };
        let files = [("a/b/pids.max", "max\n"), ("a/pids.max", "2048\n"), ("pids.max", "4915\n")];
        assert_eq!(limit("0::/a/b\n", &[V2], &files), Some(2048));
        let files = [("pids/a/pids.max", "100\n"), ("cpu,cpuacct/a/pids.max", "7\n")];
        assert_eq!(limit("8:pids:/a\n4:cpu,cpuacct:/a\n", &[V1, v1], &files), Some(100));
        assert_eq!(limit("0::/a\n", &[V2], &[("a/pids.max", "max\n")]), None);
        assert_eq!(limit("0::/a\n", &[], &[("a/pids.max", "7\n")]), None, "not mounted");
        assert_eq!(task_limit_below(Path::new("/nowhere")).unwrap(), None);
    }

    #[test]
    fn paths_are_taken_as_they_are_written() {
        let mount = r"31 23 0:28 / /sys/fs/cgroup/a\040b\134c\9 rw - cgroup2 cgroup2 rw";
        let tree = Tree::new("0::/x: y\n", &[mount], &[(r"a b\c\9/x: y/cpu.max", "20000 100000\n")]);
        assert_eq!(tree.quota(), percent(20));
    }

    /// spec: C5.3: a process finds its limits, even if the path of another mount is not UTF-8.
    #[test]
    fn a_path_that_is_not_utf_8_hides_no_limit() {
        let tree = Tree::new("0::/a\n", &[], &[("a/cpu.max", "50000 100000\n"), ("a/pids.max", "7\n")]);
        let other = b"22 1 8:1 / /mnt/gr\xe4n rw - ext4 /dev/sda1 rw\n";
        tree.write("proc/self/mountinfo", [&other[..], V2.as_bytes()].concat());
        assert_eq!(tree.quota(), percent(50));
        assert_eq!(task_limit_below(&tree.0).unwrap(), Some(7));
    }

    #[test]
    fn malformed_files_set_no_quota() {
        for text in
            ["", "max", "max 100000", "50000", "0 100000", "50000 0", "-5 100000", "a b", "\0\n", "1 2 3 4"]
        {
            let tree = Tree::new("0::/\n", &[V2], &[("cpu.max", text)]);
            let expected = if text == "1 2 3 4" { Quota::new(1, 2) } else { None };
            assert_eq!(tree.quota(), expected, "{text:?}");
        }
        for groups in ["", "\n", "::", "0", "0:", "0::", "x::/", "0:cpu", "5::/", "cpu:cpu:cpu"] {
            let tree = Tree::new(groups, &[V2, V1, "nonsense", " - ", "1 2 - cgroup2"], &[]);
            assert_eq!(tree.quota(), None, "{groups:?}");
        }
        assert_eq!(Tree::new("0::/\n", &[], &[("cpu.max", "50000 100000")]).quota(), None, "not mounted");
        assert_eq!(CpuGroups::below("/nowhere").quota(), None);
    }
}
