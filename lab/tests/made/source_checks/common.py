"""Checks of source items that no pattern in the output can show; they run while the row's commands run.

The checks of a source are in a file of its own, `checks_cse232_a2.py` of cse232-a2, by the names of its rows.
What they share is here.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest

from handbook.pages.sources import SourceRow

PATIENCE_SECONDS = 60.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class Run:
    """The running commands of a row, on a separate port; `supervisor` is the process of its server."""

    row: SourceRow
    directory: Path
    port: int
    supervisor: int

    @property
    def server(self) -> int:
        """The server's own process, which leads a group."""
        (process,) = children(self.supervisor)
        return process


Check = Callable[[Run], Context[None]]
"""To be entered when the row's server listens, and left when its clients have ended."""


def check_of(run: Run) -> Context[None]:
    """The check of a row; one that looks at nothing where its source has none for it."""
    check = checks_of(run.row.document).get(run.row.name)
    return check(run) if check else nullcontext()


def checks_of(source: str) -> Mapping[str, Check]:
    """Those of a source, by the names of its rows; none where it has no file of them."""
    module = source.replace("-", "_")
    if not Path(__file__).with_name(f"{module}.py").exists():
        return {}
    found: Mapping[str, Check] = import_module(f"made.source_checks.{module}").CHECKS
    return found


def sources_with_checks() -> list[str]:
    """The sources that have a file of checks."""
    files = set(Path(__file__).parent.glob("*.py")) - {
        Path(__file__),
        Path(__file__).with_name("__init__.py"),
    }
    return sorted(path.stem.replace("_", "-") for path in files)


# What several sources look at -------------------------------------------------------------------------------


@contextmanager
def the_listener_has_the_sources_backlog(run: Run) -> Iterator[None]:
    if shutil.which("ss") is None:
        pytest.skip("needs ss: apt-get install iproute2")
    command = ["ss", "--no-header", "-ltn", f"sport = :{run.port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (listener,) = done.stdout.splitlines()
    # Of a listener, Send-Q is the most connections that may wait (ss(8)).
    _state, _waiting, backlog, address, *_ = listener.split()
    said = re.search(r"--backlog (\d+)\b", run.row.server)
    assert said and (backlog, address) == (said[1], f"127.0.0.1:{run.port}")
    yield


def charts_of(run: Run) -> dict[str, Any]:
    """The specifications of the charts of the row's report, by name."""
    report = (run.directory / "small" / "report.html").read_text()
    data = re.search(r'<script type="application/json" id="charts">(.*?)</script>', report, re.DOTALL)
    assert data, "no data of charts in the report"
    return {chart["id"]: chart["wide"] for chart in json.loads(data[1])}


def marks_of(specification: Any) -> Iterator[str]:
    """The marks of a Vega-Lite specification and of its layers."""
    if isinstance(specification, dict):
        mark = specification.get("mark")
        if mark:
            yield mark["type"] if isinstance(mark, dict) else mark
    for part in specification.values() if isinstance(specification, dict) else specification:
        if isinstance(part, dict | list):
            yield from marks_of(part)


# Processes as /proc shows them (proc(5)) --------------------------------------------------------------------


def eventually(what: str, look: Callable[[], Found | None]) -> Found:
    """Waits for `look` to find something, and returns it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := look()) is None:
        assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS:g} s: {what}"
        time.sleep(0.01)
    return found


def processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def children(parent: int) -> list[int]:
    return [each for each in processes() if status_of(Path(f"/proc/{each}")).get("PPid") == str(parent)]


def threads(process: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return []


def cpus_of(process: int) -> set[str]:
    """The lists of CPUs that its threads may run on."""
    return {status_of(thread)["Cpus_allowed_list"] for thread in threads(process)}


def mappings(process: int) -> int:
    return len(Path(f"/proc/{process}/maps").read_text().splitlines())


def is_load(process: int, port: int) -> bool:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return "load" in words and f"127.0.0.1:{port}" in words


def status_of(folder: Path) -> dict[str, str]:
    """The lines of a status by name; none of a process that is gone."""
    try:
        text = (folder / "status").read_text(errors="replace")
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
