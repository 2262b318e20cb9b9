"""The base of all tables in TOML files that people write."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator
from pydantic_core import PydanticCustomError

from thunderherd.toml.quantities import NoQuantity, NoUnit, Quantity

__all__ = ["StrictTable", "quantity_text", "table_or"]


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


def _as_text(value: object) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else value


AS_TEXT = BeforeValidator(_as_text)
"""Take a number as its text, so that the check of the quantity says which units it may have."""


def quantity_text(
    kind: Quantity, low: int, high: int, *, above: bool = False, below: bool = False
) -> BeforeValidator:
    """Check a text with a quantity, such as "3s", from `low` to `high` in its smallest unit.

    `above` excludes `low`, and `below` excludes `high`. 0 may be a number.
    """

    def check(value: object) -> object:
        value = _as_text(value)
        if not isinstance(value, str):
            raise PydanticCustomError("string_type", "must be a text in quotes")
        try:
            number = kind.read(value)
        except NoUnit as error:
            guesses = " or ".join(f'"{each}"' for each in kind.likely(error.digits))
            raise PydanticCustomError("no_unit", f"has no unit; write {guesses}") from None
        except NoQuantity as error:
            meant = " or ".join(f'"{each}"' for each in kind.near(error)) or kind.write(high)
            why = f"must be {kind.name} with its unit, such as {meant}"
            raise PydanticCustomError("unknown_unit" if error.digits else "no_quantity", why) from None
        if number < low or (above and number == low):
            words = "more than" if above else "at least"
            raise PydanticCustomError("out_of_range", f"must be {words} {kind.write(low)}")
        if number > high or (below and number == high):
            words = "less than" if below else "at most"
            raise PydanticCustomError("out_of_range", f"must be {words} {kind.write(high)}")
        return value

    return BeforeValidator(check)
