"""The commands `serve`, `load` and `count`, which become the engine, and `merge` and `judge`."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from thunderherd.cli.options import PROGRAM, AsJson
from thunderherd.errors import UserError

__all__ = ["EngineCommand", "count", "judge", "load", "merge", "serve"]


class EngineCommand(TyperCommand):
    """A command whose arguments, --help among them, go to the engine untouched."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take all arguments as they stand."""
        ctx.args = list(args)
        return []


def serve(context: typer.Context) -> None:
    """Serve a workload by one design until Ctrl-C.

    The engine's command: see `serve --help`; `--help-all` lists all options. With --lab veth it serves in its
    own network namespace.
    """
    _become_engine_in_a_lab("serve", context.args)


def load(context: typer.Context) -> None:
    """Send requests to a server and check its replies.

    The engine's command: see `load --help`; `--help-all` lists all options. With --lab veth it joins the
    server's network.
    """
    _become_engine_in_a_lab("load", context.args)


def count(context: typer.Context) -> None:
    """Run serve or load and count its events.

    The engine's command, which counts from exec to exit: see `count --help`.
    """
    _become_engine("count", context.args)


def _become_engine_in_a_lab(command: str, arguments: list[str]) -> NoReturn:
    """Become the engine, in a lab if --lab names one. Without --lab, import no module of the labs."""
    asks_for_help = not {"-h", "--help", "--help-all"}.isdisjoint(arguments)
    if asks_for_help or any(word.partition("=")[0] == "--lab" for word in arguments):
        from thunderherd.cli import labs

        if asks_for_help:
            raise typer.Exit(labs.show_help(command, arguments))
        request = labs.read(command, arguments)
        if request.serves_in_namespaces:
            raise typer.Exit(labs.serve_in_namespaces(request))
        arguments = labs.engine_words(request)
    _become_engine(command, arguments)


def _become_engine(command: str, arguments: list[str]) -> NoReturn:
    """Replace this process by the engine, so that stdin, signals and exit status are the engine's."""
    from thunderherd.engine.client import find_engine

    engine = find_engine()
    # Exec keeps ignored signals ignored, and Python ignores these two.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execv(engine, [PROGRAM, command, *arguments])
    except OSError as error:
        from thunderherd.engine.places.failures import hint_of_start

        raise UserError(
            f"cannot be started: {error.strerror}",
            code="engine.cannot_start",
            hint=hint_of_start(error),
            where=str(engine),
        ) from None


# Files with results of loads --------------------------------------------------------------------------------

NO_VERDICT = 1
"""The exit status if there are too few blocks for a verdict."""


def merge(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Files with the output of `thunderherd load ... --json`."),
    ],
    as_json: AsJson = False,
) -> int:
    """Merge the results of several loads into one.

    Rates add up, histograms are merged, and percentiles are those of the merged histogram. The exit status is
    1 if a load was invalid or had errors, or if loads of one machine did not run at the same time.
    """
    from thunderherd.engine.merged_loads import load_lines, merged_loads
    from thunderherd.show.terminal.merged import print_merged
    from thunderherd.text.layout import make_console

    found = merged_loads([line for file in files for line in load_lines(file)])
    if as_json:
        print(found.model_dump_json())
    else:
        print_merged(found, make_console())
    return int(found.valid is False or bool(found.errors))


def judge(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE... [vs FILE...]",
            help="Files with the output of `thunderherd load ... --json`. Without vs, files whose names "
            "differ only in their last number form a group: A1.json A2.json.",
        ),
    ],
    as_json: AsJson = False,
) -> int:
    """Compare the targets of loads whose results are in files.

    The first loads of all groups form block 1, the second ones block 2. Verdicts are those of `compare`.

    Only the target of the loads may differ. The exit status is 1 if there are too few blocks for a verdict.

    Example: thunderherd judge old*.json vs new*.json
    """
    from thunderherd.judge.summary.judged_loads import grouped, judged_loads
    from thunderherd.show.terminal.judged import judged_as_json, print_judged
    from thunderherd.text.layout import make_console

    found = judged_loads(grouped(files))
    if as_json:
        print(json.dumps(judged_as_json(found), indent=2))
    else:
        print_judged(found, make_console())
    return NO_VERDICT if found.missing else 0
