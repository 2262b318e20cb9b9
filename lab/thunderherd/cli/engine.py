"""The commands `serve`, `load` and `count`, which become the engine."""

from __future__ import annotations

import os
import signal
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

from thunderherd.cli.options import PROGRAM
from thunderherd.errors import UserError

__all__ = ["EngineCommand", "count", "load", "serve"]


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
        raise UserError(
            f"cannot be started: {error.strerror}",
            code="engine.cannot_start",
            hint="run `make build`",
            where=str(engine),
        ) from None
