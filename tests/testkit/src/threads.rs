//! Facts about the threads of this process, from `/proc`.
#![allow(unsafe_code, reason = "signal masks are set through libc")]

use std::collections::BTreeSet;
use std::fs;

/// Returns the numbers of the process's threads. Reads the list twice, because Linux may leave out a running thread
/// while other threads end.
pub fn tasks() -> BTreeSet<String> {
    let list = || fs::read_dir("/proc/self/task").expect("Linux lists the threads");
    let tasks = list().chain(list());
    tasks.filter_map(|task| Some(task.ok()?.file_name().to_str()?.to_owned())).collect()
}

/// Returns the name of a thread, or an empty string if the thread has ended.
pub fn name_of(task: &str) -> String {
    read(task, "comm")
}

/// Returns a field of a thread's status, or an empty string if the thread has ended.
pub fn status_of(task: &str, field: &str) -> String {
    field_of(&read(task, "status"), field)
}

/// Returns a field of the calling thread's status.
pub fn own_status(field: &str) -> String {
    field_of(&fs::read_to_string("/proc/thread-self/status").unwrap_or_default(), field)
}

/// Returns a field of the main thread's status.
pub fn main_status(field: &str) -> String {
    status_of(&std::process::id().to_string(), field)
}

fn field_of(status: &str, field: &str) -> String {
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

fn read(task: &str, file: &str) -> String {
    fs::read_to_string(format!("/proc/self/task/{task}/{file}")).unwrap_or_default().trim_end().to_owned()
}

/// Blocks exactly this signal on the calling thread.
pub fn block_only(signal: i32) {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before it is read. With a null pointer, the call returns no old mask.
    let result = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut())
    };
    assert_eq!(result, 0);
}
