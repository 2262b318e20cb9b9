"""Which stacks are in the kernel's network code."""

from __future__ import annotations

import pytest

from thunderherd.stacks.symbols import COPIES_IN_KERNEL, WAYS_IN, WAYS_OUT, in_network, plain

SENDING = ("do_syscall_64", "__x64_sys_sendto", "__sys_sendto", "tcp_sendmsg", "tcp_sendmsg_locked")


@pytest.mark.parametrize(
    ("kernel", "is_network"),
    [
        (SENDING, True),
        ((*SENDING, "__tcp_push_pending_frames", "_raw_spin_lock"), True),
        ((*SENDING, "kmem_cache_alloc_noprof"), True),
        # Copies, switches, wake-ups and page faults have separate prices.
        ((*SENDING, "_copy_from_iter", "rep_movs_alternative"), False),
        ((*SENDING, "_copy_from_iter", "asm_exc_page_fault", "handle_mm_fault", "clear_page"), False),
        (
            ("__sys_recvfrom", "tcp_recvmsg", "sk_wait_data", "wait_woken", "schedule_timeout", "__schedule"),
            False,
        ),
        (
            (*SENDING, "sock_def_readable", "__wake_up_sync_key", "__wake_up_common", "ep_poll_callback"),
            False,
        ),
        # An interrupt within network code is not its doing; the soft interrupt after it may be.
        ((*SENDING, "asm_sysvec_apic_timer_interrupt", "hrtimer_interrupt"), False),
        (
            ("exit_mmap", "asm_sysvec_apic_timer_interrupt", "irq_exit_rcu", "net_rx_action", "tcp_v4_rcv"),
            True,
        ),
        (("do_syscall_64", "__x64_sys_exit_group", "do_exit", "__fput", "sock_close", "inet_release"), True),
        (("do_syscall_64", "__x64_sys_clock_gettime", "posix_cpu_clock_get"), False),
        # Entering a system call has a price.
        (("do_syscall_64", "__x64_sys_sendto"), False),
        (("do_syscall_64", "__sys_sendto.isra.0"), True),
        ((), False),
    ],
)
def test_innermost_known_function_decides(kernel: tuple[str, ...], is_network: bool) -> None:
    frames = [("main", "user"), ("send", "user"), *((name, "kernel") for name in kernel)]
    assert in_network(frames) == is_network  # type: ignore[arg-type]


def test_functions_of_a_program_have_any_name() -> None:
    assert not in_network([("tcp_sendmsg", "user")])
    assert not in_network([])


def test_a_function_has_one_meaning() -> None:
    assert not set(WAYS_IN) & set(WAYS_OUT)
    assert not (set(WAYS_IN) | set(WAYS_OUT)) & set(COPIES_IN_KERNEL)
    assert all(plain(name) == name for name in (*WAYS_IN, *WAYS_OUT))
