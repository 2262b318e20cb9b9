"""From profiled trials to the functions that take the time: by contender and side. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from thunderherd.metrics.table import SIDES, Side
from thunderherd.records.extra_trials import ContenderProfile, SelfSymbol, Share, SideProfile
from thunderherd.records.profiled_trial import ProfiledTrial, SideSamples
from thunderherd.records.summary import ContenderSummary, Summary
from thunderherd.stacks.call_stacks import (
    Stack,
    added,
    folded,
    for_callers,
    from_calls,
    in_batches,
    samples_of,
    self_symbols,
    without_sampling,
)
from thunderherd.stacks.symbols import CopyKind, copying, in_network
from thunderherd.statistics.clustered_shares import clustered_share

BATCHES = 10
"""Parts of each trial, in order of time, that are assumed to be independent of each other."""
CONFIDENCE = 0.95
TOP = 10
"""The functions that a profile lists."""
WAITS_FOR_NOTHING = "cycles"
"""The event whose interrupt comes even while others are disabled."""

NO_TRIAL = "the run ended before it was sampled"


def contender_profile(name: str, trials: Sequence[ProfiledTrial], file: str) -> ContenderProfile:
    """Return what the profiled trials of a contender show, including invalid ones.

    `file` is the path of its files without their suffixes.
    """
    valid = _valid(trials)
    if not valid:
        failed = list(dict.fromkeys(reason for each in trials for reason in each.invalid_reasons))
        why = "; ".join(failed) or NO_TRIAL
        return ContenderProfile(contender=name, trials=0, requests=0, sides={}, why=why)
    return ContenderProfile(
        contender=name,
        trials=len(valid),
        requests=sum(map(requests_of, valid)),
        sides={
            side: _side([each.profiles[side] for each in valid], f"{file}{SUFFIXES[side]}")
            for side in SIDES
            if all(side in each.profiles for each in valid)
        },
    )


SUFFIXES: dict[Side, str] = {"server": "", "client": ".clients"}
"""The suffixes of a contender's files, by side."""


def _valid(trials: Iterable[ProfiledTrial]) -> list[ProfiledTrial]:
    return [each for each in trials if each.valid and each.profiles]


def requests_of(trial: ProfiledTrial) -> int:
    """Return the requests in the window of a trial; in a whole life, all requests of its clients."""
    requests = (trial.metrics or {}).get("requests")
    if requests is not None and math.isfinite(requests):
        return int(requests)
    return sum(load.tally.requests for load in trial.loads)


def folded_of(trials: Iterable[ProfiledTrial], side: Side, *, calls: bool = False) -> dict[str, int]:
    """Return the folded stacks of a side over all valid trials, with time attributed to callers.

    With `calls`, they hold only what the program called.
    """
    kept = from_calls if calls else list
    read = (_read(each.profiles[side]).stacks for each in _valid(trials) if side in each.profiles)
    return added(folded(kept(stacks)) for stacks in read)


class _Read(NamedTuple):
    """The stacks of a side after attribution."""

    stacks: list[Stack]
    moved: int | None
    """Samples attributed to a caller; None if none can be."""
    left_out: int
    """Samples of the sampling itself."""


def _read(samples: SideSamples) -> _Read:
    stacks, left_out = without_sampling(samples.read())
    if samples.event == WAITS_FOR_NOTHING:
        return _Read(stacks, None, left_out)
    stacks, moved = for_callers(stacks)
    return _Read(stacks, moved, left_out)


