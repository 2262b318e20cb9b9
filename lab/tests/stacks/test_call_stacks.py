"""Stacks: cut, attributed to callers, folded; which functions copy; the interval of a share."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from thunderherd.judge.why.profiles import BATCHES
from thunderherd.stacks.call_stacks import (
    Frame,
    Stack,
    added,
    as_lines,
    cut,
    folded,
    for_callers,
    from_calls,
    in_batches,
    samples_of,
    scaled,
    self_symbols,
    without_sampling,
)
from thunderherd.stacks.symbols import (
    COPIES_IN_KERNEL,
    COPIES_IN_PROGRAM,
    INTERRUPTS_COME_ON,
    copying,
    interrupts_come_on,
    plain,
)
from thunderherd.statistics.clustered_shares import clustered_share


def stack(*names: str, at: tuple[int, ...] = (1,), command: str = "engine") -> Stack:
    """Return a stack of these functions, outermost first; names with `k:` are the kernel's."""
    frames = [Frame(name.removeprefix("k:"), "kernel" if name.startswith("k:") else "user") for name in names]
    return Stack(command, tuple(frames), at)


def names_of(found: Stack) -> list[str]:
    return [frame.symbol for frame in found.frames]


# Attribution to callers


def test_samples_with_interrupts_off_count_for_the_caller() -> None:
    [found], moved = for_callers(
        [stack("main", "k:sys_sendto", "k:sock_def_readable", "k:_raw_spin_unlock_irqrestore", at=(1, 2))]
    )
    assert names_of(found) == ["main", "k:sys_sendto"[2:], "sock_def_readable"]
    assert (found.at_ns, moved) == ((1, 2), 2)


@pytest.mark.parametrize(
    "leaf", ["_raw_spin_unlock_irq", "finish_task_switch.isra.0", "handle_softirqs", "exc_page_fault"]
)
def test_samples_in_each_function_that_enables_interrupts_count_for_the_caller(leaf: str) -> None:
    [found], moved = for_callers([stack("main", "k:caller", f"k:{leaf}")])
    assert names_of(found) == ["main", "caller"] and moved == 1


def test_two_interrupt_functions_in_a_row_count_for_the_caller_of_both() -> None:
    [found], _ = for_callers([stack("k:entry", "k:do_syscall_64", "k:_raw_spin_unlock_irq")])
    assert names_of(found) == ["entry"]


def test_interrupt_function_that_is_no_leaf_is_kept() -> None:
    inner = stack("main", "k:handle_softirqs", "k:net_rx_action")
    assert for_callers([inner]) == ([inner], 0)


def test_user_function_of_that_name_and_stack_without_caller_are_kept() -> None:
    for each in (stack("main", "_raw_spin_unlock_irq"), stack("k:_raw_spin_unlock_irq"), stack()):
        assert for_callers([each]) == ([each], 0)
    # No function between a program and the kernel ran without interrupts.
    entered = stack("main", "k:do_syscall_64")
    assert for_callers([entered]) == ([entered], 0)


def test_the_sampling_itself_is_left_out() -> None:
    own = stack("main", "k:__schedule", "k:__perf_event_task_sched_out", "k:native_read_msr", at=(1, 2, 3))
    other = stack("main", "k:__schedule", "k:native_read_msr")
    assert without_sampling([own, other]) == ([other], 3)
    assert without_sampling([stack("perf_event_mmap")])[1] == 0, "of a program"


# The lists


def test_functions_that_copy_are_known_by_name_and_place() -> None:
    assert copying("rep_movs_alternative", "kernel") == "across"
    assert copying("_copy_to_iter", "kernel") == "across"
    assert copying("memcpy_orig", "kernel") == "kernel"
    assert copying("__memmove_avx_unaligned_erms", "user") == "program"
    assert copying("__memcpy_evex_unaligned", "user") == "program"
    assert copying("memcpy@@GLIBC_2.14", "user") == "program"
    assert copying("csum_partial_copy_generic.cold", "kernel") == "kernel"
    assert copying("_copy_to_iter", "user") is None and copying("__memmove_erms", "kernel") is None
    for other in ("clear_page_rep", "tcp_sendmsg", "copy_process", "copy_page_range", "memset"):
        assert copying(other, "kernel") is None and copying(other, "user") is None


def test_each_function_has_its_source_and_none_is_in_two_lists() -> None:
    for where in (*(source for _, source in COPIES_IN_KERNEL.values()), *INTERRUPTS_COME_ON.values()):
        assert re.search(r"\w+/\w+.*\.[chS]\b", where), where
    assert not COPIES_IN_KERNEL.keys() & INTERRUPTS_COME_ON.keys()
    assert all(plain(name) == name for name in (*COPIES_IN_KERNEL, *COPIES_IN_PROGRAM, *INTERRUPTS_COME_ON))


def test_this_kernel_has_functions_of_both_lists() -> None:
    try:
        lines = Path("/proc/kallsyms").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        pytest.skip(f"/proc/kallsyms: {error}")
    here = {plain(line.split()[2]) for line in lines}
    assert {"_copy_to_iter", "_copy_from_iter"} <= here & COPIES_IN_KERNEL.keys()
    assert any(interrupts_come_on(name, "kernel") for name in here)


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        ("finish_task_switch.isra.0", "finish_task_switch"),
        ("getname_flags.part.0", "getname_flags"),
        ("f.constprop.3.cold", "f"),
        ("memcpy@GLIBC_2.2.5", "memcpy"),
        ("core::ptr::drop_in_place<a::B>", "core::ptr::drop_in_place<a::B>"),
    ],
)
def test_compiler_suffixes_of_names_are_removed(seen: str, name: str) -> None:
    assert plain(seen) == name


