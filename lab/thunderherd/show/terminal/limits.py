"""The machine's limits on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from thunderherd.engine.catalogue import Limit
from thunderherd.machine.limits import DERIVED
from thunderherd.records.limits import MachineLimits
from thunderherd.show.tables.limits import limits_table, point_in_words
from thunderherd.show.terminal.tables import print_table
from thunderherd.text.layout import print_facts, prose


def print_limits(limits: MachineLimits, listed: Sequence[Limit], console: Console) -> None:
    """Prints the table, the meaning of each limit, and the limits that could not be measured."""
    table = limits_table(limits)
    print_table(replace(table, caption="", notes=()), console)
    console.print()
    meanings = {each.name: each.summary for each in listed} | dict(DERIVED.values())
    shown = dict.fromkeys(each.limit for each in limits.figures)
    print_facts(console, [(limit, meanings.get(limit, "")) for limit in shown])
    lost = [
        (each.limit, f"{point_in_words(each.place, each.bytes)}: {each.reason}")
        for each in limits.unavailable
    ]
    if lost:
        console.print()
        prose(console, "Unavailable on this machine:", style="")
        print_facts(console, lost, indent=2)
    console.print()
    prose(console, *table.notes)
    if limits.disturbed:
        prose(console, f"{limits.disturbed}.", style="bold")
