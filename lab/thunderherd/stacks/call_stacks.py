"""Samples of call stacks: cut to a window, attributed to callers, added up. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from thunderherd.stacks.symbols import Mode, interrupts_come_on, of_sampling, plain

KERNEL_MARK = "_[k]"
"""The suffix of kernel functions in folded stacks, by which flame graphs colour them."""


class Frame(NamedTuple):
    """A function on a stack."""

    symbol: str
    mode: Mode


@dataclass(frozen=True)
class Stack:
    """A call stack with the times of its samples."""

    command: str
    frames: tuple[Frame, ...]
    """Outermost first. The last one is the function that was running."""
    at_ns: tuple[int, ...]
    """The times, one for each sample."""

    @property
    def leaf(self) -> Frame | None:
        """The function that was running; None for an empty stack."""
        return self.frames[-1] if self.frames else None


def cut(stacks: Iterable[Stack], begins_ns: int, ends_ns: int) -> list[Stack]:
    """Return the samples from `begins_ns` to before `ends_ns`, in time since `begins_ns`."""
    found = []
    for stack in stacks:
        inside = tuple(at - begins_ns for at in stack.at_ns if begins_ns <= at < ends_ns)
        if inside:
            found.append(replace(stack, at_ns=inside))
    return found


def for_callers(stacks: Iterable[Stack]) -> tuple[list[Stack], int]:
    """Return the stacks with interrupts-off time attributed to callers, and how many samples that moved.

    A clock that samples by an interrupt waits until interrupts are on again. It then finds the function that
    switched them on, whose caller ran without. That function is taken off the stack.
    """
    found, moved = [], 0
    for stack in stacks:
        frames = stack.frames
        while len(frames) > 1 and interrupts_come_on(*frames[-1]) and frames[-2].mode == "kernel":
            frames = frames[:-1]
        if frames != stack.frames:
            moved += len(stack.at_ns)
            stack = replace(stack, frames=frames)
        found.append(stack)
    return found, moved


def without_sampling(stacks: Iterable[Stack]) -> tuple[list[Stack], int]:
    """Return the stacks without those of the sampling itself, and how many samples these were."""
    every = list(stacks)
    found = [stack for stack in every if not any(of_sampling(*frame) for frame in stack.frames)]
    return found, samples_of(every) - samples_of(found)


def samples_of(stacks: Iterable[Stack]) -> int:
    """Return the number of samples."""
    return sum(len(stack.at_ns) for stack in stacks)


def self_symbols(stacks: Iterable[Stack]) -> Counter[Frame]:
    """Return the samples in each function itself, by its name without a compiler's suffix."""
    found: Counter[Frame] = Counter()
    for stack in stacks:
        if stack.leaf is not None:
            found[Frame(plain(stack.leaf.symbol), stack.leaf.mode)] += len(stack.at_ns)
    return found


def in_batches(
    stacks: Iterable[Stack], batches: int, counts: Callable[[Stack], bool]
) -> tuple[list[int], list[int]]:
    """Split samples, ordered by time, into batches of nearly equal size.

    Returns for each batch how many samples count, and how many there are.
    """
    ordered = sorted((at, counts(stack)) for stack in stacks for at in stack.at_ns)
    edges = [len(ordered) * place // batches for place in range(batches + 1)]
    hits = [sum(each for _, each in ordered[begins:ends]) for begins, ends in pairwise(edges)]
    return hits, [ends - begins for begins, ends in pairwise(edges)]


def from_calls(stacks: Iterable[Stack]) -> list[Stack]:
    """Return each stack from the program's innermost function on: what it called, whoever called it.

    Two designs share no functions, so their whole stacks are never the same.
    """
    found = []
    for stack in stacks:
        modes = [frame.mode for frame in stack.frames]
        begins = len(modes) - 1 - modes[::-1].index("user") if "user" in modes else 0
        found.append(replace(stack, frames=stack.frames[begins:]))
    return found


# Folded -----------------------------------------------------------------------------------------------------


def folded(stacks: Iterable[Stack]) -> dict[str, int]:
    """Return the samples of each stack in flame-graph form, `command;outermost;...;innermost`."""
    found: Counter[str] = Counter()
    for stack in stacks:
        names = [_name(stack.command or "?"), *(_named(frame) for frame in stack.frames)]
        found[";".join(names)] += len(stack.at_ns)
    return dict(sorted(found.items()))


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of folded stacks of several profiles."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return dict(sorted(found.items()))


def scaled(stacks: Mapping[str, int], factor: float) -> dict[str, int]:
    """Return folded stacks in another unit, as whole numbers without zeros."""
    return {name: value for name, samples in stacks.items() if (value := round(samples * factor))}


def as_lines(stacks: Mapping[str, int]) -> str:
    """Return the text of a file of folded stacks."""
    return "".join(f"{name} {samples}\n" for name, samples in stacks.items())


def _named(frame: Frame) -> str:
    return _name(frame.symbol) + (KERNEL_MARK if frame.mode == "kernel" else "")


def _name(text: str) -> str:
    """Return a name as one part of a folded stack, in which `;` separates names."""
    return "".join("," if each == ";" else each if each.isprintable() else "?" for each in text) or "?"
