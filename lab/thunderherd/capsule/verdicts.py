"""The verdicts of a run, and how two runs of one study differ in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thunderherd.records.summary import Summary
from thunderherd.text.figures import words_of

__all__ = ["DID_NOT_HOLD", "Compared", "compared", "named_figures", "named_verdicts", "reproduced"]

HELD, DID_NOT_HOLD, OPEN, MISSING = "held", "did not hold", "undecided", "missing"
"""What a verdict can be in another run."""
UNDECIDED = ("undecided", "not testable here")


@dataclass(frozen=True)
class Compared:
    """A verdict or figure in two runs; None: the run does not have it."""

    name: str
    before: str | None
    now: str | None

    @property
    def outcome(self) -> str:
        """Return whether the verdict held in the other run."""
        if self.before is None or self.now is None:
            return MISSING
        if self.now in UNDECIDED or self.before in UNDECIDED:
            return OPEN
        return HELD if self.before == self.now else DID_NOT_HOLD


def reproduced(found: Sequence[Compared]) -> str:
    """Return whether another run of the same study has the same verdicts, in a sentence."""
    held, failed, undecided, missing = (
        sum(each.outcome == name for each in found) for name in (HELD, DID_NOT_HOLD, OPEN, MISSING)
    )
    answer = "Not reproduced" if failed else "Reproduced" if held else "Undecided"
    return (
        f"{answer} with the study of the capsule: {held} of {len(found)} verdicts held, {failed} did not, "
        f"{undecided} are undecided in one of the runs, {missing} exist in one run only"
    )


def named_verdicts(summary: Summary) -> dict[str, str]:
    """Return the verdicts on the pairs and claims of a run, by a name for people."""
    found: dict[str, str] = {}
    for pair in summary.family:
        found[f"{pair.a} against {pair.b}, {words_of(pair.metric)}"] = pair.verdict
    for claim in summary.claims:
        found[f"{claim.id} {claim.statement}"] = claim.verdict
    return found


def named_figures(summary: Summary) -> dict[str, str]:
    """Return the figures behind the verdicts, each with its interval to six digits, by a name for people."""
    found: dict[str, str] = {}
    for each in summary.contenders:
        for metric, estimate in each.metrics.items():
            found[f"{each.name}, {words_of(metric)}"] = _digits(estimate.value, estimate.low, estimate.high)
    for pair in summary.family:
        ratio = _digits(pair.ratio, pair.low, pair.high)
        found[f"ratio of {pair.a} and {pair.b}, {words_of(pair.metric)}"] = ratio
    for claim in summary.claims:
        for one in claim.contrasts:
            found[f"{claim.id} {one['label']}"] = _digits(one["value"], one["low"], one["high"])
    return found


def _digits(*values: float | None) -> str:
    return " ".join("none" if value is None else f"{value:.6g}" for value in values)


def compared(before: Mapping[str, str], now: Mapping[str, str]) -> list[Compared]:
    """Return each verdict or figure that at least one of two runs has."""
    return [Compared(name, before.get(name), now.get(name)) for name in dict.fromkeys([*before, *now])]
