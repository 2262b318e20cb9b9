"""The CPU time that agents and other processes use on hosts while nothing is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thunderherd.hosts.cluster import HostPlace
from thunderherd.machine import noise

LARGEST_AGENT_PERCENT = 0.5
"""The share of a CPU in percent above which an idle agent disturbs what is measured on its host."""


@dataclass(frozen=True)
class Idle:
    """The share of a CPU that a host's agent uses, and that of all its CPUs that others use, in percent."""

    agent_percent: float
    others_percent: float

    def warning(self, host: str) -> str | None:
        """Return that the agent uses too much, and what to do; None if it does not."""
        if self.agent_percent <= LARGEST_AGENT_PERCENT:
            return None
        return (
            f"{host}: its idle agent uses {self.agent_percent:g} % of a CPU (more than "
            f"{LARGEST_AGENT_PERCENT:g} %). Name the measured CPUs, which it keeps off (lab.server_cpus)"
        )


def watch_idle(places: Sequence[HostPlace], seconds: float) -> Mapping[str, Idle]:
    """Watch all hosts at the same time, for `seconds`; return host → what was seen."""
    before = {each.host: (each.ask(noise.sample), each.ask(time.process_time)) for each in places}
    time.sleep(seconds)
    found = {}
    for each in places:
        # The agent's own use comes first: a sample costs it more than it uses while it is idle.
        used = each.ask(time.process_time)
        sample, earlier = before[each.host]
        seen = noise.between(sample, each.ask(noise.sample), server_seconds=0.0)
        found[each.host] = Idle(
            agent_percent=round(100 * (used - earlier) / seen.wall_seconds, 2),
            others_percent=round(100 * max(0.0, seen.foreign_share - seen.foreign_uncertainty), 1),
        )
    return found
