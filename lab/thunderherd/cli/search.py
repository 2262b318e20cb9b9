"""The searches: `crossover`, from which size on A beats B, and `knee`, the highest rate within a goal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from thunderherd.cli.options import (
    AllowCommands,
    Lab,
    LoadHosts,
    NoConform,
    Out,
    Overrides,
    Resume,
    RunsAs,
    Scheduler,
    Seed,
    ServerHost,
    check_resume,
    check_room,
    chosen_labs,
    command_line,
)
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import is_host

__all__ = ["crossover", "knee"]


def crossover(
    a: Annotated[
        str,
        typer.Argument(metavar="A", help="Design, primitive, or settings such as design=prefork,pool=30."),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Design, primitive or settings to compare with A.")],
    over: Annotated[
        list[str],
        typer.Option(
            "--over", metavar="SETTING=LOW..HIGH", help="Setting and range, such as message_size=64..4MiB."
        ),
    ],
    workload: Annotated[
        str | None,
        typer.Option("--workload", help="Workload (default: the first that has the setting of --over)."),
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(
            "--load",
            metavar="LOAD",
            help="Load (default: the first that can end by time); or a host of the load, such as ssh://b, "
            "which may be repeated (default: this machine).",
        ),
    ] = None,
    design: Annotated[
        str | None,
        typer.Option("--design", help="Design if A and B are primitives (default thread_per_client)."),
    ] = None,
    side: Annotated[
        str | None,
        typer.Option(
            "--side",
            help="Side that uses A and B, if primitives, and the setting: server, client or both "
            "(default: by the workload).",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help="Metric to compare (default requests_per_second; of a stream gigabits_per_second).",
        ),
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option("--show", metavar="METRIC", help="Further metric; may be repeated (default: none)."),
    ] = None,
    lab: Lab = None,
    user: RunsAs = None,
    server: ServerHost = None,
    scheduler: Scheduler = None,
    allow_commands: AllowCommands = False,
    study: Annotated[
        str | None,
        typer.Option(
            "--study", metavar="STUDY", help="Study that defines A, B and everything else (default: none)."
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--duration", metavar="TIME", help="Length of a trial's window (default 500ms)."),
    ] = None,
    points: Annotated[
        int | None,
        typer.Option(
            "--points", min=2, max=64, help="Sizes in the first stage (default 5 to 13, by the range)."
        ),
    ] = None,
    blocks: Annotated[
        int,
        typer.Option(
            "--blocks", min=1, max=1000, help="Blocks in each stage (default 12).", show_default=False
        ),
    ] = 12,
    overrides: Overrides = None,
    seed: Seed = None,
    out: Out = None,
    resume: Resume = False,
    no_conform: NoConform = False,
) -> int:
    """Find the size from which A beats B.

    The first stage covers the whole range; the second looks closely around the crossing.
    """
    check_room()
    check_resume("crossover", resume=resume, out=out)
    if len(over) > 1:
        raise UserError(
            f"--over is given {len(over)} times: {', '.join(over)}",
            code="crossover.over_repeated",
            hint="leave all out but one",
            where="crossover",
        )

    hosts = [each for each in load or () if is_host(each)]
    loads = [each for each in load or () if each not in hosts]

    from thunderherd.search.crossover import find_crossover
    from thunderherd.search.request import CrossoverRequest

    request = CrossoverRequest(
        a=a,
        b=b,
        over=over[0],
        study=study,
        workload=workload,
        load=_one_load(loads),
        design=design,
        side=side,
        metric=metric,
        show=tuple(show or ()),
        lab=tuple(chosen_labs(lab, user, server, hosts, scheduler)),
        duration=duration,
        points=points,
        blocks=blocks,
        fixed=tuple(overrides or ()),
        seed=seed,
        out=out,
        resume=resume,
        words=tuple(command_line()),
        conform=not no_conform,
        allow_commands=allow_commands,
    )
    return find_crossover(request)


# knee -------------------------------------------------------------------------------------------------------


def _one_load(loads: list[str]) -> str | None:
    """Return the kind of load; raise `UserError` if several are given."""
    if len(loads) > 1:
        raise UserError(
            f"--load names {len(loads)} loads: {', '.join(loads)}",
            code="crossover.load_repeated",
            hint="leave all out but one; the host of a load is such as ssh://b",
            where="crossover",
        )
    return loads[0] if loads else None


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
    user: RunsAs = None,
    server: ServerHost = None,
    load_hosts: LoadHosts = None,
    scheduler: Scheduler = None,
    allow_commands: AllowCommands = False,
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
    no_conform: NoConform = False,
) -> int:
    """Find the highest rate at which designs meet a latency goal.

    An open loop loads each design at several rates. Exactly one of the goals is required.
    """
    check_room()
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
        lab=tuple(chosen_labs(lab, user, server, load_hosts, scheduler)),
        fixed=tuple(overrides or ()),
        seed=seed,
        out=out,
        resume=resume,
        words=tuple(command_line()),
        conform=not no_conform,
        allow_commands=allow_commands,
    )
    return find_knees(request)
