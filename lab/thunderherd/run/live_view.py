"""The live view of a run on a terminal: ranking so far, intervals, time left, current trial, noise.

The thread that runs the trials also draws the view, only between trials: drawing within a measured window
would be measured. `thunderherd watch` draws the same view from another process.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Self, TextIO

from thunderherd.machine import noise
from thunderherd.records.summary import Estimate, TrialRecord
from thunderherd.run.progress import Clock, PlainProgress, Progress, block_line, invalid_line
from thunderherd.run.ranking_so_far import Group, RankedContender, RankingSoFar
from thunderherd.study.loading import Study
from thunderherd.text.figures import (
    Unit,
    count,
    decimals,
    duration,
    heading_of,
    interval_span,
    number,
    unit_of,
    words_of,
)
from thunderherd.text.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

__all__ = ["LiveView", "PlainView", "choose", "ranking_line"]

DRAWN_COLUMNS = 25
"""Width of a drawn interval."""
FEWEST_COLUMNS = 100
"""Narrowest terminal on which intervals are drawn."""
RATIO = 5.0
"""Intervals whose ends differ by more than this factor are drawn on a logarithmic scale."""
OTHER_LINES = 7
"""Lines around the rows of the ranking."""
MOST_NAMED = 3
"""Most contenders that a plain line names."""

SO_FAR = "Estimates from all valid trials so far; verdicts come at the planned looks."

NO_TRIAL = "No trial has ended yet."


def choose(study: Study, stream: TextIO | None = None) -> Progress:
    """Return a live view on a terminal; plain lines in files, pipes and CI."""
    stream = stream or sys.stderr
    return LiveView(study, stream) if stream.isatty() else PlainProgress(stream)


class LiveView:
    """A view that is redrawn after each trial; invalid trials and noisy blocks stay as lines above it."""

    def __init__(self, study: Study, stream: TextIO, *, about: str = "") -> None:
        """Make a view; `about` replaces the line on the view's cost, as in `thunderherd watch`."""
        self.ranking = RankingSoFar(study)
        self.about = about
        self.drawing_seconds = 0.0
        """CPU time spent on drawing, seconds."""
        self._study, self._stream = study, stream
        self._clock = Clock()
        self._blocks = self._block = 0
        self._flight: tuple[str, int, int, float] | None = None
        self._live: Live | None = None

    # Progress -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        # Imported here: only a terminal needs it.
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream, markup=False, highlight=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(printable(text), markup=False, highlight=False)
        else:
            print(printable(text), file=self._stream, flush=True)

    def begins(self, trials: Sequence[TrialRecord], absent: Container[str] = ()) -> None:
        self.ranking.leave_out(absent)
        for trial in trials:
            self.ranking.add(trial)
            self._clock.took(trial.contender, trial.wall_seconds)

    def plan(self, blocks: int, trials: int) -> None:
        self._blocks = blocks
        self._clock.trials_left = trials
        self.draw()

    def trial_begins(self, block: int, contender: str, position: int, of: int) -> None:
        self._clock.begin()
        self._block = block
        self._flight = (contender, position, of, time.monotonic())
        self.draw()

    def trial_ends(self, trial: TrialRecord) -> None:
        self._clock.end(trial.contender, trial.wall_seconds)
        self._flight = None
        self.ranking.add(trial)
        if not trial.valid:
            self.say(invalid_line(trial))
        self.draw()

    def block_ends(self, block: int, trials: Sequence[TrialRecord], remark: str) -> None:
        if remark or not all(trial.valid for trial in trials):
            self.say(block_line(block, self._blocks, trials, remark, ""))

    # Drawing ------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Redraw the view."""
        if self._live is not None:
            before = time.thread_time()
            self._live.update(self.rendered(self._live.console), refresh=True)
            self.drawing_seconds += time.thread_time() - before

    def rendered(self, console: Console) -> RenderableType:
        """Return the view, fitted to the console."""
        from rich.console import Group as Lines
        from rich.text import Text

        free = max(3, console.height - OTHER_LINES)
        parts: list[RenderableType] = [Text(self._head(), style="bold", no_wrap=True, overflow="ellipsis")]
        parts += _ranking(self.ranking, console, free)
        foot = [self._in_flight(), self._machine(), SO_FAR, self._cost()]
        parts += [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in foot if line]
        return Lines(*parts)

    def _head(self) -> str:
        study = self._study
        parts = [f"{study.name} ({study.size})"]
        if self._block:
            parts.append(f"block {self._block}/{max(self._block, self._blocks)}")
        if self._flight:
            parts.append(f"trial {self._flight[1]}/{self._flight[2]}")
        parts.append(
            f"{count(self.ranking.trials, 'trial')} so far, {self._clock.trials_left:,} to the next look"
        )
        return printable(" · ".join([*parts, *([left] if (left := self._clock.left()) else [])]))

    def _in_flight(self) -> str:
        if self._flight is None:
            return ""
        name, _, _, began = self._flight
        usual = self._clock.usual(name)
        passed = time.monotonic() - began
        lasted = f", for {duration(passed)}" if passed >= 1 else ""
        return printable(
            f"Running: {name}{lasted}" + (f", usually {usual:.1f} s" if usual is not None else "")
        )

    def _machine(self) -> str:
        found, last = self.ranking, self.ranking.last
        if last is None or last.noise is None:
            return ""
        loud = noise.describe(last.noise, self._study.noise)
        quiet = f"{last.noise.steal_share:.1%} stolen, {last.noise.foreign_share:.1%} used by other processes"
        noisy = f"{found.noisy} of {count(found.trials, 'trial')} noisier than allowed"
        invalid = f", {found.invalid} invalid" if found.invalid else ""
        return f"Machine, last trial: {loud or quiet}; {noisy}{invalid}."

    def _cost(self) -> str:
        return self.about or f"This view used {self.drawing_seconds:.2f} s of CPU time, between trials."


