"""The meaning of kernel functions, by name: copying, network code, interrupts switched on, sampling.

The lists are fixed. Each symbol has its file: of Linux 5.4 to 6.18 on x86-64 and arm64, and of glibc
for functions that programs call. A function that is not in a list does not count as copying. A sample is
network code by its innermost function that identifies what the kernel was doing. Copies, switches, wake-ups
and page faults have prices of their own and are not network code, even if the network stack caused them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Literal

Mode = Literal["user", "kernel"]
"""The place of a frame: in a program or its libraries, or in the kernel."""

CopyKind = Literal["across", "kernel", "program"]
"""Bytes copied between a program and the kernel, within the kernel, or within the program."""

COPIES_IN_KERNEL: Mapping[str, tuple[CopyKind, str]] = {
    # Between a program and the kernel: the copying function, then callers that may have it inlined.
    "rep_movs_alternative": ("across", "arch/x86/lib/copy_user_64.S (6.4 and later)"),
    "copy_user_generic": ("across", "arch/x86/include/asm/uaccess_64.h"),
    "copy_user_generic_unrolled": ("across", "arch/x86/lib/copy_user_64.S (before 6.4)"),
    "copy_user_generic_string": ("across", "arch/x86/lib/copy_user_64.S (before 6.4)"),
    "copy_user_enhanced_fast_string": ("across", "arch/x86/lib/copy_user_64.S (before 6.4)"),
    "copy_user_short_string": ("across", "arch/x86/lib/copy_user_64.S (before 6.4)"),
    "__copy_user_nocache": ("across", "arch/x86/lib/copy_user_uncached_64.S"),
    "__copy_user_flushcache": ("across", "arch/x86/lib/usercopy_64.c"),
    "copy_mc_to_user": ("across", "arch/x86/lib/copy_mc.c"),
    "__arch_copy_from_user": ("across", "arch/arm64/lib/copy_from_user.S"),
    "__arch_copy_to_user": ("across", "arch/arm64/lib/copy_to_user.S"),
    "raw_copy_from_user": ("across", "arch/x86/include/asm/uaccess_64.h"),
    "raw_copy_to_user": ("across", "arch/x86/include/asm/uaccess_64.h"),
    "_copy_from_user": ("across", "lib/usercopy.c"),
    "_copy_to_user": ("across", "lib/usercopy.c"),
    "_copy_from_iter": ("across", "lib/iov_iter.c"),
    "_copy_to_iter": ("across", "lib/iov_iter.c"),
    "_copy_from_iter_full": ("across", "lib/iov_iter.c (older kernels)"),
    "_copy_from_iter_nocache": ("across", "lib/iov_iter.c"),
    "_copy_from_iter_flushcache": ("across", "lib/iov_iter.c"),
    "_copy_mc_to_iter": ("across", "lib/iov_iter.c"),
    "copyin": ("across", "lib/iov_iter.c (before 6.7)"),
    "copyout": ("across", "lib/iov_iter.c (before 6.7)"),
    "copy_from_user_iter": ("across", "lib/iov_iter.c (6.7 and later)"),
    "copy_to_user_iter": ("across", "lib/iov_iter.c (6.7 and later)"),
    "copy_page_to_iter": ("across", "lib/iov_iter.c"),
    "copy_page_from_iter": ("across", "lib/iov_iter.c"),
    "copy_page_from_iter_atomic": ("across", "lib/iov_iter.c"),
    "copy_folio_from_iter_atomic": ("across", "lib/iov_iter.c"),
    "csum_and_copy_from_user": ("across", "arch/x86/lib/csum-wrappers_64.c"),
    "csum_and_copy_to_user": ("across", "arch/x86/lib/csum-wrappers_64.c"),
    "csum_and_copy_to_iter": ("across", "net/core/datagram.c (lib/iov_iter.c before 6.7)"),
    "csum_and_copy_from_iter_full": ("across", "net/core/skbuff.c (lib/iov_iter.c before 6.7)"),
    "skb_copy_datagram_iter": ("across", "net/core/datagram.c"),
    "skb_copy_datagram_from_iter": ("across", "net/core/datagram.c"),
    "skb_copy_and_csum_datagram_msg": ("across", "net/core/datagram.c"),
    "simple_copy_to_iter": ("across", "net/core/datagram.c"),
    "__skb_datagram_iter": ("across", "net/core/datagram.c"),
    # Within the kernel.
    "memcpy": ("kernel", "arch/x86/lib/memcpy_64.S"),
    "__memcpy": ("kernel", "arch/x86/lib/memcpy_64.S"),
    "memcpy_orig": ("kernel", "arch/x86/lib/memcpy_64.S"),
    "memcpy_erms": ("kernel", "arch/x86/lib/memcpy_64.S (before 6.4)"),
    "memmove": ("kernel", "arch/x86/lib/memmove_64.S"),
    "__memmove": ("kernel", "arch/x86/lib/memmove_64.S"),
    "__pi_memcpy": ("kernel", "arch/arm64/lib/memcpy.S"),
    "__pi_memmove": ("kernel", "arch/arm64/lib/memcpy.S"),
    "__memcpy_flushcache": ("kernel", "arch/x86/lib/usercopy_64.c"),
    "copy_mc_to_kernel": ("kernel", "arch/x86/lib/copy_mc.c"),
    "copy_mc_fragile": ("kernel", "arch/x86/lib/copy_mc_64.S"),
    "copy_mc_enhanced_fast_string": ("kernel", "arch/x86/lib/copy_mc_64.S"),
    "copy_page": ("kernel", "arch/x86/lib/copy_page_64.S, arch/arm64/lib/copy_page.S"),
    "copy_page_regs": ("kernel", "arch/x86/lib/copy_page_64.S"),
    "csum_partial_copy_generic": ("kernel", "arch/x86/lib/csum-copy_64.S"),
    "csum_partial_copy_nocheck": ("kernel", "arch/x86/lib/csum-wrappers_64.c"),
    "skb_copy_bits": ("kernel", "net/core/skbuff.c"),
    "skb_store_bits": ("kernel", "net/core/skbuff.c"),
    "skb_copy_and_csum_bits": ("kernel", "net/core/skbuff.c"),
    "skb_copy_ubufs": ("kernel", "net/core/skbuff.c: copies of pages that were meant for zero-copy"),
}
"""Kernel functions that copy bytes: what they copy, and their file."""

_VARIANTS = (
    "sse2_unaligned", "sse2_unaligned_erms", "ssse3", "ssse3_back", "avx_unaligned", "avx_unaligned_erms",
    "avx_unaligned_rtm", "avx_unaligned_erms_rtm", "evex_unaligned", "evex_unaligned_erms",
    "avx512_unaligned", "avx512_unaligned_erms", "avx512_no_vzeroupper", "erms",
    "generic", "simd", "sve", "mops", "a64fx", "oryon1", "thunderx", "thunderx2", "falkor", "kunpeng",
)  # fmt: skip
"""Variants in sysdeps/x86_64/multiarch/ifunc-impl-list.c and sysdeps/aarch64/multiarch/ifunc-impl-list.c."""

_FUNCTIONS = ("memcpy", "memmove", "mempcpy")

COPIES_IN_PROGRAM = frozenset(
    [
        *_FUNCTIONS,
        *(f"__{name}" for name in _FUNCTIONS),
        *(f"__{name}_{variant}" for name, variant in product(_FUNCTIONS, _VARIANTS)),
        *(f"__{name}_chk" for name in _FUNCTIONS),  # debug/memcpy_chk.c
        *(f"compiler_builtins::mem::{name}" for name in _FUNCTIONS[:2]),  # Rust without a C library's
    ]
)
"""Functions of programs that copy bytes: variants of glibc's that the processor chooses, and Rust's."""

INTERRUPTS_COME_ON: Mapping[str, str] = {
    "_raw_spin_unlock_irqrestore": "kernel/locking/spinlock.c",
    "_raw_spin_unlock_irq": "kernel/locking/spinlock.c",
    "_raw_read_unlock_irqrestore": "kernel/locking/spinlock.c",
    "_raw_read_unlock_irq": "kernel/locking/spinlock.c",
    "_raw_write_unlock_irqrestore": "kernel/locking/spinlock.c",
    "_raw_write_unlock_irq": "kernel/locking/spinlock.c",
    "finish_task_switch": "kernel/sched/core.c: the run queue's lock, held since __schedule",
    "handle_softirqs": "kernel/softirq.c: off since the interrupt, or since do_softirq",
    "__do_softirq": "kernel/softirq.c: the same in older kernels",
    "do_syscall_64": "arch/x86/entry/syscall_64.c (common.c before 6.15): off since the system call's entry",
    "exc_page_fault": "arch/x86/mm/fault.c: off since the fault's entry",
}
"""Functions that switch on the interrupts their caller ran without, and do little else.

