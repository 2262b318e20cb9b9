"""Sentences for the terminal: contenders not counted or not sampled, and where flame graphs are."""

from __future__ import annotations

from pathlib import Path

from thunderherd.records.summary import Summary
from thunderherd.text.figures import printable


def where_drawn(summary: Summary, directory: Path) -> str:
    """In a line, where the flame graphs of a run are; empty where it has none."""
    if summary.profiles is None:
        return ""
    drawn = [side.flame_graph for each in summary.profiles.contenders for side in each.sides.values()]
    drawn += [each.flame_graph for each in summary.profiles.differentials]
    folders = dict.fromkeys(str(directory / Path(each).parent) for each in drawn if each is not None)
    return "".join(f"{folder}: flame graphs of where CPU time goes (.svg)" for folder in folders)


def not_sampled(summary: Summary) -> list[str]:
    """Who has no sampled trial that was asked for, and why."""
    told = summary.profiles.contenders if summary.profiles else []
    return [printable(f"{each.contender} was not sampled: {each.why}") for each in told if each.why]


def not_counted(summary: Summary) -> list[str]:
    """Who has no counted trial that was asked for, and why."""
    told = summary.counting.contenders if summary.counting else []
    return [printable(f"{each.contender} was not counted: {each.why}") for each in told if each.why]
