"""The command `conform`: the cases that any server must pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from thunderherd.cli.options import AsJson, check_output, write_output
from thunderherd.errors import UserError

__all__ = ["conform"]

FAILED = 1
"""The exit status if a case failed."""

SHORTEST, LONGEST = 0.01, 600.0
"""The limits of --timeout, in seconds."""


def conform(
    server: Annotated[
        str,
        typer.Argument(
            metavar="SERVER",
            help="Command such as './server {port}', URL of a running server, or design.",
        ),
    ],
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="NAME",
            help="Workload, see `list workloads` (default: the URL's, else bytes).",
        ),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            "--path",
            metavar="PATH",
            help="Path of a resource that a server of HTTP has (default: the URL's, else /).",
        ),
    ] = None,
    cases: Annotated[
        list[str] | None,
        typer.Option("--case", metavar="N", help="Number of a case; may be repeated (default: all)."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", min=0, max=2**64 - 1, help="Seed of random inputs (default 1).", show_default=False
        ),
    ] = 1,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="TIME",
            help="Time without progress after which a case has failed (default 5s).",
            show_default=False,
        ),
    ] = "5s",
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="Send GET wherever a case of HTTP may choose the request (default: GET and others).",
        ),
    ] = False,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="File for JUnit XML (default: none)."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check a server against the numbered cases of its workload.

    The exit status is 1 if a case failed or the server does not start, 2 for wrong usage. A command gets its
    port by {port} or PORT.
    """
    numbers = [number for text in cases or () for number in _numbers(text)]
    check_output("conform", "--junit", junit)

    from thunderherd.conform.formats import as_json as for_programs
    from thunderherd.conform.formats import as_junit, as_junit_error
    from thunderherd.conform.server import typed_server
    from thunderherd.conform.verdicts import conformance
    from thunderherd.engine.client import EngineError, catalogue
    from thunderherd.show.terminal.conformance import print_conformance
    from thunderherd.text.layout import make_console

    longest = _seconds(timeout)
    chosen = typed_server(server, workload, catalogue(), path=path)
    try:
        found = conformance(chosen, numbers=numbers, seed=seed, patience=longest, plain=plain)
    except EngineError as error:
        if junit is not None:
            write_output("conform", junit, as_junit_error(chosen, str(error)), quiet=True)
        raise
    if as_json:
        print(json.dumps(for_programs(found), indent=2))
    else:
        print_conformance(found, make_console())
    if junit is not None:
        write_output("conform", junit, as_junit(found), quiet=as_json)
    return FAILED if found.failed else 0


def _seconds(text: str) -> float:
    """Parse the longest wait, in seconds."""
    from thunderherd.toml.quantities import TIME, parse_quantity

    seconds = parse_quantity(text, f"conform: --timeout {text}", TIME) / 1e9
    if not SHORTEST <= seconds <= LONGEST:
        raise UserError(
            f"{text} is not from {SHORTEST * 1e3:g}ms to {LONGEST:g}s",
            code="conform.invalid_timeout",
            where=f"conform: --timeout {text}",
        )
    return seconds


def _numbers(text: str) -> list[int]:
    """Parse numbers of cases with commas between them."""
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise UserError(
            f"'{text}' is no number of a case",
            code="conform.invalid_case",
            hint="such as --case 6, or --case 6,14",
            where=f"conform: --case {text}",
        ) from None