class PlainView(PlainProgress):
    """Plain progress lines; below each block's, how the contenders stand."""

    def __init__(self, study: Study, stream: TextIO) -> None:
        super().__init__(stream)
        self.ranking = RankingSoFar(study)

    def begins(self, trials: Sequence[TrialRecord], absent: Container[str] = ()) -> None:
        super().begins(trials, absent)
        for trial in trials:
            self.ranking.add(trial)

    def trial_ends(self, trial: TrialRecord) -> None:
        self.ranking.add(trial)
        super().trial_ends(trial)

    def _at_least(self, trial: TrialRecord) -> float:
        """Return the duration from the record: several trials may be seen to end at once."""
        return trial.wall_seconds

    def block_ends(self, block: int, trials: Sequence[TrialRecord], remark: str) -> None:
        super().block_ends(block, trials, remark)
        if line := ranking_line(self.ranking):
            self.say(line)


# Figures ----------------------------------------------------------------------------------------------------


def ranking_line(ranking: RankingSoFar) -> str:
    """Return the ranking of the first group with an estimate, in one line; empty if there is none.

    `so far, CPU (s per 5,000 connections): a 0.384 (0.369 to 0.421), b 0.400 (0.389 to 0.437), 8 more`
    """
    group = next((each for each in ranking.groups() if each.ranked), None)
    if group is None:
        return ""
    texts = [f"{each.base} {value} ({span})" for each, value, span, _ in _figures(ranking, group)]
    more = [f"{len(texts) - MOST_NAMED} more"] if len(texts) > MOST_NAMED else []
    where = f" at {group.where}" if group.where else ""
    names = ", ".join([*texts[:MOST_NAMED], *more])
    return printable(f"so far{where}, {_heading(ranking, group)}: {names}")


def _heading(ranking: RankingSoFar, group: Group, *, short: bool = False) -> str:
    """Return the metric with its unit; `short` for the head of a column."""
    unit = _unit(ranking, group).name
    words = heading_of(group.metric) if short else words_of(group.metric)
    unit = unit.partition(" per ")[0] if short else unit
    return f"{words} ({unit})" if unit not in ("", "/s") else words


def _unit(ranking: RankingSoFar, group: Group) -> Unit:
    measure = ranking.study.measure
    values = [each.estimate.value for each in group.ranked]
    return unit_of(group.metric, measure.normalise_connections, values, measure.counters)


