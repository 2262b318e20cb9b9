"""Which samples of a profile are the kernel's network code: by the innermost function on the stack that
tells what the kernel was doing.

Fixed lists, each symbol with the file that it is in, of Linux 5.4 to 6.18. What another price has in it, as a
copy, a switch, a wake-up and a page fault, is not network code even in the midst of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from thunderherd.stacks.symbols import Mode, copying, plain

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
"""Functions below which all is network code, as far as no way out is between."""

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
"""Functions that have another price, or none to do with what they come upon."""

INTERRUPTS = "asm_sysvec_"
"""How the names of interrupts of a processor's own begin (arch/x86/include/asm/idtentry.h)."""


def in_network(frames: Sequence[tuple[str, Mode]]) -> bool:
    """Whether a stack, outermost first, is of network code."""
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
