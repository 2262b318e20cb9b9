"""Where a sweep's differences are explained, in words: what was counted at its points, and what to type."""

from __future__ import annotations

import shlex

from thunderherd.judge.why.pairs import command_to_run_again
from thunderherd.records.summary import Summary, SweepSummary
from thunderherd.text.figures import printable

__all__ = ["elsewhere", "why_lines"]


def why_lines(summary: Summary, sweep: SweepSummary) -> list[str]:
    """At which points it is known why one costs more than another and what shows it; at which it is not, and
    what to type for that. Nothing of a sweep of one contender."""
    lines = []
    if sweep.counted_points:
        names = [f"{base}@{sweep.name}={sweep.counted_points[-1]}" for base in sweep.contenders[:2]]
        command = shlex.join(["thunderherd", "explain", "DIR", *names])
        lines.append(f"Why, at {', '.join(sweep.counted_points)}: `{command}`, and the report's section Why.")
    if (others := elsewhere(summary, sweep)) is not None:
        lines.append(f"Why, elsewhere: {others}.")
    return [printable(each) for each in lines]


def elsewhere(summary: Summary, sweep: SweepSummary) -> str | None:
    """At which points of a sweep nothing was counted, and the command that counts at the first of them; None
    where there are none."""
    missing = sweep.uncounted_points
    if not missing:
        return None
    at = [each.name for each in summary.contenders if (each.sweep, each.point) == (sweep.name, missing[0])]
    points = "point" if len(missing) == 1 else "points"
    command = command_to_run_again(summary, at)
    return printable(f"not counted at {points} {', '.join(missing)}; to count at {missing[0]}: {command}")
