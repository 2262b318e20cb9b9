"""The options of `thunderherd knee`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from thunderherd.errors import UserError
from thunderherd.labs.words import OPTION, OPTION_HELP

Goal = str | None


def knee(
    designs: Annotated[
        list[str], typer.Argument(metavar="DESIGN...", help="Designs, or design=prefork,pool=30.")
    ],
    p50: Annotated[Goal, typer.Option("--p50", metavar="TIME", help="The goal, such as 500us.")] = None,
    p90: Annotated[Goal, typer.Option("--p90", metavar="TIME", help="Or of the 90th percentile.")] = None,
    p99: Annotated[Goal, typer.Option("--p99", metavar="TIME", help="Or of the 99th: 2ms.")] = None,
    p999: Annotated[Goal, typer.Option("--p999", metavar="TIME", help="Or of the 99.9th.")] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            "--rates",
            metavar="LOW..HIGH",
            help="Requests a second, such as 1k..50k; shares of what a closed loop comes to if not given.",
        ),
    ] = None,
    workload: Annotated[str | None, typer.Option("--workload", help="The first if not given.")] = None,
    clients: Annotated[
        int | None,
        typer.Option("--clients", min=1, max=100_000, help="The most connections; as `load open` has."),
    ] = None,
    connections: Annotated[
        str | None, typer.Option("--connections", help="kept, or per_request; as `load open` has.")
    ] = None,
    lab: Annotated[list[str] | None, typer.Option(OPTION, metavar="LAB", help=OPTION_HELP)] = None,
    milliseconds: Annotated[
        int | None, typer.Option("--milliseconds", min=1, help="How long a trial measures; 1000, or 500.")
    ] = None,
    points: Annotated[
        int | None, typer.Option("--points", min=3, max=64, help="Rates of each design; 8, or 5.")
    ] = None,
    blocks: Annotated[
        int | None, typer.Option("--blocks", min=1, max=1000, help="Blocks; 10, or 6 and more.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter trials.")] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Fix a key of the study; may be repeated."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of the order of trials; drawn and recorded if not given."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the results go; results/... if not given."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the unfinished search in --out: same words, same seed."),
    ] = False,
) -> int:
    """Up to which rate does a design meet a latency goal? An open loop at several rates, design by design."""
    if resume and out is None:
        raise UserError("knee: --resume goes on with a search that was begun; say which with --out DIR")

    from thunderherd.search.knee import find_knees
    from thunderherd.search.knee_study import Asked

    asked = Asked(
        designs=tuple(designs),
        percentiles={"p50": p50, "p90": p90, "p99": p99, "p999": p999},
        rates=rates,
        workload=workload,
        clients=clients,
        connections=connections,
        milliseconds=milliseconds,
        points=points,
        blocks=blocks,
        quick=quick,
        lab=tuple(lab or ()),
    )
    return find_knees(
        asked,
        fixed=overrides or [],
        seed=seed,
        out=out,
        resume=resume,
        command=["thunderherd", *sys.argv[1:]],
    )
