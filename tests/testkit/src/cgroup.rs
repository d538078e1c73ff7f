//! A cgroup for a test, below one of the process's own.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A cgroup that this test has made. Dropping this value removes the cgroup.
pub struct Group(PathBuf);

impl Group {
    /// Makes a group with a controller. `controller` is its name under version 1. `prepare` gets the new group and its
    /// parent group, and may write to both.
    ///
    /// # Errors
    ///
    /// If no cgroup of the process has the controller, or the process may not make a group and enter it.
    pub fn make(controller: &str, prepare: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<Self> {
        let name = format!("cmwq-test-{}-{controller}", std::process::id());
        let mut last = io::Error::new(ErrorKind::NotFound, format!("no {controller} controller is mounted"));
        for above in own_groups(controller)? {
            let group = Self(above.join(&name));
            let made = fs::create_dir(&group.0)
                .and_then(|()| prepare(&group.0, &above))
                // The test must also be permitted to enter the group. Opening the file shows this, and does not enter
                // the group.
                .and_then(|()| fs::OpenOptions::new().write(true).open(group.0.join("cgroup.procs")));
            match made {
                Ok(_) => return Ok(group),
                Err(error) => last = io::Error::new(error.kind(), format!("{}: {error}", above.display())),
            }
        }
        Err(last)
    }

    /// Returns the folder of the group.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The system may still count the last thread of the group.
        let is_gone = || !self.0.exists() || fs::remove_dir(&self.0).is_ok();
        let _best_effort = crate::polled(Duration::from_millis(10), Duration::from_secs(1), is_gone);
    }
}

/// Moves this process into a group.
///
/// # Errors
///
/// If the system refuses it.
pub fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// Returns the folders of the process's cgroups that may have the controller. Those of version 1 come first.
fn own_groups(controller: &str) -> io::Result<Vec<PathBuf>> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|known| known == controller) {
            found.insert(0, Path::new("/sys/fs/cgroup").join(controllers).join(path));
        } else if controllers.is_empty() {
            found.push(Path::new("/sys/fs/cgroup").join(path));
        }
    }
    Ok(found)
}
