"""A run of sweeps that never happened: simulated trials, put through the real analysis.

Its title says so. There are three sweeps: pool sizes (numbers, a logarithmic axis, the textbook's figures,
one design that this machine lacks at one point), delays (names), and whole lives (numbers, counters of both
sides). The study is that of `synthetic_summary` with sweeps put in, so no form of a file is needed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from made.summaries import summary as synthetic_summary
from thunderherd.judge.summary.summarise import summarise
from thunderherd.metrics.table import metric
from thunderherd.records.summary import Noise, PaperFigure, Summary, SweepPoint, TrialRecord
from thunderherd.study.file.source_tables import PaperCountersTable
from thunderherd.study.loading import Comparison, Contender, Look, Study, Sweep

TITLE = "Pools, delays and whole lives (synthetic data, no measurement)"
LACKING = "prefork_mutex@pool_size=120"
WHY_LACKING = "this machine has 2 CPUs, the point needs 4"

POOLS = [5, 10, 15, 30, 60, 120]
POOL_COSTS = {
    "prefork": lambda pool: 0.25 + 0.0005 * pool,
    "prefork_file_lock": lambda pool: 0.30 + 0.004 * pool,
    "prefork_mutex": lambda pool: 0.26,
}
DELAYS = {"small": 2.0, "large": 10.5}
LIVES = [1, 4, 16, 64, 256]

COUNTERS = """\
design,role,event,value,unit
single_threaded,server,task-clock,2.15,msec
single_threaded,server,context-switches,10,count
single_threaded,server,cpu-cycles,7200631,count
single_threaded,server,elapsed,5.507541483,s
single_threaded,client,task-clock,0.84,msec
single_threaded,client,context-switches,13,count
single_threaded,client,cpu-cycles,2757816,count
single_threaded,client,elapsed,0.007301323,s
select,server,task-clock,2.79,msec
select,server,context-switches,11,count
select,server,cpu-cycles,7874479,count
select,server,elapsed,6.304275199,s
select,client,task-clock,1.93,msec
select,client,context-switches,13,count
select,client,cpu-cycles,3975164,count
select,client,elapsed,0.016896518,s
"""


def at(base: Contender, sweep: str, point: str, name: str, **changes: Any) -> Contender:
    """A contender at a point of a sweep."""
    own = {"base": base.name, "sweep": sweep, "point": point, "name": f"{base.name}@{sweep}={point}"}
    shown = {
        "metric": name,
        "better": metric(name).better,
        "row": None,
    }
    return base.model_copy(update={**own, **shown, **changes})


@cache
def study(*, main: bool = True, repetitions: int | None = None) -> Study:
    """The bundled study with three sweeps in place of most of its contenders."""
    whole = synthetic_summary.study()
    named = {each.name: each for each in whole.contenders}
    contenders = [named["iterative"], named["prefork"], named["prefork_mutex"]] if main else []
    cpu, rate, clock = "server_cpu_per_connection", "requests_per_second", "client.elapsed_seconds"
    for pool in POOLS:
        for base in POOL_COSTS:
            settings = {**named[base].settings, "pool": pool}
            contenders.append(at(named[base], "pool_size", str(pool), cpu, settings=settings))
    contenders = [each for each in contenders if each.name != LACKING]
    for delay in DELAYS:
        for base in ("thread_per_client", "prethread_queue"):
            contenders.append(at(named[base], "delay", delay, rate))
    for count in LIVES:
        for base in ("iterative", "prefork", "thread_per_client"):
            contenders.append(at(named[base], "whole_life", str(count), clock, trial="whole_life"))
    pairs = [
        Comparison(a=a.name, b=b.name, metric=a.metric, better=a.better, sweep=a.sweep, point=a.point)
        for place, a in enumerate(contenders)
        for b in contenders[place + 1 :]
        if (a.sweep, a.point) == (b.sweep, b.point)
    ]
    blocks, alpha = (repetitions, 0.0) if repetitions else (14, 0.05)
    return whole.model_copy(
        update={
            "title": TITLE,
            "contenders": tuple(contenders),
            "sweeps": (_pools(cpu), _delays(rate), _lives(clock)),
            "paper": (*(whole.paper if main else ()), *_paper_of_pools(cpu), *_paper_of_delays(rate)),
            "absent": {LACKING: WHY_LACKING},
            "comparisons": () if repetitions else tuple(pairs),
            "looks": (Look(blocks=blocks, alpha=alpha),),
            "repetitions": repetitions,
            "claims_path": None,
            "measure": whole.measure.model_copy(
                update={
                    "counters": {"task_clock": "nanoseconds", "context_switches": "switches"},
                    **({} if main else {"metric": rate, "better": "more", "baseline": None}),
                }
            ),
        }
    )


def _paper_of_pools(name: str) -> list[PaperFigure]:
    paper = {
        "prefork": [None, None, 1.8, 3.5, 6.9, 13.5],
        "prefork_file_lock": [None, None, 2.7, 5.6, 11.2, 22.0],
    }
    return [
        PaperFigure(
            metric=name,
            base=base,
            sweep="pool_size",
            point=str(pool),
            value=value,
            runs=[value],
            note="BSD/OS",
        )
        for base, values in paper.items()
        for pool, value in zip(POOLS, values, strict=True)
        if value is not None
    ]


def _pools(name: str) -> Sweep:
    return Sweep(
        name="pool_size", title="Fig. 30.1A: CPU over the number of children", key="settings.pool",
        x_label="children", axis="logarithmic", metric=name, better="less",
        metrics=(name, "voluntary_switches_per_connection"), trial="window",
        points=tuple(SweepPoint(name=str(pool), number=pool) for pool in POOLS),
        contenders=tuple(POOL_COSTS), absent={LACKING: WHY_LACKING},
    )  # fmt: skip


def _paper_of_delays(name: str) -> list[PaperFigure]:
    paper = {("thread_per_client", "small"): 167.43, ("thread_per_client", "large"): 94.2}
    paper |= {("prethread_queue", "small"): 328.33, ("prethread_queue", "large"): 71.3}
    return [
        PaperFigure(
            metric=name,
            base=base,
            sweep="delay",
            point=point,
            value=value,
            runs=[value - 9, value, value + 9],
        )
        for (base, point), value in paper.items()
    ]


def _delays(name: str) -> Sweep:
    return Sweep(
        name="delay", title="Delays of 1 to 3 and of 1 to 20 ms", key=None, x_label="delay", axis="linear",
        metric=name, better="more", metrics=(name, "requests", "elapsed_seconds"), trial="window",
        points=tuple(SweepPoint(name=delay, number=None) for delay in DELAYS),
        contenders=("thread_per_client", "prethread_queue"), absent={},
    )  # fmt: skip


def _lives(name: str) -> Sweep:
    return Sweep(
        name="whole_life", title="Whole lives of server and client", key="load.settings.loops",
        x_label="connections", axis="logarithmic", metric=name, better="less",
        metrics=(name, "server.task_clock", "latency_p99_seconds"), trial="whole_life",
        points=tuple(SweepPoint(name=str(count), number=count) for count in LIVES),
        contenders=("iterative", "prefork", "thread_per_client"), absent={},
    )  # fmt: skip


def write_counters(directory: Path, **changes: Any) -> Study:
    """The study with a table [paper_counters] and its file in a directory."""
    (directory / "perf_stat.csv").write_text(COUNTERS)
    path = directory / "study.toml"
    table = {
        "title": "perf stat, four connections",
        "file": "perf_stat.csv",
        "sweep": "whole_life",
        "point": "4",
        "designs": {"single_threaded": "iterative", "select": "prefork"},
        "events": {
            "task-clock": "task_clock",
            "context-switches": "context_switches",
            "elapsed": "elapsed_seconds",
        },
    }
    table = {key: value for key, value in (table | changes).items() if value is not None}
    lines = [f"{key} = {_toml(value)}" for key, value in table.items()]
    path.write_text("[paper_counters]\n" + "\n".join(lines) + "\n")
    counters = PaperCountersTable.model_validate(table)
    return study().model_copy(update={"path": path, "paper_counters": counters})


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def summary_of(of: Study, seed: int = 5, notes: tuple[str, ...] = ()) -> Summary:
    """The summary of a simulated run of a study with these sweeps."""
    return summarised(of, trials(of, seed), seed, notes)


def summarised(of: Study, records: list[TrialRecord], seed: int = 5, notes: tuple[str, ...] = ()) -> Summary:
    """The summary of these trials."""
    return summarise(
        of,
        records,
        synthetic_summary.MACHINE,
        seed=seed,
        command=["thunderherd", "run", of.name],
        started="2025-01-02T03:04:05+00:00",
        notes=[f"{LACKING} is left out: {WHY_LACKING}", *notes],
    )


@cache
def summary(*, main: bool = True, repetitions: int | None = None) -> Summary:
    """The same for the unchanged study."""
    return summary_of(study(main=main, repetitions=repetitions))


def trials(of: Study, seed: int) -> list[TrialRecord]:
    """Every trial of every block."""
    generator = np.random.default_rng(seed)
    records = []
    for block in range(1, of.looks[0].blocks + 1):
        disturbance = generator.normal(0, 0.02)
        for position, contender in enumerate(of.contenders, start=1):
            noise = float(np.exp(disturbance + generator.normal(0, 0.015)))
            records.append(_trial(of, contender, block, position, seed, noise, generator))
    return records


def _trial(
    of: Study,
    contender: Contender,
    block: int,
    position: int,
    seed: int,
    noise: float,
    generator: np.random.Generator,
) -> TrialRecord:
    return TrialRecord(
        study=of.name,
        contender=contender.name,
        block=block,
        position=position,
        seed=seed,
        started="2025-01-02T03:04:05+00:00",
        wall_seconds=0.9,
        valid=True,
        invalid_reasons=[],
        trial=contender.trial,
        cpu_scope="window",
        noise=Noise(
            steal_share=0.0, foreign_share=0.01, wall_seconds=0.6, machine_busy_seconds=0.5, throttled=0
        ),
        time_wait_before=0,
        metrics=_metrics(contender, noise, generator),
        worker_connections=None,
    )


def _metrics(contender: Contender, noise: float, generator: np.random.Generator) -> dict[str, Any]:
    place = list(synthetic_summary.COSTS).index(contender.base)
    if contender.sweep == "delay":
        mean = DELAYS[contender.point or ""]
        rate = (330 if contender.base == "prethread_queue" else 175) * 2 / mean * noise
        requests = round(30 * rate)
        return {
            "requests": requests,
            "elapsed_seconds": 30 + abs(noise - 1),
            "requests_per_second": requests / 30,
        }
    if contender.sweep == "whole_life":
        count = int(contender.point or 0)
        start, each = 1e-3 * (2 + place), 1e-4 * (1 + place / 4)
        clock = (start + each * count) * noise
        return {
            "connections": count,
            "client.elapsed_seconds": clock * 1.4,
            "server.elapsed_seconds": clock * 1.6,
            "client.task_clock": clock * 0.4,
            "server.task_clock": clock,
            "server.context_switches": int(10 + count * noise),
            "client.context_switches": int(13 + count * noise),
            "latency_p99_seconds": (20 + 3 * count) * 1e-6 * noise if count >= 4 else None,
        }
    pool = int(contender.settings.get("pool", 0) or 0)
    cost = (
        POOL_COSTS[contender.base](pool) if contender.sweep else synthetic_summary.COSTS[contender.base]
    ) / 5_000
    return {
        "connections": 4000,
        "requests": 4000,
        "server_cpu_seconds": cost * noise * 4000,
        "server_cpu_per_connection": cost * noise,
        "elapsed_seconds": cost * 6400 * noise,
        "requests_per_second": 1 / (cost * 1.6 * noise),
        "voluntary_switches_per_connection": 1
        + pool * (contender.base == "prefork")
        + generator.normal(0, 0.02),
    }
