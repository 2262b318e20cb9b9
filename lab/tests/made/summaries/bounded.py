"""Contenders with invented figures and limits, and their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thunderherd.judge.summary.bounds import best_of_bounds
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.limits import BoundSummary, LimitFigure, MachineLimits
from thunderherd.records.summary import Estimate
from thunderherd.study.loading import Study


def figure(limit: str, value: float, *, size: int | None = None, place: Any = "one_cpu") -> LimitFigure:
    return LimitFigure(
        limit=limit, place=place, bytes=size, unit="bytes_per_second" if limit == "memcpy" else "nanoseconds",
        value=value, low=None, high=None, confidence=1.0, rounds=1, best=value,
    )  # fmt: skip


LIMITS = MachineLimits(
    cpus=[0, 1],
    settings={},
    figures=[
        figure("memcpy", 10e9, size=1024),
        figure("memcpy", 40e9, size=4096),
        figure("memcpy", 20e9, size=16384),
        figure("system_call", 200),
        figure("tcp_connection", 50_000),
        figure("tcp_transfer", 2_000, size=1),
        figure("pipe_round_trip", 5_000),
        figure("pipe_round_trip", 45_000, place="two_cpus"),
        figure("fork_exit_wait", 100_000),
        figure("thread_creation", 20_000),
    ],
)


def bound(
    study: Study,
    metric: str,
    figures: Mapping[str, float],
    *,
    name: str = "iterative",
    cpus: tuple[int, ...] = (0, 1),
    lab: Mapping[str, Any] | None = None,
    load: Mapping[str, Any] | None = None,
    limits: MachineLimits | None = LIMITS,
    **of_contender: Any,
) -> BoundSummary | None:
    """The one bound of a contender with these figures; of_contender is changed in the study beforehand."""
    contender = study.contender(name)
    changes = {
        "lab": contender.lab.model_copy(update=dict(lab or {})),
        "load": contender.load.model_copy(update=dict(load or {})),
        **of_contender,
    }
    changed = study.model_copy(
        update={
            "contenders": tuple(
                each.model_copy(update=changes) if each.name == name else each for each in study.contenders
            ),
            "measure": study.measure.model_copy(update={"metric": metric}),
        }
    )
    summary = next(each for each in summarise(study, [], {}, seed=1).contenders if each.name == name)
    intervals = {each: Estimate(value=value, low=None, high=None) for each, value in figures.items()}
    found = best_of_bounds(changed, [summary.model_copy(update={"metrics": intervals})], limits, cpus)
    assert len(found) <= 1
    return found[0] if found else None


SENT = {
    "client.bytes_sent": 10.0,
    "client.send_calls": 1.0,
    "server.bytes_sent": 4096e3,
    "server.send_calls": 1e3,
}


CALLED = {
    "server.send_calls_per_request": 1.0,
    "server.receive_calls_per_request": 2.0,
    "connections": 1000.0,
    "requests": 1000.0,
}
