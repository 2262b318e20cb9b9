"""The verdicts of a run, and how two runs of one study differ in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thunderherd.records.summary import Summary
from thunderherd.text.figures import words_of

__all__ = ["Compared", "compared", "named_verdicts"]

UNDECIDED = ("undecided", "not testable here")


@dataclass(frozen=True)
class Compared:
    """A verdict in two runs; None: the run does not have it."""

    name: str
    before: str | None
    now: str | None

    @property
    def outcome(self) -> str:
        """`held`, `did not hold`, `undecided`, or `missing`."""
        if self.before is None or self.now is None:
            return "missing"
        if self.before == self.now:
            return "held"
        return "undecided" if self.now in UNDECIDED or self.before in UNDECIDED else "did not hold"


def named_verdicts(summary: Summary) -> dict[str, str]:
    """Return the verdicts on the pairs and claims of a run, by a name for people."""
    found: dict[str, str] = {}
    for pair in summary.family:
        found[f"{pair.a} against {pair.b}, {words_of(pair.metric)}"] = pair.verdict
    for claim in summary.claims:
        found[f"{claim.id} {claim.statement}"] = claim.verdict
    return found


def compared(before: Mapping[str, str], now: Mapping[str, str]) -> list[Compared]:
    """Return each verdict of either run."""
    return [Compared(name, before.get(name), now.get(name)) for name in dict.fromkeys([*before, *now])]
