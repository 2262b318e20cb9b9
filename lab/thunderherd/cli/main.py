"""The program `thunderherd`: registers its commands, and reports what went wrong.

A command imports what it needs when it runs, so that `list`, `serve` and mistakes answer at once.

Exit status: 0 for success, 1 for a failure, 2 for wrong usage, 130 for Ctrl-C. `gate` ends
with 1 only if a server got slower, and with 128 for failures and mistakes (`GATES`). `run`, `compare` and
`claims --decide` end with 3 if nothing was measured. `crossover` and `knee` also end with 1 if their trials
give no answer, `grade` if the machine is too busy for one, `doctor` if a study cannot run, `merge` if a load
is invalid, `judge` if it has too few loads, `conform` if a case fails. `serve`, `load` and `count` become the
engine and end with its status.
"""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib import metadata
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from thunderherd.cli.compare import compare
from thunderherd.cli.engine import EngineCommand, count, judge, load, merge, serve
from thunderherd.cli.explain import explain
from thunderherd.cli.gate import gate
from thunderherd.cli.list import list_
from thunderherd.cli.machine import doctor, hosts, limits
from thunderherd.cli.options import PROGRAM
from thunderherd.cli.results import claims, plot, report, summary, table
from thunderherd.cli.run import run, watch
from thunderherd.cli.search import crossover, knee
from thunderherd.cli.servers import conform, grade
from thunderherd.cli.sessions import baseline, capsule, diff, export, replay
from thunderherd.errors import REMEDIES, Problem, UserError
from thunderherd.machine.room import limits_here
from thunderherd.text.printable import printable

__all__ = ["PROGRAM", "app", "main", "run_command"]

MISTAKE, INTERRUPTED, FAILED = 2, 130, 1
GATES, SKIPPED, OWN_FAILURE = ("gate", "baseline"), 125, 128
"""The commands whose status 1 is a verdict; their status for a skipped commit; and for their own failures.

`git bisect run` takes every status from 1 to 127 for a bad commit, except 125, and stops at 128 and more.
"""

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="fio for sockets: which server design, and which way of moving bytes, wins on this machine, "
    "by how much, how sure are we, and why.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{PROGRAM} {metadata.version('thunderherd')}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def thunderherd(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(MISTAKE)


COMMANDS: tuple[Callable[..., int | None], ...] = (
    compare, gate, run, crossover, knee, conform, grade, judge, merge, list_, doctor, hosts, limits, claims,
    table, summary, watch, explain, report, plot, baseline, capsule, replay, diff, export,
)  # fmt: skip
"""The commands, in the order of `--help`."""

TAKES_SETTINGS = {"ignore_unknown_options": True}
"""The context of a command that takes any setting as an option."""

for each in COMMANDS:
    takes_any = TAKES_SETTINGS if each in (compare, gate, baseline) else None
    app.command(each.__name__.rstrip("_"), context_settings=takes_any)(each)
for engine_command in (serve, load, count):
    app.command(cls=EngineCommand, add_help_option=False)(engine_command)


# What went wrong --------------------------------------------------------------------------------------------


def main() -> NoReturn:
    """Run the command line of this process and exit with the command's status."""
    arguments = sys.argv[1:]
    _with_standard_streams()
    try:
        status = run_command(arguments)
    except Exception:
        # A bug, whose stack trace is of use.
        with suppress(OSError):
            sys.excepthook(*sys.exc_info())
        status = OWN_FAILURE if _is_gate(arguments) else FAILED
    sys.exit(_with_output_written(status, arguments))


def _with_output_written(status: int, arguments: Sequence[str]) -> int:
    """Flush stdout and stderr, and return the exit status: a failure if one of them cannot be written.

    Python would flush them again at exit, and end with status 120.
    """
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            status = max(status, OWN_FAILURE if _is_gate(arguments) else FAILED)
    return status


@cache
def _command() -> Callable[..., Any]:
    """Return Typer's command for the whole program, which takes a while to build."""
    return typer.main.get_command(app)


def _interrupt_at_the_end() -> None:
    """Treat every signal that ends programs as Ctrl-C: servers are ended, and what was measured is kept."""
    if threading.current_thread() is threading.main_thread():
        for each in signal.valid_signals() - NO_INTERRUPTS:
            # nohup ignores SIGHUP.
            if signal.getsignal(each) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(each, _interrupted)


ECHO_SECONDS = 0.1
last_interrupt = -math.inf
"""The time of the last signal that interrupted the program (CLOCK_MONOTONIC)."""


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not again for an echo: timeout(1) signals a program, then its group."""
    global last_interrupt
    earlier, last_interrupt = last_interrupt, time.monotonic()
    if last_interrupt - earlier > ECHO_SECONDS:
        raise KeyboardInterrupt


NO_INTERRUPTS = {
    signal.SIGKILL, signal.SIGSTOP,  # nobody can catch them
    signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH,  # they end no program
    signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,  # they stop it
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS,
    signal.SIGTRAP,  # and these are faults of the program
}  # fmt: skip
"""The signals that do not ask the program to end (signal(7))."""


def _with_standard_streams() -> None:
    """Open /dev/null as each standard stream that is closed, so that no other file gets its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The system takes the lowest number that is free, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def _is_gate(arguments: Sequence[str]) -> bool:
    return _command_of(arguments) in GATES


def _command_of(arguments: Sequence[str]) -> str:
    return next((word for word in arguments if not word.startswith("-")), "")