A clock that samples by an interrupt finds the processor there whenever the interrupt had to wait. Nearly all
samples in one of these are at the instruction after `sti` or `popf` (docs/decisions/0015 has the command that
shows it). Functions that switch interrupts off and on themselves are not listed.
"""

OF_SAMPLING = frozenset(
    [
        "__perf_event_task_sched_in", "__perf_event_task_sched_out", "perf_event_task_tick",
        "perf_event_init_task", "perf_event_exit_task", "perf_event_free_task", "perf_event_delayed_put",
        "perf_event_fork", "perf_event_exec", "perf_event_comm", "perf_event_mmap", "perf_event_namespaces",
        "perf_event_nmi_handler", "perf_swevent_hrtimer", "perf_pmu_sched_task",
    ]
)  # fmt: skip
"""Functions in which the kernel switches, copies and reads the sampling events.

They are in kernel/events/core.c; perf_event_nmi_handler is in arch/x86/events/core.c. Without sampling,
neither they nor their callees would run.
"""

_SUFFIX = re.compile(r"\.(?:isra|part|constprop|cold|llvm|lto_priv|ipa_split)\b.*$|@@?[A-Z].*$")
"""Suffixes that compilers and linker versions add to a function's name."""


def plain(symbol: str) -> str:
    """Return a function's name as in its source: `finish_task_switch` for `finish_task_switch.isra.0`."""
    return _SUFFIX.sub("", symbol)


