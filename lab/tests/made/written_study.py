"""A small study as a file, and a machine with known CPUs and ports, for tests of loading studies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from made import refusals
from made.paths import DATA
from made.refusals import below
from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import Problem
from thunderherd.study.loading import Study, load_study

CATALOGUE = Catalogue.model_validate_json((DATA / "catalogue.json").read_text())

GOOD = """\
name = "small"
title = "A small study"
question = "Which one?"
inconsistencies = "wrong.csv"

[[paper]]
file = "paper.csv"
metric = "process_control_seconds"
contender = "row"
value = "process_control_cpu_s"

[measure]
metric = "server_cpu_per_connection"
baseline = "iterative"
normalise_connections = 5000

[server]
workload = "bytes"
primitive = "send_each"
settings = { backlog = 64, nodelay = false }

[load]
kind = "closed"
processes = 2
settings = { children = 5, loops = 100, bytes = 4000 }

[lab]
server_cpus = [0]

[noise]
steal = "4%"

[sizes.quick]
looks = [10]
alpha_split = [1.0]
set = { "load.settings.loops" = 50 }

[sizes.full]
looks = [10, 20]
alpha_split = [0.4, 0.6]

[comparisons]
all_pairs = true

[[contenders]]
name = "iterative"
design = "iterative"
label = "One after the other"
row = 0

[[contenders]]
name = "prefork"
design = "prefork"
row = 2
settings = { pool = 7 }

[[contenders]]
name = "modern"
control_of = "prefork"
settings = { nodelay = true, backlog = 4096 }
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of four CPUs, of which this process may use 0 and 1, with 20,000 ports."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr("thunderherd.machine.tcp_sockets.local_ports", lambda: 20_000)


def written(directory: Path, text: str) -> Path:
    (directory / "paper.csv").write_text("row,process_control_cpu_s\n0,0.0\n2,1.80\n")
    (directory / "wrong.csv").write_text(
        'as_printed,finding,concerns\n"1.80, no lock",is odd,row 2; claim H1\n'
    )
    path = directory / "small.toml"
    path.write_text(text)
    return path


def loaded(directory: Path, text: str = GOOD, *overrides: str, size: str = "quick") -> Study:
    return load_study(str(written(directory, text)), size, overrides, CATALOGUE)


def refused(directory: Path, text: str = GOOD, *overrides: str, size: str = "quick") -> tuple[Problem, ...]:
    """Return the problems of a study, with paths relative to the directory."""
    return below(directory, refusals.refused(loaded, directory, text, *overrides, size=size))


def line_of(text: str, part: str) -> int:
    (line,) = [number for number, line in enumerate(text.splitlines(), 1) if part in line]
    return line