def run_command(arguments: list[str]) -> int:
    """Run one command line and return its exit status. Print mistakes on stderr."""
    status, is_verdict = _ended(arguments)
    if is_verdict or not _is_gate(arguments) or status == SKIPPED:
        return status
    return max(status, OWN_FAILURE)


def _ended(arguments: list[str]) -> tuple[int, bool]:
    """Run one command line; return its exit status, and whether that is the command's own answer."""
    as_json = "--json" in arguments
    _interrupt_at_the_end()
    try:
        status = _command()(args=arguments, prog_name=PROGRAM, standalone_mode=False) or 0
        sys.stdout.flush()
        return int(status), True
    except UserError as mistake:
        return _complain(mistake.problems, mistake.exit_status, as_json=as_json), False
    except typer.TyperException as mistake:
        return _complain([_usage_problem(mistake, arguments)], MISTAKE, as_json=as_json), False
    except (KeyboardInterrupt, typer.Abort):  # Abort: Ctrl-C or the end of input at a prompt
        return INTERRUPTED, False
    except BrokenPipeError:
        # The reader has ended (`thunderherd list | head`). Python flushes stdout at exit, so redirect it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED, False
    except OSError as error:
        return _complain([_system_problem(error)], FAILED, as_json=as_json), False
    except MemoryError:
        return _complain([_shortage("no memory is left")], FAILED, as_json=as_json), False
    except BaseException as error:
        if _is_panic(error):
            why = f"a library failed: {(str(error).splitlines() or ['without a reason'])[0]}"
            return _complain([_shortage(why)], FAILED, as_json=as_json), False
        if not _is_engine_error(error):
            raise
        # Some end with their code in brackets, for the reasons of a trial.
        code, hint = str(getattr(error, "code", "engine.failed")), str(getattr(error, "hint", ""))
        problem = Problem(str(error).removesuffix(f" [{code}]"), code, hint)
        return _complain([problem], FAILED, as_json=as_json), False
    finally:
        # If its module was never imported, no directory was made.
        if directory := sys.modules.get("thunderherd.records.directory"):
            directory.release_unused()


def _complain(problems: Sequence[Problem], status: int, *, as_json: bool) -> int:
    """Print each problem on a line of stderr and its hint on the next; with `--json` also JSON on stdout."""
    # If stderr itself cannot be written, only the status reports the failure.
    with suppress(OSError):
        for each in problems:
            # Names may come from other people's files, so escape sequences are not printed.
            for line in each.line.splitlines() or [""]:
                print(f"{PROGRAM}: {printable(line.strip())}", file=sys.stderr)
            if each.hint:
                print(f"hint: {printable(' '.join(each.hint.split()))}", file=sys.stderr)
    if as_json:
        with suppress(OSError):
            print(json.dumps({"errors": [asdict(each) for each in problems]}, indent=2))
    return status


USAGE_CODES = {
    "NoSuchOption": "usage.unknown_option",
    "MissingParameter": "usage.missing",
    "BadParameter": "usage.invalid_value",
    "BadOptionUsage": "usage.missing_value",
}
"""Codes by the class of Typer's exception."""


def _usage_problem(mistake: typer.TyperException, arguments: Sequence[str]) -> Problem:
    """Return Typer's complaint. The hint has the nearest name, and the command whose --help to read."""
    context: Any = getattr(mistake, "ctx", None)
    first = arguments[0] if arguments and not arguments[0].startswith("-") else ""
    command = context.command_path if context else f"{PROGRAM} {first}".strip()
    hint = f"see `{command} --help`"
    code = USAGE_CODES.get(type(mistake).__name__, "usage.invalid")
    where = command.removeprefix(PROGRAM).strip()
    near: list[str] = sorted(getattr(mistake, "possibilities", None) or [])
    if near:
        return Problem(mistake.message, code, f"did you mean {' or '.join(near)}? {hint}", where)
    message, _, meant = " ".join(mistake.format_message().split()).rstrip(".").partition(". Did you mean")
    if message.startswith("No such command"):
        code = "usage.unknown_command"
    return Problem(message, code, f"did you mean{meant} {hint}" if meant else hint, where)


def _is_panic(error: BaseException) -> bool:
    """True for what libraries written in Rust raise if they cannot go on, which is no `Exception`."""
    return type(error).__name__ == "PanicException"


def _shortage(why: str) -> Problem:
    """Return the problem of a library that lacks memory or threads, with the limits that are in force."""
    limits = ", ".join(map(str, limits_here()))
    hint = f"limits here: {limits}" if limits else "no limit on memory or processes is set here"
    return Problem(why, "system.shortage", hint)


def _is_engine_error(error: BaseException) -> bool:
    """True if the engine failed. If its module was never imported, no error can have come from it."""
    engine = sys.modules.get("thunderherd.engine.client")
    return engine is not None and isinstance(error, engine.EngineError)


def _system_problem(error: OSError) -> Problem:
    """Return the system's error with its file, and a remedy if one is known."""
    elsewhere = "choose another place with --out (for a report: --output)"
    helps = {
        **dict.fromkeys(
            (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST), elsewhere
        ),
        **REMEDIES,
    }
    name = errno.errorcode.get(error.errno or 0, "error").lower()
    where = str(error.filename) if error.filename else ""
    return Problem(error.strerror or str(error), f"system.{name}", helps.get(error.errno or 0, ""), where)
