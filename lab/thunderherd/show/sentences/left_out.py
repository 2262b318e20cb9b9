"""Contenders that were not counted or not sampled, and the folder of the flame graphs, in sentences."""

from __future__ import annotations

from pathlib import Path

from thunderherd.records.summary import Summary
from thunderherd.text.printable import printable


def where_drawn(summary: Summary, directory: Path) -> str:
    """Names the folder of a run's flame graphs; empty without any."""
    if summary.profiles is None:
        return ""
    drawn = [side.flame_graph for each in summary.profiles.contenders for side in each.sides.values()]
    drawn += [each.flame_graph for each in summary.profiles.differentials]
    folders = dict.fromkeys(str(directory / Path(each).parent) for each in drawn if each is not None)
    return "".join(f"{folder}: flame graphs of where CPU time goes (.svg)" for folder in folders)


def not_sampled(summary: Summary) -> list[str]:
    """Lists the contenders without a requested sampled trial, with the reason."""
    profiles = summary.profiles.contenders if summary.profiles else []
    return [printable(f"{each.contender} was not sampled: {each.why}") for each in profiles if each.why]


def not_counted(summary: Summary) -> list[str]:
    """Lists the contenders without a requested counted trial, with the reason."""
    counts = summary.counting.contenders if summary.counting else []
    return [printable(f"{each.contender} was not counted: {each.why}") for each in counts if each.why]
