"""What the engine's commands print at 80 columns: their help, and the ends of runs without their figures."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from thunderherd.cli.options import PROGRAM

Golden = Callable[[str, str], None]

WIDTH = 80
UNITS = r"( ?(ns|µs|us|ms|s|min|%|[kMG]?i?B(/s)?|[kMG]bit/s)\b)?"
FIGURE = re.compile(rf"(?<=\s)-(?=\s)|(?<![\w.])\d[\d.,]*{UNITS}")


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)


def started(engine: Path, *words: str) -> subprocess.Popen[str]:
    """Start the engine under the name of the program, as `thunderherd` becomes it."""
    return subprocess.Popen(
        [PROGRAM, *words], executable=engine, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def printed(engine: Path, *words: str) -> tuple[str, int]:
    running = started(engine, *words)
    output, _ = running.communicate(timeout=60)
    return output, running.returncode


def without_figures(text: str) -> str:
    """Replace figures and their units, and the blanks that align them."""
    lines = (re.sub(r"(?<=\S) {2,}", "  ", FIGURE.sub("N", line)).rstrip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("command", ["serve", "load", "count"])
def test_help_has_lines_of_80_columns(command: str, use_engine: Path, golden: Golden) -> None:
    text, status = printed(use_engine, command, "--help")
    assert status == 0 and max(map(len, text.splitlines())) <= WIDTH
    golden(f"cli/engine-help-{command}.txt", "".join(f"{line.rstrip()}\n" for line in text.splitlines()))


def test_the_ends_of_a_server_and_of_its_loads(use_engine: Path, golden: Golden) -> None:
    server = started(use_engine, "serve", "epoll", "http", "--listen", "127.0.0.1:0")
    assert server.stdout is not None
    begun = server.stdout.readline()
    (port,) = re.findall(r"127\.0\.0\.1:(\d+)", begun)
    # On a busy machine, no reply may come within a shorter time.
    url, lasting = f"http://127.0.0.1:{port}/", ("-c", "2", "-d", "1500ms")
    try:
        closed = printed(use_engine, "load", url, *lasting)
        missing = printed(
            use_engine, "load", f"http://127.0.0.1:{port}/missing", *lasting, "--check", "count"
        )
        counted = printed(use_engine, "count", "--", "load", url, "-c", "2", "--loops", "50")
    finally:
        server.send_signal(signal.SIGINT)
        rest, _ = server.communicate(timeout=60)
    assert [closed[1], missing[1], counted[1], server.returncode] == [0, 1, 0, 0]
    for name, text in (
        ("serve", begun + rest), ("load", closed[0]), ("load-statuses", missing[0]), ("count", counted[0]),
    ):  # fmt: skip
        table, _, _ = text.partition("first error" if "first error" in text else "{")
        assert all(len(line) <= WIDTH for line in table.splitlines()), text
        golden(f"cli/end-of-{name}.txt", without_figures(text))
