"""The base of all tables in TOML files that people write."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Discriminator

__all__ = ["StrictTable", "table_or"]


class StrictTable(BaseModel):
    """A table without type conversion: true is not a number, 3 is not a text, unknown keys are mistakes.

    A subclass with `total=False` has the keys of its base, none of them required and without their defaults:
    None is a key that is not given. A nested table of settings stays empty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    def __init_subclass__(cls, *, total: bool = True, **options: Any) -> None:
        super().__init_subclass__(**options)

    @classmethod
    def __pydantic_init_subclass__(cls, *, total: bool = True, **options: Any) -> None:
        for field in () if total else cls.model_fields.values():
            if field.default != {}:
                field.annotation, field.default = field.annotation | None, None  # type: ignore[assignment,operator]


def table_or(word: str) -> Discriminator:
    """Distinguish a table, whose tag is "table", from any other value, whose tag is `word`."""
    return Discriminator(lambda element: "table" if isinstance(element, dict | StrictTable) else word)
