"""Trials apart from those that are judged: what `[counting]` and `[profiling]` of a study share."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from thunderherd.toml.strict import Table


class ApartTable(Table):
    """Trials of their own after all that are judged: what they are made for costs."""

    at_both_ends: ClassVar[bool] = False
    """Whose they are where no contender is named: of each sweep those at its first point too, beside those of
    the main table; else those of one place alone."""

    trials: int = Field(
        default=0, ge=0, le=100, description="such trials of each contender after all others; 0: none"
    )
    contenders: list[str] = Field(
        default=[],
        description="whose, such as BASE@SWEEP=POINT; those of the main table if left out, and of a study of "
        "sweeps alone those at each sweep's last point",
    )

    @property
    def is_asked_for(self) -> bool:
        """Whether there are any; of a table as resolved."""
        return bool(self.trials and self.contenders)
