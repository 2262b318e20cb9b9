"""Samples of call stacks: cut to a window, counted for whom they belong to, added up. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from thunderherd.stacks.symbols import Mode, interrupts_come_on, of_sampling, plain

KERNEL_MARK = "_[k]"
"""Behind a function of the kernel, in folded stacks: flame graphs have a colour for it."""


class Frame(NamedTuple):
    """A function on a stack."""

    symbol: str
    mode: Mode


@dataclass(frozen=True)
class Stack:
    """A call stack, and when it was seen."""

    command: str
    frames: tuple[Frame, ...]
    """Outermost first. The last one is the function that was running."""
    at_ns: tuple[int, ...]
    """One for each sample."""

    @property
    def leaf(self) -> Frame | None:
        """The function that was running; None of a stack without any."""
        return self.frames[-1] if self.frames else None


def cut(stacks: Iterable[Stack], begins_ns: int, ends_ns: int) -> list[Stack]:
    """What was seen from `begins_ns` to before `ends_ns`, in time since `begins_ns`."""
    found = []
    for stack in stacks:
        inside = tuple(at - begins_ns for at in stack.at_ns if begins_ns <= at < ends_ns)
        if inside:
            found.append(replace(stack, at_ns=inside))
    return found


def for_callers(stacks: Iterable[Stack]) -> tuple[list[Stack], int]:
    """The stacks with the time in which interrupts were off where it was spent; and of how many samples that
    is so.

    A clock that samples by an interrupt waits until they are on again. It then finds the function that
    switched them on, whose caller was without: that function is taken off the stack.
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
    """The stacks but for those of the sampling itself; and how many samples these were."""
    every = list(stacks)
    found = [stack for stack in every if not any(of_sampling(*frame) for frame in stack.frames)]
    return found, samples_of(every) - samples_of(found)


def samples_of(stacks: Iterable[Stack]) -> int:
    """How many samples these are."""
    return sum(len(stack.at_ns) for stack in stacks)


def self_symbols(stacks: Iterable[Stack]) -> Counter[Frame]:
    """How many samples found the processor in each function itself, by its name without a compiler's
    suffix."""
    found: Counter[Frame] = Counter()
    for stack in stacks:
        if stack.leaf is not None:
            found[Frame(plain(stack.leaf.symbol), stack.leaf.mode)] += len(stack.at_ns)
    return found


def in_batches(
    stacks: Iterable[Stack], batches: int, counts: Callable[[Stack], bool]
) -> tuple[list[int], list[int]]:
    """Samples in the order of their times, in batches that are as equal as can be: of each how many count,
    and how many there are."""
    ordered = sorted((at, counts(stack)) for stack in stacks for at in stack.at_ns)
    edges = [len(ordered) * place // batches for place in range(batches + 1)]
    hits = [sum(each for _, each in ordered[begins:ends]) for begins, ends in pairwise(edges)]
    return hits, [ends - begins for begins, ends in pairwise(edges)]


def from_calls(stacks: Iterable[Stack]) -> list[Stack]:
    """Each stack from the program's innermost function on: what it called, whoever called it.

    Two designs have no function of theirs in common, so that whole stacks of theirs are never the same.
    """
    found = []
    for stack in stacks:
        modes = [frame.mode for frame in stack.frames]
        begins = len(modes) - 1 - modes[::-1].index("user") if "user" in modes else 0
        found.append(replace(stack, frames=stack.frames[begins:]))
    return found


# Folded -----------------------------------------------------------------------------------------------------


def folded(stacks: Iterable[Stack]) -> dict[str, int]:
    """The stacks in the form of flame graphs, `command;outermost;...;innermost`, with their samples."""
    found: Counter[str] = Counter()
    for stack in stacks:
        names = [_name(stack.command or "?"), *(_named(frame) for frame in stack.frames)]
        found[";".join(names)] += len(stack.at_ns)
    return dict(sorted(found.items()))


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Folded stacks of several profiles together."""
    found: Counter[str] = Counter()
    for part in parts:
        found.update(part)
    return dict(sorted(found.items()))


def scaled(stacks: Mapping[str, int], factor: float) -> dict[str, int]:
    """Folded stacks in another unit, in whole numbers; what is none of it is left out."""
    return {name: value for name, samples in stacks.items() if (value := round(samples * factor))}


def as_lines(stacks: Mapping[str, int]) -> str:
    """A file of folded stacks."""
    return "".join(f"{name} {samples}\n" for name, samples in stacks.items())


def _named(frame: Frame) -> str:
    return _name(frame.symbol) + (KERNEL_MARK if frame.mode == "kernel" else "")


def _name(text: str) -> str:
    """A name that cannot be taken for several: `;` stands between names, a line's end ends the stack."""
    return "".join("," if each == ";" else each if each.isprintable() else "?" for each in text) or "?"
