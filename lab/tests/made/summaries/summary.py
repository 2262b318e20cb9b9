"""A run that never happened: simulated trials of `unp-ch30`, put through the real analysis.

Its title says that it is synthetic. The costs are of the size that a small virtual machine shows; nothing
here is a measurement. Deterministic: the generator's seed is fixed.
"""

from functools import cache
from typing import Any

import numpy as np

from made.paths import DATA
from thunderherd.engine.catalogue import Catalogue
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.summary import Noise, Summary, TrialRecord
from thunderherd.study.loading import Contender, Study, load_study

CATALOGUE = DATA / "catalogue.json"
TITLE = "Client Server Design Alternatives (synthetic data, no measurement)"
REJECTED_BLOCK, INVALID_BLOCK = 4, 7

COSTS = {
    "iterative": 0.212,
    "fork_per_client": 1.214,
    "prefork": 0.262,
    "prefork_file_lock": 0.318,
    "prefork_mutex": 0.266,
    "prefork_pass_descriptor": 0.354,
    "thread_per_client": 0.371,
    "prethread": 0.246,
    "prethread_mutex": 0.249,
    "prethread_queue": 0.277,
    "prefork_modern": 0.263,
}
"""True CPU seconds for 5,000 connections."""

MACHINE: dict[str, Any] = {
    "kernel": "Linux 6.1.0-synthetic x86_64",
    "distribution": "Debian GNU/Linux 12 (bookworm)",
    "cpu": {"model": "Synthetic CPU @ 2.00GHz", "count": 2, "usable": [0, 1], "governor": None},
    "memory_bytes": 8_324_128_768,
    "congestion_control": "bbr",
    "sysctls": {"net.ipv4.ip_local_port_range": "32768\t60999"},
    "unavailable": {"cpu.governor": "no CPU has a cpufreq directory: a virtual machine, or no driver"},
}


@cache
def study() -> Study:
    """The bundled study in its quick size, with a title that marks it as synthetic."""
    catalogue = Catalogue.model_validate_json(CATALOGUE.read_text(encoding="utf-8"))
    return load_study("unp-ch30", "quick", [], catalogue).model_copy(update={"title": TITLE})


@cache
def summary(seed: int = 30) -> Summary:
    """The summary of the simulated run."""
    return summarise(
        study(),
        trials(seed),
        MACHINE,
        seed=seed,
        command=["thunderherd", "run", "unp-ch30", "--quick", "--seed", str(seed)],
        started="2025-01-02T03:04:05+00:00",
        notes=["the machine is invented: others may show other figures"],
    )


@cache
def document(seed: int = 30) -> str:
    """`summary.json` of the simulated run."""
    return summary(seed).model_dump_json(by_alias=True)


def trials(seed: int) -> list[TrialRecord]:
    """Every trial of every block: one block was noisy, and one trial had to be repeated."""
    generator = np.random.default_rng(seed)
    records = []
    for block in range(1, study().looks[0].blocks + 2):
        disturbance = generator.normal(0, 0.02)
        for position, contender in enumerate(study().contenders, start=1):
            cost = COSTS[contender.name] / 5_000 * np.exp(disturbance + generator.normal(0, 0.015))
            trial = _trial(contender, block, position, seed, cost, generator)
            if (block, contender.name) == (INVALID_BLOCK, "prefork"):
                reasons = {"valid": False, "invalid_reasons": ["3 connections were refused"]}
                records.append(trial.model_copy(update=reasons))
                trial = trial.model_copy(update={"attempt": 2})
            records.append(trial)
    return records


def _trial(
    contender: Contender, block: int, position: int, seed: int, cost: float, generator: np.random.Generator
) -> TrialRecord:
    connections = contender.load.requests_per_trial or 0
    workers = _workers(contender, connections, generator)
    return TrialRecord(
        study=study().name,
        contender=contender.name,
        block=block,
        position=position,
        seed=seed,
        started="2025-01-02T03:04:05+00:00",
        wall_seconds=0.9,
        valid=True,
        invalid_reasons=[],
        cpu_scope="window",
        noise=Noise(
            steal_share=0.0,
            foreign_share=0.6 if block == REJECTED_BLOCK else 0.01,
            wall_seconds=0.6,
            machine_busy_seconds=0.5,
            throttled=0,
        ),
        time_wait_before=0,
        metrics={
            "connections": connections,
            "requests": connections,
            "server_cpu_seconds": cost * connections,
            "server_cpu_per_connection": cost,
            "client_cpu_seconds": (0.2 * cost + 6e-5) * connections,
            "machine_cpu_seconds": (1.2 * cost + 9e-5) * connections,
            "elapsed_seconds": cost * connections * 1.6,
            "connections_per_second": 1 / (cost * 1.6),
            "voluntary_switches_per_connection": 2.0 + generator.normal(0, 0.02),
            "clients_per_worker_sd": float(np.std(workers)) if workers else None,
            "clients_per_worker_min": min(workers) if workers else None,
            "clients_per_worker_max": max(workers) if workers else None,
            "listen_drops": 0,
        },
        worker_connections=workers,
    )


def _workers(contender: Contender, connections: int, generator: np.random.Generator) -> list[int] | None:
    """Connections of each pool worker: drawn evenly, but steeply for descriptor passing."""
    if "pool" not in contender.settings:
        return None
    places = np.arange(int(contender.settings["pool"]))
    weights = (
        np.exp(-0.35 * places) if contender.design == "prefork_pass_descriptor" else np.ones(places.size)
    )
    drawn: list[int] = generator.multinomial(connections, weights / weights.sum()).tolist()
    return drawn
