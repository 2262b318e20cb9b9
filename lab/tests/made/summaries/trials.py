"""Invented trials, for tests of summaries."""

from __future__ import annotations

from thunderherd.records.summary import Noise, TrialRecord
from thunderherd.study.loading import Study


def made_trial(
    study: Study,
    contender: str,
    block: int,
    *,
    cost: float = 40e-6,
    valid: bool = True,
    attempt: int = 1,
    foreign: float = 0.0,
    seed: int = 1,
    position: int = 1,
) -> TrialRecord:
    """A trial that never happened: `cost` in seconds a connection, `foreign` the share used by others."""
    connections = study.contender(contender).load.requests_per_trial or 100
    pool = study.contender(contender).settings.get("pool")
    workers = [connections // int(pool)] * int(pool) if pool else None
    return TrialRecord(
        study=study.name,
        contender=contender,
        block=block,
        position=position,
        attempt=attempt,
        seed=seed,
        started="2025-01-02T03:04:05.678+00:00",
        wall_seconds=0.4,
        valid=valid,
        invalid_reasons=[] if valid else ["load: errors: 2 refused"],
        cpu_scope="window",
        noise=Noise(
            steal_share=0.0, foreign_share=foreign, foreign_uncertainty=0.0, wall_seconds=0.3,
            machine_busy_seconds=0.2, throttled=0,
        ),
        time_wait_before=0,
        metrics={
            "connections": connections,
            "requests": connections,
            "server_cpu_seconds": cost * connections,
            "server_cpu_per_connection": cost,
            "client_cpu_seconds": 0.01,
            "machine_cpu_seconds": 0.2,
            "elapsed_seconds": 0.25,
            "connections_per_second": 4 * connections,
            "voluntary_switches_per_connection": 2.0,
            "clients_per_worker_sd": 1.5 if workers else None,
            "clients_per_worker_min": min(workers) if workers else None,
            "clients_per_worker_max": max(workers) if workers else None,
            "listen_drops": 0,
        },
        worker_connections=workers,
    )  # fmt: skip
