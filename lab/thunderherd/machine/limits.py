"""The machine's limits: measured by the engine in rounds, each reported as a median with its interval.

If the machine was noisier than a study allows, the limits are measured again, and the quieter measurement is
used: a limit is the least that something can cost, and the load of other processes makes it too high.

Two prices are derived from others: the cost of switching to another process, and that of waking a process on
another CPU. A round trip by pipes is two transfers of a byte and two switches or wake-ups, and a transfer
alone is measured, too. The transfer is subtracted round by round, so that a disturbance of a whole round
partly cancels (lmbench's lat_ctx does the same: McVoy and Staelin, *lmbench: Portable Tools for Performance
Analysis*, USENIX 1996).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from thunderherd.engine.catalogue import Limit, Setting
from thunderherd.engine.client import limit_line, limit_lines, longest_limits_seconds
from thunderherd.engine.limit_lines import LimitRound, Limits, LimitUnavailable
from thunderherd.engine.line_base import Place
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.machine import noise
from thunderherd.machine.noise import NoiseLimits
from thunderherd.records.limits import (
    LimitFigure,
    LimitReason,
    LimitsHost,
    LimitsNoise,
    MachineLimits,
    Unit,
)

CONFIDENCE = 0.95

TRANSFER, ROUND_TRIP = "pipe_transfer", "pipe_round_trip"
"""The limits that the two derived prices are made of."""

DERIVED: Mapping[Place, tuple[str, str]] = {
    "one_cpu": (
        "process_switch",
        "From one process to another on the same CPU: half a round trip by pipes, less the transfer",
    ),
    "two_cpus": (
        "remote_wake_up",
        "From one process to one that sleeps on another CPU: half a round trip by pipes, less the transfer",
    ),
}
"""Names and descriptions of the derived prices, by the place of the round trip."""

Point = tuple[str, Place, int | None]
Rounds = dict[Point, dict[int, float]]
"""Point → round number → nanoseconds of one operation, or bytes per second."""


def machine_limits(
    lines: Iterable[Limits | LimitRound | LimitUnavailable], listed: Iterable[Limit]
) -> MachineLimits:
    """Return the figures of the engine's lines; `listed` is the catalogue's list of limits.

    Figures are in the order of the catalogue, sizes ascending, then the derived ones. Raises ValueError if
    the lines do not begin with how they were measured, name a limit that the catalogue lacks, or have an
    empty round.
    """
    head: Limits | None = None
    rounds: Rounds = {}
    faults: Rounds = {}
    unavailable: list[LimitReason] = []
    units: dict[str, Unit] = {each.name: each.figure for each in listed}
    for line in lines:
        if isinstance(line, Limits):
            head = line
        elif isinstance(line, LimitUnavailable):
            reason = LimitReason(limit=line.limit, place=line.place, bytes=line.bytes, reason=line.reason)
            unavailable.append(reason)
        elif line.limit not in units:
            raise ValueError(
                f"the engine measured an unknown limit, {line.limit} (known: {', '.join(units)})"
            )
        elif line.times < 1:
            raise ValueError(f"a round of {line.limit} has no repetition")
        else:
            rounds.setdefault(line.point, {})[line.round] = _one(line, units[line.limit])
            faults.setdefault(line.point, {})[line.round] = line.page_faults / line.times
    if head is None:
        raise ValueError("the engine did not report how it measured")
    order = {name: number for number, name in enumerate(units)}
    points = sorted(rounds, key=lambda point: (order[point[0]], point[1], point[2] or 0))
    figures = [
        _figure(point, units[point[0]], rounds[point], page_faults=median(faults[point].values()))
        for point in points
    ]
    return MachineLimits(
        cpus=head.cpus,
        settings={name: int(value) for name, value in head.settings.items()},
        figures=[*figures, *_derived(rounds)],
        unavailable=unavailable,
    )


def _one(line: LimitRound, unit: Unit) -> float:
    """Return the time of one operation in a round, or its bytes per second.

    A clock that did not move counts as 1 ns.
    """
    elapsed = max(1, line.elapsed_ns)
    if unit == "bytes_per_second":
        return 1e9 * (line.bytes or 0) * line.times / elapsed
    return elapsed / line.times


def _figure(
    point: Point,
    unit: Unit,
    rounds: Mapping[int, float],
    *,
    page_faults: float = 0.0,
    derived: bool = False,
) -> LimitFigure:
    values = list(rounds.values())
    extreme = min(values) if unit == "nanoseconds" else max(values)
    # Imported here: commands that only show limits start faster without numpy.
    from thunderherd.statistics.samples import median_estimate

    found = median_estimate(values, CONFIDENCE)
    limit, place, size = point
    return LimitFigure(
        limit=limit,
        place=place,
        bytes=size,
        unit=unit,
        value=found.value,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        rounds=found.n,
        best=None if derived else extreme,
        page_faults=page_faults,
        derived=derived,
    )


def _derived(rounds: Rounds) -> list[LimitFigure]:
    transfers = rounds.get((TRANSFER, "one_cpu", None), {})
    found = []
    for place, (name, _summary) in DERIVED.items():
        round_trips = rounds.get((ROUND_TRIP, place, None), {})
        common = sorted(round_trips.keys() & transfers.keys())
        both = {number: round_trips[number] / 2 - transfers[number] for number in common}
        if both:
            found.append(_figure((name, place, None), "nanoseconds", both, derived=True))
    return found


ATTEMPTS = 2
"""The maximum number of times that the limits are measured."""


def measuring_seconds(settings: Mapping[str, SettingValue], offered: Iterable[Setting]) -> float:
    """Return how long `measured_lines` takes at most."""
    return ATTEMPTS * longest_limits_seconds(settings, offered)


def measured_lines(
    names: Sequence[str] = (),
    *,
    cpus: Sequence[int] | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    engine: Path | None = None,
    allowed: NoiseLimits,
) -> list[str]:
    """Measure the limits and return the engine's lines, then one (`LimitsNoise`) on the noise meanwhile.

    Main thread only. Raises `UserError` if the engine refuses, and `EngineError`.
    """
    found: list[tuple[float, list[str], LimitsNoise]] = []
    for attempt in range(1, ATTEMPTS + 1):
        before = noise.sample()
        lines = list(limit_lines(names, cpus=cpus, settings=settings, engine=engine))
        # The engine and its children have ended, so their CPU time is that of our ended children.
        seen = noise.between(before, noise.sample(), server_seconds=0.0)
        meanwhile = LimitsNoise(
            steal_share=seen.steal_share,
            foreign_share=seen.foreign_share,
            foreign_uncertainty=seen.foreign_uncertainty,
            throttled=seen.throttled,
            disturbed=noise.describe(seen, allowed),
            measured=attempt,
        )
        found.append((noise.loudness(seen, allowed), lines, meanwhile))
        if not meanwhile.disturbed:
            break
    _, lines, meanwhile = min(found, key=lambda each: each[0])
    meanwhile = meanwhile.model_copy(update={"measured": len(found)})
    return [*lines, meanwhile.model_dump_json()]


def limits_of_lines(lines: Iterable[str], listed: Iterable[Limit]) -> MachineLimits:
    """Return the figures of the lines of `measured_lines`. Those of earlier versions do not report the noise.

    Raises `EngineError` or ValueError if the lines are something else.
    """
    texts = list(lines)
    own = [each for each in texts if LimitsNoise.is_line(each)]
    found = machine_limits((limit_line(each) for each in texts if each not in own), listed)
    meanwhile = LimitsNoise.model_validate_json(own[-1]) if own else None
    return found.model_copy(update={"noise": meanwhile})


def limits_by_host(lines: Iterable[str], listed: Iterable[Limit], server: str) -> dict[str, MachineLimits]:
    """Return host → limits, from the lines of `limits.jsonl`; those of the host `server` come first.

    Raises as `limits_of_lines` does.
    """
    of_host: dict[str, list[str]] = {server: []}
    own = of_host[server]
    for line in lines:
        if LimitsHost.is_line(line):
            own = of_host.setdefault(LimitsHost.model_validate_json(line).host, [])
        else:
            own.append(line)
    known = list(listed)
    return {host: limits_of_lines(each, known) for host, each in of_host.items()}
