"""The command `knee`: the highest rate at which each design meets a latency goal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from thunderherd.cli.options import Lab, Out, Overrides, Resume, Seed, check_resume, command_line

__all__ = ["knee"]


def _goal(option: str, percentile: str, example: str) -> Any:
    help_ = f"Goal for the {percentile} of latency, such as {example} (default: none)."
    return typer.Option(option, metavar="TIME", help=help_)


def knee(
    designs: Annotated[
        list[str], typer.Argument(metavar="DESIGN...", help="Design, or settings: design=prefork,pool=30.")
    ],
    p50: Annotated[str | None, _goal("--p50", "median", "500us")] = None,
    p90: Annotated[str | None, _goal("--p90", "90th percentile", "1ms")] = None,
    p99: Annotated[str | None, _goal("--p99", "99th percentile", "2ms")] = None,
    p999: Annotated[str | None, _goal("--p999", "99.9th percentile", "5ms")] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            "--rates",
            metavar="LOW..HIGH",
            help="Requests per second, such as 1k..50k (default: shares of a closed loop's rate).",
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", help="Workload (default: the first measured by requests).")
    ] = None,
    clients: Annotated[
        int | None, typer.Option("--clients", min=1, max=100_000, help="Maximum connections (default 64).")
    ] = None,
    connections: Annotated[
        str | None, typer.Option("--connections", help="Connections: kept or per_request (default kept).")
    ] = None,
    lab: Lab = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration",
            metavar="TIME",
            help="Length of a trial's window (default 1s, or 500ms with --quick; more if the goal needs it).",
        ),
    ] = None,
    points: Annotated[
        int | None,
        typer.Option("--points", min=3, max=64, help="Rates per design (default 8, or 5 with --quick)."),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(
            "--blocks",
            min=1,
            max=1000,
            help="Blocks (default 10, or 6 with --quick; more if many designs need them).",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer and shorter trials, no second run (default: off).")
    ] = False,
    overrides: Overrides = None,
    seed: Seed = None,
    out: Out = None,
    resume: Resume = False,
) -> int:
    """Find the highest rate at which designs meet a latency goal.

    An open loop loads each design at several rates. Exactly one of the goals is required.
    """
    check_resume("knee", resume=resume, out=out)

    from thunderherd.search.knee import find_knees
    from thunderherd.search.request import KneeRequest

    request = KneeRequest(
        designs=tuple(designs),
        percentiles={"p50": p50, "p90": p90, "p99": p99, "p999": p999},
        rates=rates,
        workload=workload,
        clients=clients,
        connections=connections,
        duration=duration,
        points=points,
        blocks=blocks,
        quick=quick,
        lab=tuple(lab or ()),
        fixed=tuple(overrides or ()),
        seed=seed,
        out=out,
        resume=resume,
        words=tuple(command_line()),
    )
    return find_knees(request)