def _figures(ranking: RankingSoFar, group: Group) -> Iterator[tuple[RankedContender, str, str, str]]:
    """Yield each contender with three texts: estimate, interval, and half the interval as a share."""
    unit = _unit(ranking, group)
    digits = decimals(unit.of(each.estimate.value) for each in group.ranked)
    for each in group.ranked:
        found = each.estimate
        shown = Estimate(value=found.value, low=found.low, high=found.high)
        scaled = unit.interval(shown)
        half = ""
        if found.low is not None and found.high is not None and found.value:
            half = f"±{(found.high - found.low) / 2 / abs(found.value):.1%}"
        yield each, number(unit.of(found.value), digits), interval_span(scaled, digits), half


def _ranking(ranking: RankingSoFar, console: Console, free: int) -> Iterator[RenderableType]:
    """Yield the main table, and a table of the best contender at each point of the sweeps."""
    from rich.text import Text

    groups = [each for each in ranking.groups() if each.ranked]
    main = next((each for each in groups if not each.where), None)
    points = [each for each in groups if each.where]
    if not groups:
        yield Text(NO_TRIAL, style="dim")
        return
    if main:
        table = _main_table(ranking, main, console, free)
        yield table
        free -= table.row_count + 1
    if points and free > 1:
        yield _points_table(ranking, points, free - 1)


def _main_table(ranking: RankingSoFar, group: Group, console: Console, free: int) -> Table:
    from rich.text import Text

    draws = console.width >= FEWEST_COLUMNS
    table = _table()
    for head in ("", _heading(ranking, group, short=True), "interval", "", "trials"):
        table.add_column(
            Text(head), justify="left" if not head or head == "interval" else "right", no_wrap=True
        )
    if draws:
        table.add_column("", no_wrap=True)
    rows = list(_figures(ranking, group))
    drawn = _drawn(group, unicode="utf" in console.encoding.lower())
    for (each, value, span, half), line in list(zip(rows, drawn, strict=True))[:free]:
        style = "italic" if each.is_control else "bold"
        cells = [Text(printable(each.name), style=style), Text(value), Text(span, style="dim"), Text(half)]
        table.add_row(*cells, Text(str(each.estimate.n)), *([Text(line)] if draws else []))
    return table


def _points_table(ranking: RankingSoFar, groups: Sequence[Group], free: int) -> Table:
    from rich.text import Text

    table = _table()
    for head in ("point", "best so far", "", "interval", "next"):
        table.add_column(head, no_wrap=True, justify="right" if not head else "left")
    shown = groups[: free - 1] if len(groups) > free else groups
    for group in shown:
        first, *others = _figures(ranking, group)
        following = f"{others[0][0].base} {others[0][1]}" if others else ""
        value = f"{first[1]} {_unit(ranking, group).name}".rstrip()
        cells = (group.where, first[0].base, value, first[2], following)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    if len(shown) < len(groups):
        table.add_row(Text(f"and {len(groups) - len(shown)} more", style="dim"))
    return table


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


def _drawn(group: Group, *, unicode: bool) -> list[str]:
    """Return each interval on a common scale: ` ├──●───┤ `; only the estimate if an end is unknown."""
    left, line, right, dot = "├─┤●" if unicode else "|-|o"
    ends = [
        end
        for each in group.ranked
        for end in (each.estimate.value, each.estimate.low, each.estimate.high)
        if end is not None
    ]
    low, high = min(ends), max(ends)
    logarithmic = low > 0 and high / low > RATIO

    def column(value: float) -> int:
        if high <= low:
            return DRAWN_COLUMNS // 2
        share = math.log(value / low) / math.log(high / low) if logarithmic else (value - low) / (high - low)
        return round(share * (DRAWN_COLUMNS - 1))

    texts = []
    for each in group.ranked:
        row = [" "] * DRAWN_COLUMNS
        found = each.estimate
        if found.low is not None and found.high is not None:
            first, last = column(found.low), column(found.high)
            row[first : last + 1] = line * (last + 1 - first)
            row[first], row[last] = left, right
        row[column(found.value)] = dot
        texts.append("".join(row))
    return texts
