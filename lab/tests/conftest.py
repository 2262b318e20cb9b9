"""What several test files use: the engine, a stand-in for it, and a study small enough for a test."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from made_machines import MadeMachine, set_up
from small_studies import head
from xdist.scheduler import LoadFileScheduling

from thunderherd.catalogue import Catalogue
from thunderherd.engine import find_engine
from thunderherd.errors import UserError
from thunderherd.records import Noise, TrialRecord
from thunderherd.study import Study, load_study

# How long an example takes says how busy this machine is.
settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")

TESTS = Path(__file__).resolve().parent
BUILT = [
    TESTS.parents[1] / "engine" / "target" / kind / "thunderherd-engine" for kind in ("release", "debug")
]

MEASURE = 'baseline = "iterative"\nnormalise_connections = 5000\n'
SMALL_STUDY = (
    head("small", measure=MEASURE)
    + """\
[sizes.quick]
looks = [10]
alpha_split = [1.0]
[sizes.full]
looks = [10, 12, 16]
alpha_split = [0.3, 0.3, 0.4]
[[contenders]]
name = "iterative"
design = "iterative"
[[contenders]]
name = "fork_per_client"
design = "fork_per_client"
[[contenders]]
name = "prefork"
design = "prefork"
settings = { pool = 3 }
"""
)


LONGEST = (
    "test_extending", "test_sources", "test_report_pages", "test_crossover_run", "test_tutorial",
    "test_trial", "test_erss_hw4", "test_bench", "test_cli", "test_statistics_simulation",
    "test_trial_forms", "test_interrupted", "test_cse638_pa02", "test_runner", "test_tables",
    "test_self_test",
)  # fmt: skip
"""The files that take longest are begun first, so that at the end nothing waits for one of them alone. Others
follow by their names."""

PLACES = {TESTS / f"{name}.py": place for place, name in enumerate(LONGEST)}
assert all(path.exists() for path in PLACES), "LONGEST names a file that there is not"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: PLACES.get(item.path, len(PLACES)))


class ByFileAndSource(LoadFileScheduling):
    """A worker takes all tests of a file, which share fixtures. Of the rows of docs/sources.md,
    which share runs of studies, it takes those of a source."""

    def _split_scope(self, nodeid: str) -> str:
        row_of = re.search(r"/test_sources\.py::test_commands\[(\w+-\w+)-", nodeid)
        return row_of[0] if row_of else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFileAndSource | None:
    """With `--dist loadfile`. Groups by mark (`--dist loadgroup`) xdist 3.8 does not see under pytest 9.2."""
    return ByFileAndSource(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def real_engine() -> Path:
    """The engine as it is built; tests that need it are skipped where it is not."""
    for path in BUILT:
        if not os.environ.get("THUNDERHERD_ENGINE") and os.access(path, os.X_OK):
            return path
    try:
        return find_engine()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture
def use_engine(monkeypatch: pytest.MonkeyPatch, real_engine: Path) -> Path:
    """The same, also as what the laboratory finds."""
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(real_engine))
    return real_engine


@pytest.fixture
def copied_engine(monkeypatch: pytest.MonkeyPatch, real_engine: Path, tmp_path: Path) -> Path:
    """The engine under a path of this test's own, by which its processes can be told from others."""
    copy = tmp_path / "engine" / "thunderherd-engine"
    copy.parent.mkdir()
    shutil.copy2(real_engine, copy)
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(copy))
    return copy


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Puts the stand-in in the engine's place; the words say what goes wrong."""

    def install(*faults: str) -> Path:
        path = tmp_path / "fake-engine"
        # Imported, it is compiled once for all its starts.
        start = f'import sys; sys.path.append("{TESTS}"); from fake_engine import main; main()'
        path.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S -c '{start}' \"$@\"\n")
        path.chmod(0o755)
        monkeypatch.setenv("THUNDERHERD_ENGINE", str(path))
        monkeypatch.setenv("FAKE_ENGINE", ",".join(faults))
        return path

    return install


@pytest.fixture(scope="session")
def some_catalogue() -> Catalogue:
    """What an engine may offer, from a file: no engine is needed."""
    return Catalogue.model_validate_json((TESTS / "data" / "catalogue.json").read_text())


@pytest.fixture
def small_study_file(tmp_path: Path) -> Path:
    """A study of three contenders and 100 connections a trial, on which noise has no say."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL_STUDY)
    return path


@pytest.fixture
def small_study(small_study_file: Path, some_catalogue: Catalogue) -> Study:
    """The same, loaded; its one look is after 10 blocks."""
    return load_study(str(small_study_file), "quick", [], some_catalogue)


@pytest.fixture
def small_full_study(small_study_file: Path, some_catalogue: Catalogue) -> Study:
    """The same in its full size: looks after 10, 12 and 16 blocks."""
    return load_study(str(small_study_file), "full", [], some_catalogue)


@pytest.fixture
def made_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, some_catalogue: Catalogue) -> MadeMachine:
    """A machine of files, with which nothing is wrong until a test changes it."""
    return set_up(monkeypatch, tmp_path / "machine", some_catalogue)


def processes_of(engine: Path) -> dict[int, str]:
    """The processes that run this engine file, by process id: their command lines. Zombies do not count."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "exe").readlink() == engine:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def made_trial(
    study: Study,
    contender: str,
    block: int,
    *,
    cost: float = 40e-6,
    valid: bool = True,
    attempt: int = 1,
    foreign: float = 0.0,
    seed: int = 1,
    position: int = 1,
) -> TrialRecord:
    """A trial that never happened: `cost` in seconds a connection, `foreign` the share used by others."""
    connections = study.contender(contender).load.requests_per_trial or 100
    pool = study.contender(contender).settings.get("pool")
    workers = [connections // int(pool)] * int(pool) if pool else None
    return TrialRecord(
        study=study.name,
        contender=contender,
        block=block,
        position=position,
        attempt=attempt,
        seed=seed,
        started="2025-01-02T03:04:05.678+00:00",
        wall_seconds=0.4,
        valid=valid,
        invalid_reasons=[] if valid else ["load: errors: 2 refused"],
        cpu_scope="window",
        noise=Noise(
            steal_share=0.0, foreign_share=foreign, foreign_uncertainty=0.0, wall_seconds=0.3,
            machine_busy_seconds=0.2, throttled=0,
        ),
        time_wait_before=0,
        metrics={
            "connections": connections,
            "requests": connections,
            "server_cpu_seconds": cost * connections,
            "server_cpu_per_connection": cost,
            "client_cpu_seconds": 0.01,
            "machine_cpu_seconds": 0.2,
            "elapsed_seconds": 0.25,
            "connections_per_second": 4 * connections,
            "voluntary_switches_per_connection": 2.0,
            "clients_per_worker_sd": 1.5 if workers else None,
            "clients_per_worker_min": min(workers) if workers else None,
            "clients_per_worker_max": max(workers) if workers else None,
            "listen_drops": 0,
        },
        worker_connections=workers,
    )  # fmt: skip
