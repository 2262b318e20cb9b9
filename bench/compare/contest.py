"""Comparisons of the best forms of two sides: some rounds choose the forms, other rounds judge them.

The best of several forms owes part of its figure to luck in the rounds that chose it ("winner's curse"). Its
figure therefore comes from rounds that had no part in the choice. Both sides are treated alike. Every round
runs the forms in a new random order, and each ratio is of one round.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from common import ratio, shuffled_rounds, spread
from thunderherd.engine.client import EngineError
from thunderherd.engine.process import one_line

ATTEMPTS = 2
"""Attempts at one measurement."""


@dataclass(frozen=True)
class Seen:
    """The result of one run."""

    value: float
    """Bits or round trips per second."""
    copied: float | None = None
    """The share of zero-copy transfers that the kernel copied after all; None if unavailable."""


@dataclass(frozen=True)
class Comparison:
    """The best of some of our forms against the best of some forms of the peers.

    If no peer is installed, our forms are measured alone.
    """

    name: str
    ours: tuple[str, ...]
    peers: tuple[str, ...]


@dataclass
class Outcome:
    """The chosen forms of a comparison."""

    comparison: Comparison
    ours: str | None
    """The chosen form; None if none could be measured."""
    peer: str | None

    @property
    def why_alone(self) -> str:
        """The reason why there is no ratio; empty if both sides have a form."""
        if self.ours is None:
            return "ours could not be measured; see below"
        if not self.comparison.peers:
            return "no peer is installed"
        return "" if self.peer else "no peer could be measured; see below"


@dataclass
class Contest:
    """All comparisons of one cell."""

    choosing: dict[str, list[Seen]] = field(default_factory=dict)
    """Results of the rounds that choose, by form."""
    judging: dict[str, dict[int, Seen]] = field(default_factory=dict)
    """Results of the rounds that judge, by form and number of the round."""
    outcomes: list[Outcome] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Forms that could not be measured in some round, with the last reason.

    A form that fails in a round that chooses is left out of the further rounds that choose.
    """

    def tried(self, name: str, run: Callable[[str], Seen]) -> Seen | None:
        """Measure a form; None if it failed in every attempt."""
        for _ in range(ATTEMPTS):
            try:
                return run(name)
            except EngineError as error:
                reason = one_line(str(error))
        self.failed[name] = reason
        return None

    def judged(self, name: str | None) -> Mapping[int, Seen]:
        """Return number of the round → result of the rounds that judge a form; empty for None."""
        return {} if name is None else self.judging.get(name, {})

    def values(self, name: str | None) -> list[float]:
        """Return the figures by which a form is judged."""
        return [seen.value for seen in self.judged(name).values()]

    def figure(self, name: str | None, unit: float, digits: int) -> str:
        """Write the median with minimum and maximum; "-" if there are none."""
        return spread([value / unit for value in self.values(name)], digits)

    def compared(self, ours: str | None, peer: str | None) -> str:
        """Write the ratio, from the rounds that have both; "-" if there are none."""
        mine, theirs = self.judged(ours), self.judged(peer)
        both = sorted(mine.keys() & theirs.keys())
        return ratio([mine[each].value / theirs[each].value for each in both]) if both else "-"

    def copied(self, name: str) -> float | None:
        """Return the share that was copied after all; None if unavailable."""
        return median_copied([*self.choosing.get(name, []), *self.judging.get(name, {}).values()])


def held(
    comparisons: Sequence[Comparison], run: Callable[[str, bool], Seen], rounds: int, judging: int, cell: str
) -> Contest:
    """Run every form in `rounds` rounds, and the best ones in `judging` further rounds.

    `run` measures a form; its second argument is true in the rounds that choose, which may be short. If it
    raises `EngineError`, it is tried once more, since other processes may have disturbed it.
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
    """Return the name with the highest median; None if none was measured."""
    measured = [name for name in names if seen.get(name)]
    return max(measured, key=lambda name: middle(seen[name]), default=None)


def middle(seen: Sequence[Seen]) -> float:
    """Return the median."""
    return statistics.median(each.value for each in seen)


def median_copied(seen: Sequence[Seen]) -> float | None:
    """Return the median copied share of the runs that have one."""
    shares = [each.copied for each in seen if each.copied is not None]
    return statistics.median(shares) if shares else None