def copying(symbol: str, mode: Mode) -> CopyKind | None:
    """Return what a function copies; None if it is not known to copy."""
    name = plain(symbol)
    if mode == "user":
        return "program" if name in COPIES_IN_PROGRAM else None
    found = COPIES_IN_KERNEL.get(name)
    return found[0] if found else None


def of_sampling(symbol: str, mode: Mode) -> bool:
    """True if a kernel function runs because of the sampling."""
    return mode == "kernel" and plain(symbol) in OF_SAMPLING


def interrupts_come_on(symbol: str, mode: Mode) -> bool:
    """True if a kernel function switches on the interrupts that its caller ran without."""
    return mode == "kernel" and plain(symbol) in INTERRUPTS_COME_ON


_OF_SOCKETS = (
    *("__sys_socket", "__sys_connect", "__sys_accept4", "__sys_shutdown", "__sys_setsockopt"),
    *("__sys_getsockopt", "__sys_sendto", "__sys_recvfrom", "__sys_sendmsg", "__sys_recvmsg"),
    *("___sys_sendmsg", "___sys_recvmsg", "sock_sendmsg", "sock_recvmsg", "sock_write_iter"),
    *("sock_read_iter", "sock_sendpage", "sock_splice_read", "sock_poll", "sock_close"),
)

WAYS_IN: Mapping[str, str] = {
    **dict.fromkeys(_OF_SOCKETS, "net/socket.c"),
    "splice_to_socket": "fs/splice.c (6.5 and later)",
    "inet_sendmsg": "net/ipv4/af_inet.c",
    "inet_recvmsg": "net/ipv4/af_inet.c",
    "tcp_sendmsg": "net/ipv4/tcp.c",
    "tcp_recvmsg": "net/ipv4/tcp.c",
    "unix_stream_sendmsg": "net/unix/af_unix.c",
    "unix_stream_recvmsg": "net/unix/af_unix.c",
    "net_rx_action": "net/core/dev.c: the receiving soft interrupt",
    "net_tx_action": "net/core/dev.c",
    "tcp_tasklet_func": "net/ipv4/tcp_output.c",
    "tcp_tsq_workfn": "net/ipv4/tcp_output.c (6.10 and later)",
    "tcp_write_timer": "net/ipv4/tcp_timer.c",
    "tcp_delack_timer": "net/ipv4/tcp_timer.c",
    "tcp_keepalive_timer": "net/ipv4/tcp_timer.c",
}
"""Functions below which everything is network code, up to a function in `WAYS_OUT`."""

WAYS_OUT: Mapping[str, str] = {
    "schedule": "kernel/sched/core.c",
    "__schedule": "kernel/sched/core.c",
    "schedule_timeout": "kernel/time/sleep_timeout.c (timer.c before 6.13)",
    "__cond_resched": "kernel/sched/core.c",
    "try_to_wake_up": "kernel/sched/core.c",
    "__wake_up": "kernel/sched/wait.c",
    "__wake_up_common": "kernel/sched/wait.c",
    "__wake_up_sync_key": "kernel/sched/wait.c",
    "asm_exc_page_fault": "arch/x86/include/asm/idtentry.h",
    "exc_page_fault": "arch/x86/mm/fault.c",
    "do_page_fault": "arch/arm64/mm/fault.c",
    "handle_mm_fault": "mm/memory.c",
    "asm_common_interrupt": "arch/x86/include/asm/idtentry.h",
    "el1_interrupt": "arch/arm64/kernel/entry-common.c",
}
"""Functions that have their own price, or that interrupt the code below them on the stack."""

INTERRUPTS = "asm_sysvec_"
"""The prefix of a processor's own interrupts (arch/x86/include/asm/idtentry.h)."""


def in_network(frames: Sequence[tuple[str, Mode]]) -> bool:
    """True if a stack, outermost first, is in network code."""
    if frames and copying(*frames[-1]) is not None:
        return False
    for name in _kernel_from_within(frames):
        if name in WAYS_IN:
            return True
        if name in WAYS_OUT or name.startswith(INTERRUPTS):
            return False
    return False


def _kernel_from_within(frames: Sequence[tuple[str, Mode]]) -> Iterable[str]:
    for symbol, mode in reversed(frames):
        if mode != "kernel":
            return
        yield plain(symbol)
