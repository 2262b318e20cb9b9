"""What all tables of the TOML files that people write have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Discriminator

__all__ = ["StrictTable", "table_or"]


class StrictTable(BaseModel):
    """Strict: true is no number, 3 is no text, and a key that is not listed is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


def table_or(word: str) -> Discriminator:
    """Tells a table, whose tag is "table", from what else may stand in its place, whose tag is `word`."""
    return Discriminator(lambda element: "table" if isinstance(element, dict | StrictTable) else word)
