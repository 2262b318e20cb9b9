"""`thunderherd limits`: measures the machine's limits and prints them."""

from __future__ import annotations

from collections.abc import Sequence

from thunderherd.engine.client import catalogue
from thunderherd.errors import UserError
from thunderherd.machine.limits import limits_of_lines, measured_lines
from thunderherd.show.tables.limits import print_limits
from thunderherd.study.file.tables import NoiseTable
from thunderherd.text.layout import make_console
from thunderherd.toml.file import unknown


def cpus_of(text: str | None) -> list[int] | None:
    """`0,1` as numbers. Which of them there are the engine knows."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(
            f"limits: --cpus {text}: it takes one CPU, or two with a comma between them, counted from 0, "
            "such as --cpus 0,1"
        ) from None


def show_limits(
    names: Sequence[str],
    *,
    cpus: Sequence[int] | None,
    milliseconds: int | None,
    rounds: int | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Measures the limits of these names, all if there is none, and prints a table, or JSON.

    `None` leaves it to the engine. Raises `UserError` for what cannot be asked, and `EngineError`.
    """
    listed = catalogue().limits
    offered = [each.name for each in listed]
    for name in names:
        if name not in offered:
            raise UserError(f"limits: {unknown('limit', name, offered)}")
    given = {"milliseconds": milliseconds, "rounds": rounds, "seed": seed}
    settings = {name: value for name, value in given.items() if value is not None}
    lines = measured_lines(names, cpus=cpus, settings=settings, allowed=NoiseTable())
    limits = limits_of_lines(lines, listed)
    if as_json:
        print(limits.model_dump_json(by_alias=True, indent=2))
    else:
        print_limits(limits, listed, make_console())
