"""The reasons for differences: explanations, counts per request, profiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from thunderherd.judge.why.pairs import is_first
from thunderherd.metrics.table import NANOSECONDS, SIDE_NAMES, Side, SideOrBoth
from thunderherd.records.extra_trials import SYSTEM_CALLS, ContenderCounts, CountingSummary
from thunderherd.records.summary import ContenderSummary, Summary
from thunderherd.show.report.profiles import ProfileSection, profile_section
from thunderherd.show.sentences.counting_cost import about_cpu_time
from thunderherd.show.sentences.explanation import (
    how_often,
    legend,
    remarks,
    sentence,
)
from thunderherd.show.sentences.left_out import not_counted
from thunderherd.show.tables.explanation import causes_table
from thunderherd.show.tables.model import Cell, Table
from thunderherd.show.tables.sweeps import Reasons
from thunderherd.text.figures import count, decimals, extrapolated, number, unit_of
from thunderherd.text.printable import printable

OFTEN = 0.01
"""The fewest calls per request, by any contender, for a row."""
NOT_IN_EACH = "unavailable in some of its counted trials"


@dataclass(frozen=True)
class WhySection:
    """The reasons of a run."""

    explanations: list[Table]
    sentences: list[str]
    """Those about the main table; without one, about the last point of each sweep."""
    at_points: list[tuple[str, list[str]]]
    """The other sentences, by their point of a sweep."""
    legend: list[str]
    counted: list[Table]
    counted_legend: list[str]
    reasons: list[str]
    """Why contenders were not counted or differences not explained."""
    profiles: ProfileSection | None


def why_section(summary: Summary, directory: Path | None = None) -> WhySection | None:
    """Makes the section Why; None if nothing was counted or sampled.

    `directory` has the files of the profiles.
    """
    counting, profiles = summary.counting, profile_section(summary, directory)
    if counting is None and profiles is None:
        return None
    return WhySection(
        explanations=[causes_table(each) for each in summary.explanations],
        sentences=[printable(sentence(each)) for each in summary.explanations if is_first(summary, each.a)],
        at_points=_at_points(summary),
        legend=[
            *([f"{summary.limits.disturbed}."] if summary.limits and summary.limits.disturbed else []),
            *about_cpu_time(summary),
            *remarks(summary.explanations),
            *legend(summary.explanations[0]),
        ]
        if summary.explanations
        else [],
        counted=[*_counted(summary, counting)] if counting else [],
        counted_legend=_legend(counting) if counting else [],
        reasons=list(dict.fromkeys(_reasons(summary))) if counting else [],
        profiles=profiles,
    )


def _at_points(summary: Summary) -> list[tuple[str, list[str]]]:
    """Groups the further sentences by their point of a sweep."""
    found: dict[str, list[str]] = {}
    where = {each.name: _where(each) for each in summary.contenders}
    for each in summary.explanations:
        if not is_first(summary, each.a):
            found.setdefault(where[each.a], []).append(printable(sentence(each)))
    return [*found.items()]


def _where(contender: ContenderSummary) -> str:
    """Writes `Sweep lives at 64`; empty for the main table."""
    return printable(f"Sweep {contender.sweep} at {contender.point}") if contender.sweep else ""


def _counted(summary: Summary, counting: CountingSummary) -> Iterator[Table]:
    """Makes tables for both sides of the main table and of each counted point of a sweep."""
    where = {each.name: _where(each) for each in summary.contenders}
    groups: dict[str, list[ContenderCounts]] = {}
    for counts in counting.contenders:
        groups.setdefault(where.get(counts.contender, ""), []).append(counts)
    for place, group in groups.items():
        for side in SIDE_NAMES:
            yield from _tables(counting, group, side, f"{place}. " if place else "", summary.study.counters)


def _tables(
    counting: CountingSummary,
    group: Sequence[ContenderCounts],
    side: Side,
    place: str,
    counters_of_all_trials: Collection[str],
) -> Iterator[Table]:
    shown_counts = [each for each in group if side in each.sides]
    names = dict.fromkeys(name for each in shown_counts for name in each.sides[side].counts)
    calls = sorted(name for name in names if name.startswith(f"{SYSTEM_CALLS}."))
    others = [name for name in names if name not in calls]
    missing = dict.fromkeys(name for each in shown_counts for name in each.sides[side].unavailable)
    # Counters of all trials have other tables (`counter_tables`).
    elsewhere = {*counters_of_all_trials} - {*counting.counters}
    whole = [
        name
        for name in dict.fromkeys([*counting.counters, *missing])
        if name != SYSTEM_CALLS and name not in elsewhere
    ]
    shown = [name for name in whole if name in others or name in missing]
    requested = [SYSTEM_CALLS] if SYSTEM_CALLS in {*counting.counters, *names} else []
    marks = _Marks(shown_counts, side)
    rows = [
        *_rows(requested, shown_counts, side, marks),
        *_rows(calls, shown_counts, side, marks, least=OFTEN),
        *_rows(shown, shown_counts, side, marks),
    ]
    contenders = [each.contender for each in shown_counts]
    if rows:
        heading = f"{place}{SIDE_NAMES[side]}: system calls by name, and further counters, per request"
        yield Table.matrix(heading, "", contenders, rows, marks.notes)
    marks = _Marks(shown_counts, side)
    if states := [*_states(shown_counts, side, marks)]:
        heading = f"{place}{SIDE_NAMES[side]}: state of the kernel near the end of the window"
        yield Table.matrix(heading, "", contenders, states, marks.notes)


class _Marks:
    """The marks of one table: one for each reason of missing figures, and one for all extrapolated ones."""

    def __init__(self, counts: Sequence[ContenderCounts], side: SideOrBoth) -> None:
        self._side = side
        self._shares = [share for each in counts for share in each.sides[side].scaled.values()]
        self._reasons = Reasons()

    def absent(self, each: ContenderCounts, name: str) -> Cell:
        """Makes a cell without a figure."""
        unavailable = each.sides[self._side].unavailable
        why = unavailable.get(name) or unavailable.get(name.partition(".")[0]) or NOT_IN_EACH
        return Cell(mark=self._reasons.mark(printable(why)))

    def of_figure(self, each: ContenderCounts, name: str) -> str:
        """Gives the mark of an extrapolated figure; empty for others."""
        scaled = each.sides[self._side].scaled
        is_scaled = name in scaled or name.partition(".")[0] in scaled
        return self._reasons.mark(extrapolated(self._shares)) if is_scaled else ""

    @property
    def notes(self) -> list[str]:
        return self._reasons.notes


def _states(
    group: Sequence[ContenderCounts], side: SideOrBoth, marks: _Marks
) -> Iterator[tuple[str, list[Cell]]]:
    """Makes a row for each state, with its unit."""
    for name in dict.fromkeys(name for each in group for name in each.sides[side].states):
        found = [each.sides[side].states.get(name) for each in group]
        known = [each for each in found if each]
        known_unit = NANOSECONDS if known[0].unit == "seconds" else known[0].unit
        unit = unit_of(f"{side}.{name}", 1, [each.value for each in known], {name: known_unit})
        digits = decimals([unit.of(each.value) for each in known])
        cells = [
            marks.absent(counts, name) if each is None else Cell(number(unit.of(each.value), digits))
            for each, counts in zip(found, group, strict=True)
        ]
        of_what = unit.name or known[0].unit
        label = name.replace("_", " ").replace(".", ", ")
        yield printable(f"{label} ({of_what})" if of_what else label), cells


def _rows(
    names: Sequence[str],
    group: Sequence[ContenderCounts],
    side: SideOrBoth,
    marks: _Marks,
    least: float = 0.0,
) -> Iterator[tuple[str, list[Cell]]]:
    for name in names:
        found = [each.sides[side].counts.get(name) for each in group]
        if max((each.per_request for each in found if each), default=least) < least:
            continue
        is_call = name.startswith(f"{SYSTEM_CALLS}.")
        cells = []
        for each, counts in zip(found, group, strict=True):
            has_names = is_call and SYSTEM_CALLS in counts.sides[side].counts
            value = each.per_request if each else 0.0 if has_names else None
            cells.append(
                marks.absent(counts, name)
                if value is None
                else Cell(how_often(value), mark=marks.of_figure(counts, name))
            )
        shown = name.partition(".")[2] if is_call else name.replace("_", " ")
        yield printable(shown), cells


def _legend(counting: CountingSummary) -> list[str]:
    trials = count(counting.trials, "trial")
    return [
        f"From {trials} of each contender, made after all others. Counting costs time, so no other figure of "
        "these trials is used. The clients' counts are of their whole load, divided by all of its requests."
    ]


def _reasons(summary: Summary) -> Iterator[str]:
    yield from not_counted(summary)
    if summary.limits is None:
        yield "No difference is explained: the machine's limits, which are the prices, were not measured."
