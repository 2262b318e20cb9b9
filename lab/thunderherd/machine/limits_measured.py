"""Measures the machine's limits, and looks what else the machine did meanwhile: limits are prices, the least
that a thing may cost, and what others take of the CPUs makes them too high.

Where that was more than a study allows a trial, they are measured once more, and the quieter of both counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from thunderherd.engine.catalogue import Limit
from thunderherd.engine.client import limit_line, limit_lines
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.machine import noise
from thunderherd.machine.limits import machine_limits
from thunderherd.machine.noise import NoiseLimits
from thunderherd.records.limits import LimitsNoise, MachineLimits

ATTEMPTS = 2
"""How often they are measured at most."""


def measured_lines(
    names: Sequence[str] = (),
    *,
    cpus: Sequence[int] | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    engine: Path | None = None,
    allowed: NoiseLimits,
    say: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """The engine's lines, and one (`LimitsNoise`) of what the machine did meanwhile. Main thread only.

    Raises `UserError` for what the engine refuses, and `EngineError`.
    """
    found: list[tuple[float, list[str], LimitsNoise]] = []
    for attempt in range(1, ATTEMPTS + 1):
        before = noise.sample()
        lines = list(limit_lines(names, cpus=cpus, settings=settings, engine=engine))
        # The engine and all that it forked have ended and are our ended children.
        seen = noise.between(before, noise.sample(), server_seconds=0.0)
        told = LimitsNoise(
            steal_share=seen.steal_share,
            foreign_share=seen.foreign_share,
            foreign_uncertainty=seen.foreign_uncertainty,
            throttled=seen.throttled,
            disturbed=noise.describe(seen, allowed),
            measured=attempt,
        )
        found.append((noise.loudness(seen, allowed), lines, told))
        if not told.disturbed:
            break
        if attempt < ATTEMPTS:
            say(f"measures the machine's limits once more: {told.disturbed}")
    _, lines, told = min(found, key=lambda each: each[0])
    told = told.model_copy(update={"measured": len(found)})
    return [*lines, told.model_dump_json()]


def limits_of_lines(lines: Iterable[str], listed: Iterable[Limit]) -> MachineLimits:
    """The figures of such lines; those of a run of an earlier version do not say what the machine did.

    Raises `EngineError` and ValueError where they are none.
    """
    texts = list(lines)
    own = [each for each in texts if LimitsNoise.is_line(each)]
    found = machine_limits((limit_line(each) for each in texts if each not in own), listed)
    told = LimitsNoise.model_validate_json(own[-1]) if own else None
    return found.model_copy(update={"noise": told})
