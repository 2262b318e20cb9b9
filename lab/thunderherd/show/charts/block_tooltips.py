"""Tooltips on the blocks behind a figure: their number, and those with the lowest and the highest value.

Without the run's trials only the number is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thunderherd.judge.summary.block_order import FiguresOfBlocks
from thunderherd.metrics.table import CPU_PER_CONNECTION
from thunderherd.records.summary import ContenderSummary, Estimate, Summary
from thunderherd.text.figures import ABSENT, BETWEEN, Unit, number

__all__ = ["BlocksBehind"]


@dataclass(frozen=True)
class BlocksBehind:
    """The blocks of a run, which describe what is behind a contender's figure."""

    summary: Summary
    figures: FiguresOfBlocks

    @property
    def title(self) -> str:
        """The word for them: runs if the study repeats trials, otherwise blocks."""
        return "runs" if self.summary.study.repetitions else "blocks"

    def of_metric(self, contender: ContenderSummary, name: str, unit: Unit, digits: int) -> str:
        """Writes `11, from 3.21 (block 4) to 3.98 (block 9)`, in the unit of the shown figure."""
        values = {
            block: unit.of(float(value))
            for block, metrics in self.figures.get(contender.name, {}).items()
            if (value := metrics.get(name)) is not None
        }
        return self._range(contender.blocks, values, digits)

    def of_process_control(self, contender: ContenderSummary, interval: Estimate | None, digits: int) -> str:
        """Writes the same for a contender's CPU time minus the baseline's of the same block."""
        if interval is None:
            return ABSENT
        shown, baseline = self.summary.study.normalise_connections, self.summary.study.baseline or ""
        usual = self.figures.get(baseline, {})
        values = {
            block: (float(own) - float(base)) * shown
            for block, metrics in self.figures.get(contender.name, {}).items()
            if (own := metrics.get(CPU_PER_CONNECTION)) is not None
            and (base := usual.get(block, {}).get(CPU_PER_CONNECTION)) is not None
        }
        return self._range(interval.blocks or contender.blocks, values, digits)

    def _range(self, how_many: int, values: Mapping[int, float], digits: int) -> str:
        if len(values) < 2:
            return str(how_many)
        word = self.title.removesuffix("s")
        ends = (min(values, key=lambda block: values[block]), max(values, key=lambda block: values[block]))
        low, high = (f"{number(values[block], digits)} ({word} {block})" for block in ends)
        return f"{how_many}, from {low}{BETWEEN}{high}"
