"""Where a sweep's differences are explained, in words: what was counted at its points, and what to type."""

from __future__ import annotations

import shlex

from thunderherd.figures import printable
from thunderherd.records import SweepSummary

__all__ = ["why_lines"]


def why_lines(sweep: SweepSummary) -> list[str]:
    """At which points it is known why one costs more than another and what shows it; at which it is not, and
    what to type for that. Nothing of a sweep of one contender."""
    lines = []
    if sweep.counted_points:
        names = [f"{base}@{sweep.name}={sweep.counted_points[-1]}" for base in sweep.contenders[:2]]
        command = shlex.join(["thunderherd", "explain", "DIR", *names])
        lines.append(f"Why, at {', '.join(sweep.counted_points)}: `{command}`, and the report's section Why.")
    if sweep.why_elsewhere is not None:
        lines.append(f"Why, elsewhere: {sweep.why_elsewhere}.")
    return [printable(each) for each in lines]
