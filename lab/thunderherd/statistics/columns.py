"""Columns of figures: one value of a metric per block that counts, for each contender.

All columns of a run are equally long and aligned by block. A block whose figure was left out holds None;
nothing replaces it. A computation over several columns uses the blocks that have all of them (`together`);
one over a single column uses the blocks that have it (`known`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

__all__ = ["Column", "Values", "known", "together"]

Column = Sequence[float | None]
"""One value per block; None if it was left out."""

Values = Mapping[str, Mapping[str, Column]]
"""Columns by metric, then by contender."""

Name = TypeVar("Name", bound=Hashable)


def known(column: Column) -> list[float]:
    """Return the values of the blocks that have one."""
    return [value for value in column if value is not None]


def together(columns: Mapping[Name, Column]) -> dict[Name, list[float]]:
    """Return the columns in the blocks where each of them has a value, still aligned.

    All are empty if there is no such block. Columns of unequal length raise ValueError.
    """
    blocks = [row for row in zip(*columns.values(), strict=True) if None not in row]
    return {name: known([row[place] for row in blocks]) for place, name in enumerate(columns)}
