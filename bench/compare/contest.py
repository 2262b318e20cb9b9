"""Which form of each side is the best is found out in some rounds, and how good it is in others.

The best of several owes some of that to luck in the rounds that show it ("winner's curse"): its figure is
therefore of rounds that had no part in the choice. Both sides are treated alike. In all rounds the forms take
turns, in an order of the round's own, and a ratio is of one round.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from common import ratio, shuffled_rounds, spread
from thunderherd.engine.client import EngineError
from thunderherd.engine.process import one_line

ATTEMPTS = 2
"""At one measurement."""


@dataclass(frozen=True)
class Seen:
    """What one run came to."""

    value: float
    """Bits, or round trips, a second."""
    copied: float | None = None
    """The share that the kernel copied after all, of what was to be moved without copying; None: not told."""


@dataclass(frozen=True)
class Comparison:
    """The best of some of our forms against the best of some of the peers'; a side may have a single one.

    Where no peer is here, ours are measured all the same.
    """

    name: str
    ours: tuple[str, ...]
    peers: tuple[str, ...]


@dataclass
class Outcome:
    """What has become of a comparison."""

    comparison: Comparison
    ours: str | None
    """The form that was chosen; None where none could be measured."""
    peer: str | None

    @property
    def why_alone(self) -> str:
        """Why there is no ratio; empty where both sides have been chosen."""
        if self.ours is None:
            return "ours could not be measured; why is said below"
        if not self.comparison.peers:
            return "no peer is here"
        return "" if self.peer else "no peer could be measured; why is said below"


@dataclass
class Contest:
    """All comparisons of one cell."""

    choosing: dict[str, list[Seen]] = field(default_factory=dict)
    """Of each form the rounds that chose."""
    judging: dict[str, dict[int, Seen]] = field(default_factory=dict)
    """Of each form that was chosen the rounds that judge, by their number."""
    outcomes: list[Outcome] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Forms that could not be measured in some round, and why not in the last of these; one that failed in
    a round that chooses is asked no more in those."""

    def tried(self, name: str, run: Callable[[str], Seen]) -> Seen | None:
        """One measurement; None where it failed, and failed again."""
        for _ in range(ATTEMPTS):
            try:
                return run(name)
            except EngineError as error:
                reason = one_line(str(error))
        self.failed[name] = reason
        return None

    def judged(self, name: str | None) -> Mapping[int, Seen]:
        """The rounds that judge a form, by their number; none where none was chosen."""
        return {} if name is None else self.judging.get(name, {})

    def values(self, name: str | None) -> list[float]:
        """The figures by which a form is judged."""
        return [seen.value for seen in self.judged(name).values()]

    def figure(self, name: str | None, unit: float, digits: int) -> str:
        """Their median, the least and the most; "-" where there are none."""
        return spread([value / unit for value in self.values(name)], digits)

    def compared(self, ours: str | None, peer: str | None) -> str:
        """The ratio, of the rounds that have both; "-" where there are none."""
        mine, theirs = self.judged(ours), self.judged(peer)
        both = sorted(mine.keys() & theirs.keys())
        return ratio([mine[each].value / theirs[each].value for each in both]) if both else "-"

    def copied(self, name: str) -> float | None:
        """The share that was copied after all; None: nothing tells it."""
        return median_copied([*self.choosing.get(name, []), *self.judging.get(name, {}).values()])


def held(
    comparisons: Sequence[Comparison], run: Callable[[str, bool], Seen], rounds: int, judging: int, cell: str
) -> Contest:
    """Runs every form in `rounds` rounds, and those that were the best of them in `judging` others.

    `run` measures a form, briefly where its figure only serves to choose. It raises `EngineError` where it
    cannot: then it is asked once more, since others may have disturbed it.
    """
    contest = Contest()
    names = list(dict.fromkeys(name for each in comparisons for name in (*each.ours, *each.peers)))
    for _, name in shuffled_rounds(names, rounds, f"{cell}, choosing: "):
        if name not in contest.failed and (seen := contest.tried(name, lambda name: run(name, True))):
            contest.choosing.setdefault(name, []).append(seen)
    contest.outcomes = [
        Outcome(each, best(contest.choosing, each.ours), best(contest.choosing, each.peers))
        for each in comparisons
    ]
    finalists = dict.fromkeys(
        name for each in contest.outcomes for name in (each.ours, each.peer) if name is not None
    )
    for number, name in shuffled_rounds(list(finalists), judging, f"{cell}, judging: "):
        if seen := contest.tried(name, lambda name: run(name, False)):
            contest.judging.setdefault(name, {})[number] = seen
    return contest


def best(seen: Mapping[str, Sequence[Seen]], names: Sequence[str]) -> str | None:
    """The one of the names with the highest median; None where none of them was measured."""
    measured = [name for name in names if seen.get(name)]
    return max(measured, key=lambda name: middle(seen[name]), default=None)


def middle(seen: Sequence[Seen]) -> float:
    """The median."""
    return statistics.median(each.value for each in seen)


def median_copied(seen: Sequence[Seen]) -> float | None:
    """That of those that tell it."""
    told = [each.copied for each in seen if each.copied is not None]
    return statistics.median(told) if told else None
