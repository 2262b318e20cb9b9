"""The command `limits`: measures the machine's limits and prints them."""

from __future__ import annotations

from typing import Annotated

import typer

from thunderherd.cli.options import AsJson
from thunderherd.errors import UserError
from thunderherd.toml.cpus import cpus_of

__all__ = ["limits"]


def limits(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES...]", help="Limits, see `list limits` (default: all)."),
    ] = None,
    as_json: AsJson = False,
    cpus: Annotated[
        str | None,
        typer.Option("--cpus", metavar="A,B", help="CPU that measures, and CPU of its peer (default: any)."),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--duration", metavar="TIME", help="Approximate duration, up to 10min (default 10s)."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, max=10_000, help="Rounds (default 31).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of the order within a round (default 1).")
    ] = None,
) -> None:
    """Measure the cost of calls, copies and processes on this machine."""
    chosen = _cpus(cpus)

    from thunderherd.engine.client import catalogue
    from thunderherd.engine.setting_rules import SettingValue
    from thunderherd.machine.limits import limits_of_lines, measured_lines
    from thunderherd.show.terminal.limits import print_limits
    from thunderherd.study.file.tables import NoiseTable
    from thunderherd.text.layout import make_console
    from thunderherd.toml.file import unknown

    offered_here = catalogue()
    listed = offered_here.limits
    offered = [each.name for each in listed]
    for name in names or []:
        if name not in offered:
            raise UserError(unknown("limit", name, offered, "limits").at("limits"))
    # The engine has a default for each setting that is left out.
    given = {"duration": duration, "rounds": rounds, "seed": seed}
    settings: dict[str, SettingValue] = {}
    for setting in offered_here.limit_settings:
        if (value := given.get(setting.name)) is None:
            continue
        if refusal := setting.refusal(value):
            where = f"limits: --{setting.name} {value}"
            hint = refusal.hint.replace('"', "")
            raise UserError(refusal.message, code=f"limits.{refusal.code}", hint=hint, where=where)
        settings[setting.name] = setting.read(value)
    lines = measured_lines(names or [], cpus=chosen, settings=settings, allowed=NoiseTable())
    found = limits_of_lines(lines, listed)
    if as_json:
        print(found.model_dump_json(by_alias=True, indent=2))
    else:
        print_limits(found, make_console())


def _cpus(text: str | None) -> list[int] | None:
    """Parse a list such as `0,1`. The engine checks which CPUs exist."""
    try:
        return None if text is None else cpus_of(text)
    except ValueError:
        raise UserError(
            f"'{text}' is not a list of CPUs",
            code="limits.invalid_cpus",
            hint="give one CPU, or two with a comma, counted from 0: --cpus 0,1",
            where=f"limits: --cpus {text}",
        ) from None