# Cutting and folding


def test_window_includes_its_start_and_excludes_its_end() -> None:
    every = [stack("a", at=(9, 10, 19, 20)), stack("b", at=(1,))]
    assert cut(every, 10, 20) == [stack("a", at=(0, 9))]


def test_samples_are_counted_by_function_whatever_the_compiler_calls_it() -> None:
    found = self_symbols([stack("a", "k:f.isra.0", at=(1, 2)), stack("b", "k:f"), stack("c"), stack()])
    assert found == {Frame("f", "kernel"): 3, Frame("c", "user"): 1}


def test_folded_stacks_escape_separators() -> None:
    every = [
        stack("main", "<[u8; 8] as T>::f", "k:tcp_sendmsg", at=(1, 2)),
        stack("main", "<[u8; 8] as T>::f", "k:tcp_sendmsg"),
        stack("a\nb", command=""),
        stack(),
    ]
    found = folded(every)
    assert found == {"?;a?b": 1, "engine": 1, "engine;main;<[u8, 8] as T>::f;tcp_sendmsg_[k]": 3}
    assert sum(found.values()) == samples_of(every)
    assert as_lines(found).splitlines()[-1] == "engine;main;<[u8, 8] as T>::f;tcp_sendmsg_[k] 3"
    assert added([found, {"engine": 4}])["engine"] == 5
    assert scaled({"a": 3, "b": 1}, 0.4) == {"a": 1}


def test_stacks_are_compared_from_the_first_call_out_of_the_design() -> None:
    [first, other, kernel] = from_calls(
        [
            stack("main", "prefork", "send", "k:entry", "k:tcp_sendmsg"),
            stack("main", "epoll", "memcmp"),
            stack("k:a", "k:b"),
        ]
    )
    assert names_of(first) == ["send", "entry", "tcp_sendmsg"]
    assert names_of(other) == ["memcmp"] and names_of(kernel) == ["a", "b"]


def test_batches_are_equal_in_size_and_ordered_by_time() -> None:
    every = [stack("copy", at=(5, 6, 1)), stack("other", at=(2, 3, 4, 7))]
    hits, sizes = in_batches(every, 3, lambda each: each.frames[-1].symbol == "copy")
    assert (hits, sizes) == ([1, 0, 2], [2, 2, 3])
    assert in_batches([], 2, lambda _: True) == ([0, 0], [0, 0])


# The interval


def test_share_is_within_its_interval() -> None:
    found = clustered_share([2, 3, 1, 2], [10, 10, 10, 10])
    assert found.value == 0.2 and 0 < found.low < 0.2 < found.high < 1


def test_shares_of_zero_and_one_have_an_interval() -> None:
    none, everything = clustered_share([0] * 20, [50] * 20), clustered_share([50] * 20, [50] * 20)
    assert (none.value, none.low) == (0, 0) and 0.003 < none.high < 0.006
    assert (everything.value, everything.high) == (1, 1) and 0.994 < everything.low < 0.997


def test_differing_batches_widen_the_interval() -> None:
    same = clustered_share([10] * 20, [50] * 20)
    bursts = clustered_share([0, 20] * 10, [50] * 20)
    assert same.value == bursts.value == 0.2
    assert bursts.high - bursts.low > 2 * (same.high - same.low)
    assert bursts.worth < same.worth / 4


def test_one_batch_has_the_widest_interval() -> None:
    assert clustered_share([5], [50])[1:3] == (0.0, 1.0)
    assert clustered_share([5, 0, 0], [50, 0, 0])[1:3] == (0.0, 1.0)


@pytest.mark.parametrize(
    ("hits", "sizes"),
    [([1], [1, 2]), ([3], [2]), ([0, 0], [0, 0])],
    ids=["batches of one only", "more hits than observations", "no observation"],
)
def test_impossible_batches_are_refused(hits: list[int], sizes: list[int]) -> None:
    with pytest.raises(ValueError):
        clustered_share(hits, sizes)


@pytest.mark.parametrize(
    ("share", "burst", "least"),
    [(0.02, 1, 0.95), (0.3, 1, 0.95), (0.05, 5, 0.92), (0.3, 10, 0.94), (0.3, 25, 0.92), (0.05, 10, 0.87)],
)
def test_coverage_of_the_interval_of_a_share(share: float, burst: int, least: float) -> None:
    """1,000 samples a trial, in bursts of similar ones. Promised coverage: 95 %."""
    random = np.random.default_rng(20)
    held, runs, size = 0, 1000, 1000 // BATCHES
    for _ in range(runs):
        ends = np.cumsum(random.geometric(1 / burst, size=1000))
        kinds = random.random(1000) < share
        samples = kinds[np.searchsorted(ends, np.arange(1000), side="right")]
        hits = samples.reshape(BATCHES, size).sum(axis=1)
        found = clustered_share(hits.tolist(), [size] * BATCHES)
        held += found.low <= share <= found.high
    print(f"share {share:g}, bursts of {burst}: the interval holds it in {held / runs:.1%}")
    assert held / runs >= least
