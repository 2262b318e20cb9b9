"""Results of loads that never ran."""

from __future__ import annotations

from hdrh.histogram import HdrHistogram

from thunderherd.engine.lines import (
    Check,
    Counted,
    Latency,
    LoadResult,
    Scheduled,
    Tally,
    Times,
    Validity,
    Window,
)
from thunderherd.statistics.histograms import DIGITS, HIGHEST, LOWEST, maximum_ns, percentile_ns

SECOND = 10**9
REQUESTS = 20_000
LAG = Check(
    name="send_lag", value=5.5e6, limit=1e5, holds=False,
    words="nanoseconds by which one request in a hundred was sent late, at least: the load itself was late; "
    "use --wait spin, more --threads or a separate CPU (--cpus); or use a lower --rate",
)  # fmt: skip


def _times(first: int, step: int) -> Times:
    histogram = HdrHistogram(LOWEST, HIGHEST, DIGITS)
    for place in range(REQUESTS):
        histogram.record_value(first + place * step)
    shares = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}
    return Times(
        requests=REQUESTS, mean_ns=first + step * REQUESTS / 2, maximum_ns=maximum_ns(histogram),
        histogram=histogram.encode().decode(),
        **{name: percentile_ns(histogram, share) for name, share in shares.items()},
    )  # fmt: skip


def made_load(number: int, *, late: bool = False) -> LoadResult:
    """An open load of a second at 20,000 requests per second, with the arrival seed `number`."""
    latency, service, lag = _times(40_000, 7), _times(35_000, 5), _times(1000, 300 if late else 2)
    moved = {"bytes_sent": 5 * REQUESTS, "bytes_received": 4000 * REQUESTS}
    calls = {"send_calls": REQUESTS, "receive_calls": REQUESTS}
    zeros = dict.fromkeys(
        ("closed", "bytes_not_copied", "completions", "completions_copied", "empty_wakeups"), 0
    )
    lost = dict.fromkeys(("workers_lost", "workers_replaced"), 0)
    tally = Tally.model_validate({"connections": 64, "requests": REQUESTS, **moved, **calls, **zeros, **lost})
    return LoadResult.model_construct(
        workload="bytes", load="open", measured_by="requests", boot_id=f"machine {number}",
        settings={"rate": 20_000, "threads": 1, "arrivals": "poisson", "arrival_seed": number},
        tally=tally, elapsed_ns=SECOND, started_monotonic_ns=0, ended_monotonic_ns=SECOND,
        window=Window(
            started_monotonic_ns=0, ended_monotonic_ns=SECOND, requests=REQUESTS, connections=64,
            counted=Counted(elapsed_ns=SECOND, **moved, **calls),
        ),
        latency=Latency.model_validate(latency.model_dump() | {"from": "intended"}),
        scheduled=Scheduled(
            due=REQUESTS, sent=REQUESTS, answered=REQUESTS, failed=0, never_sent=0, waited=0,
            offered_per_second=20_000.0, achieved_per_second=20_000.0, service_time=service, send_lag=lag,
            connection_wait=None,
        ),
        validity=Validity(valid=not late, checks=[LAG] if late else []), closings=None, traffic=None,
        interrupted=False, user_ns=112_000_000, system_ns=431_000_000,
    )  # fmt: skip