def _side(parts: Sequence[SideSamples], file: str) -> SideProfile:
    """Return one side over all of its trials."""
    found = [_read(each) for each in parts]
    every = [stack for each in found for stack in each.stacks]
    total, left_out = samples_of(every), sum(each.left_out for each in found)
    moved = [each.moved for each in found if each.moved is not None]
    first = parts[0]
    return SideProfile(
        event=first.event,
        why_not_cycles=first.why_not_cycles,
        frequency_hertz=first.frequency_hertz,
        samples=total,
        covered=_covered(parts),
        why_not_cpus=first.why_not_cpus,
        of_sampling=left_out / (total + left_out) if left_out else 0.0,
        lost=sum(each.lost for each in parts),
        throttled=sum(each.throttled for each in parts),
        kernel_symbols=first.kernel_symbols,
        why_no_kernel_symbols=first.why_no_kernel_symbols,
        copying=_share([each.stacks for each in found], _copies),
        copying_by_kind=_by_kind(every, total),
        network=_share([each.stacks for each in found], _in_network) if first.kernel_symbols else None,
        unnamed=_unnamed(every) / total if total else None,
        interrupts_off=sum(moved) / total if moved and total else None,
        top=[
            SelfSymbol(symbol=frame.symbol, mode=frame.mode, share=samples / total)
            for frame, samples in sorted(self_symbols(every).items(), key=lambda each: (-each[1], each[0]))
        ][:TOP],
        folded=f"{file}.folded",
        flame_graph=None,
    )


def _share(trials: Iterable[Sequence[Stack]], counts: Callable[[Stack], bool]) -> Share | None:
    """Return the share of samples that count, with its interval; None without samples."""
    hits: list[int] = []
    sizes: list[int] = []
    for stacks in trials:
        of_trial = in_batches(stacks, BATCHES, counts)
        hits, sizes = [*hits, *of_trial[0]], [*sizes, *of_trial[1]]
    if not sum(sizes):
        return None
    found = clustered_share(hits, sizes, CONFIDENCE)
    return Share(value=found.value, low=found.low, high=found.high, confidence=CONFIDENCE)


def _copies(stack: Stack) -> bool:
    return stack.leaf is not None and copying(*stack.leaf) is not None


def _in_network(stack: Stack) -> bool:
    return in_network(stack.frames)


def _by_kind(stacks: Iterable[Stack], total: int) -> dict[CopyKind, float]:
    found: dict[CopyKind, int] = {"across": 0, "kernel": 0, "program": 0}
    for stack in stacks:
        kind = copying(*stack.leaf) if stack.leaf is not None else None
        if kind is not None:
            found[kind] += len(stack.at_ns)
    return {kind: samples / total for kind, samples in found.items()} if total else {}


def _covered(parts: Sequence[SideSamples]) -> float | None:
    due = sum(each.cpu_ns * each.frequency_hertz for each in parts) / 1e9
    return sum(each.taken for each in parts) / due if due else None


def nanoseconds_a_sample(trials: Iterable[ProfiledTrial], side: Side) -> float:
    """Return the CPU time that a sample of these trials stands for."""
    parts = [each.profiles[side] for each in _valid(trials) if side in each.profiles]
    taken = sum(each.taken for each in parts)
    return sum(each.cpu_ns for each in parts) / taken if taken else 0.0


def _unnamed(stacks: Iterable[Stack]) -> int:
    """Return the samples in functions without a name, for which the engine gives the place in brackets."""
    return sum(len(each.at_ns) for each in stacks if each.leaf is None or each.leaf.symbol.startswith("["))


# Pairs ------------------------------------------------------------------------------------------------------


def differential_pairs(
    contenders: Iterable[ContenderSummary], profiled: Iterable[str], baseline: str | None
) -> list[tuple[str, str]]:
    """Return the pairs for differential flame graphs, from sampled contenders in the order of their places.

    For the main table and each point of a sweep they are the best and the second, and the best and the
    study's baseline.
    """
    names = set(profiled)
    groups: dict[tuple[str | None, str | None], list[str]] = {}
    for each in contenders:
        if each.name in names:
            groups.setdefault((each.sweep, each.point), []).append(each.name)
    pairs = []
    for best, *others in groups.values():
        against = others[:1] + [name for name in others[1:] if name == baseline]
        pairs += [(best, other) for other in against]
    return pairs


def sampled(summary: Summary) -> list[str]:
    """Return the contenders of a run that have a profile."""
    return [each.contender for each in summary.profiles.contenders if each.sides] if summary.profiles else []
