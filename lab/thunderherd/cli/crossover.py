"""The command `crossover`: from which size on A beats B."""

from __future__ import annotations

from typing import Annotated

import typer

from thunderherd.cli.options import Lab, Out, Overrides, Resume, Seed, check_resume, command_line
from thunderherd.errors import UserError

__all__ = ["crossover"]


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
        str | None, typer.Option("--load", help="Load (default: the first that can end by time).")
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
) -> int:
    """Find the size from which A beats B.

    The first stage covers the whole range; the second looks closely around the crossing.
    """
    check_resume("crossover", resume=resume, out=out)
    if len(over) > 1:
        raise UserError(
            f"--over is given {len(over)} times: {', '.join(over)}",
            code="crossover.over_repeated",
            hint="leave all out but one",
            where="crossover",
        )

    from thunderherd.search.crossover import find_crossover
    from thunderherd.search.request import CrossoverRequest

    request = CrossoverRequest(
        a=a,
        b=b,
        over=over[0],
        study=study,
        workload=workload,
        load=load,
        design=design,
        side=side,
        metric=metric,
        show=tuple(show or ()),
        lab=tuple(lab or ()),
        duration=duration,
        points=points,
        blocks=blocks,
        fixed=tuple(overrides or ()),
        seed=seed,
        out=out,
        resume=resume,
        words=tuple(command_line()),
    )
    return find_crossover(request)
