"""The command `merge`: what loads came to together that were made by several processes, here or elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from thunderherd.engine.lines import Times
    from thunderherd.engine.merged_loads import MergedLoads

__all__ = ["merge"]

PERCENTILES = {"half": "p50_ns", "90 %": "p90_ns", "99 %": "p99_ns", "99.9 %": "p999_ns"}


def merge(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Each what `thunderherd load ... --json` has printed."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Put the results of several loads together: rates added, histograms merged, percentiles of the sum.

    The exit status is 1 where one of the loads was not valid or had errors, or loads of one machine did not
    run at the same time.
    """
    from thunderherd.engine.merged_loads import load_lines, merged_loads

    found = merged_loads([line for file in files for line in load_lines(file)])
    print(found.model_dump_json() if as_json else "\n".join(_in_words(found)))
    return int(found.valid is False or bool(found.errors))


def _in_words(found: MergedLoads) -> Iterator[str]:
    from thunderherd.trial.caveats import where_kept

    loads = f"{found.loads} loads" if found.loads > 1 else "1 load"
    yield (
        f"{loads} ({found.load}) of {found.workload}: {found.requests:,} replies, "
        f"{found.per_second:,.0f} a second"
    )
    if found.latency is not None:
        start = {"sent": "closed loop", "intended": "open loop, from when they were due"}[
            found.latency.starts
        ]
        yield _times_in_words(f"replies ({start})", found.latency)
    if (schedule := found.scheduled) is not None:
        yield (
            f"of {schedule.due:,} requests that were due {schedule.sent:,} were sent, {schedule.waited:,} of "
            f"them late since no connection was free; {schedule.answered:,} were answered, "
            f"{schedule.failed:,} failed, {schedule.never_sent:,} were never sent"
        )
        for what, times in (
            ("from the sending (service time)", schedule.service_time),
            ("waiting for a connection", schedule.connection_wait),
            ("sent too late by", schedule.send_lag),
        ):
            if times is not None:
                yield _times_in_words(what, times)
    if found.errors:
        yield "errors: " + ", ".join(f"{kind} {number:,}" for kind, number in found.errors.items())
    if found.closings is not None:
        yield f"ended connections stay in TIME_WAIT {where_kept(found.closings)}"
    for name, values in found.differing.items():
        yield f"not alike in all: {name} ({', '.join(map(str, values))})"
    if found.valid is not None:
        yield "valid: every load says so of itself" if found.valid else "NOT VALID:"
    yield from found.reasons


def _times_in_words(what: str, times: Times) -> str:
    known = {name: getattr(times, field) for name, field in PERCENTILES.items()} | {"all": times.maximum_ns}
    told = [
        f"{name} within {value / 1e6:.3f} ms" if value is not None else f"{name}: too few"
        for name, value in known.items()
    ]
    return f"{what}: {', '.join(told)}"
