//! System calls that a policy forbids, by a real seccomp(2) filter as in a container.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Runs a command under a filter that fails one system call with one error, for it and all its descendants.
pub fn forbid(command: &mut Command, system_call: libc::c_long, error: i32) {
    let statement = |code: u32, value: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value };
    let mut program = [
        // The number of the system call is the first word of struct seccomp_data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, system_call as u32) },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let enter = move || {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: the calls take numbers and a filter that lives through them.
        let entered = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
        };
        if entered { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(enter) };
}
