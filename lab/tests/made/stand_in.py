"""A stand-in for the engine, its lists, and commands that run in this process."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout

from thunderherd.cli import main

STAND_IN = """#!/bin/sh
# Stands for the engine: answers `list --json` and `--matrix`, else says how it was called, copies its stdin.
if [ "$2" = --matrix ]; then echo "what fits what"; exit 0; fi
if [ "$1" = list ]; then cat "$0.catalogue"; exit 0; fi
echo "process $$"
tr '\\0' '\\n' < /proc/$$/cmdline | sed 's/^/argument /'
grep -E '^Sig(Ign|Blk):' /proc/self/status
[ "$2" != wait ] || { trap 'echo interrupted; exit 9' INT; echo waiting; while :; do sleep 0.05; done; }
cat
exit 7
"""

POOL = {
    "name": "pool",
    "help": "workers",
    "unit": None,
    "kind": "integer",
    "minimum": 1,
    "maximum": 1024,
    "default": 15,
}

BACKLOG = POOL | {"name": "backlog", "help": "places"}
FORM = {
    "name": "form",
    "help": "of the reply",
    "unit": None,
    "kind": "choice",
    "choices": ["short", "long"],
    "default": "short",
}
LIMIT, CHECK = FORM | {"name": "limit"}, FORM | {"name": "check"}

UNAVAILABLE = {
    "name": "cycles",
    "summary": "CPU cycles",
    "unit": "cycles",
    "available": False,
    "reason": "no such event",
}
"""A counter that this machine does not have."""

HOLES = [
    {"primitive": "send", "design": "prefork", "reason": "no time to send"},
    {"primitive": "take", "workload": "bytes", "end": "service", "reason": "nothing to take"},
]
"""What cannot be combined."""

CATALOGUE = {
    "schema": 4,
    "version": "0.1.0",
    "defaults": {
        "workload": "bytes",
        "load": "closed",
        "design": "iterative",
        "primitive": "send",
        "receive": "take",
    },
    "file_prefix": "file:",
    "never_sleeps": {"wait": "spin"},
    "designs": [
        {
            "name": "iterative",
            "summary": "one by one",
            "source": "UNP 30.2",
            "waits": "in_the_call",
            "settings": [],
        },
        {
            "name": "prefork",
            "summary": "a pool",
            "source": "UNP 30.6",
            "waits": "in_the_call",
            "settings": [POOL],
        },
    ],
    "primitives": [
        {"name": "send", "summary": "one send", "source": "send(2)", "settings": [], "moves": "out"},
        {"name": "take", "summary": "one receive", "source": "recv(2)", "settings": [], "moves": "in"},
    ],
    "workloads": [
        {
            "name": "bytes",
            "summary": "n bytes",
            "source": "UNP 30",
            "service_settings": [FORM, LIMIT],
            "client_settings": [CHECK, FORM],
        }
    ],
    "loads": [{"name": "closed", "summary": "in turn", "source": "UNP 30.3", "settings": []}],
    "counters": [
        UNAVAILABLE,
    ],
    "limits": [{"name": "call", "summary": "a system call", "figure": "nanoseconds"}],
    "server_settings": [BACKLOG],
    "load_settings": [],
    "holes": HOLES,
}


def answered(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in this process, which saves the second that Python takes to start.

    The command must not replace the process.
    """
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        status = main.run_command([*arguments])
        # The engine's signals are set before it replaces the process: such a command needs `forked`.
        assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), errors.getvalue())


LIMIT_SECONDS = 60
CRASHED = 99


def forked(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command in a fork of this process, which saves the second that Python takes to start.

    The command may replace the process by the engine, change its signals, and print by its descriptors. It
    must not use polars, whose threads a fork lacks.
    """
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as errors,
    ):
        given.write(stdin)
        given.seek(0)
        child = os.fork()
        if child == 0:
            _become(arguments, (given.fileno(), out.fileno(), errors.fileno()))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for file in (out, errors):
            file.seek(0)
        return subprocess.CompletedProcess(arguments, status, out.read(), errors.read())


def _become(arguments: tuple[str, ...], descriptors: tuple[int, int, int]) -> None:
    """Runs the command with these descriptors as its own, and ends the process."""
    status = CRASHED
    try:
        signal.alarm(LIMIT_SECONDS)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        status = main.run_command([*arguments])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
