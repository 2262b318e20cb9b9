"""Columns of figures: what the contenders had of a metric in the blocks that count, a value a block.

All columns of a run are equally long and lie side by side by block. In a block whose figure was left out
there is None: nothing takes its place. What needs several figures of a block takes the blocks that have them
all (`together`), what needs one takes those that have it (`known`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

__all__ = ["Column", "Values", "known", "together"]

Column = Sequence[float | None]
"""A value a block; None where it was left out."""

Values = Mapping[str, Mapping[str, Column]]
"""By metric, then contender."""

Name = TypeVar("Name", bound=Hashable)


def known(column: Column) -> list[float]:
    """The values of the blocks that have one."""
    return [value for value in column if value is not None]


def together(columns: Mapping[Name, Column]) -> dict[Name, list[float]]:
    """The columns in the blocks where each of them has a value, still side by side; all are empty where
    there is no such block. Columns of unequal length are a ValueError."""
    blocks = [row for row in zip(*columns.values(), strict=True) if None not in row]
    return {name: known([row[place] for row in blocks]) for place, name in enumerate(columns)}
