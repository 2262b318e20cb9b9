"""Fixtures of several test files: the engine, a stand-in for it, and a study small enough for a test."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings
from made.engines import real_engine, some_catalogue, use_engine
from made.machines import MadeMachine, set_up
from made.paths import TESTS
from made.shown.pages import browser
from made.small_studies import SMALL_STUDY
from xdist.scheduler import LoadFileScheduling

from thunderherd.engine.catalogue import Catalogue
from thunderherd.study.loading import Study, load_study

__all__ = ["browser", "real_engine", "some_catalogue", "use_engine"]

# How long an example takes says how busy this machine is.
settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")

LONGEST = (
    "gate/test_ends", "cli/test_surroundings", "conform/test_conformance", "hosts/test_scheduler",
    "hosts/test_before_trials", "hosts/test_cluster", "hosts/test_studies", "hosts/test_own_programs",
    "repository/test_extending", "engine/faults/test_servers", "repository/test_tutorial",
    "hosts/test_host_faults", "capsule/test_replay", "search/test_crossover", "doctor/test_doctor",
    "engine/test_load_generator_outputs", "trial/test_namespaces", "cli/test_restricted",
    "../../bench/tests/test_soak", "cli/test_signals", "search/test_compare", "study/file/test_mutated",
    "repository/test_sources", "show/report/test_pages", "cli/test_main", "trial/test_load_generator_trials",
    "repository/test_classroom", "study/test_defaults", "hosts/test_ssh", "run/test_claims_decided",
    "studies/test_peers", "show/tables/test_sweeps", "study/checks/test_refused",
    "show/charts/test_sweeps", "show/report/test_page", "show/report/test_sweeps",
    "statistics/test_crossings_simulation", "repository/test_kept_reports",
    "statistics/test_comparisons_simulation", "show/test_marked", "show/test_golden",
    "judge/summary/test_bounds", "trial/test_own_pairs", "trial/test_trial",
    "trial/test_forms", "run/test_interrupted", "run/test_runner", "run/test_follow", "studies/test_erss_hw4",
    "studies/test_self_test", "studies/test_cse638_pa02", "studies/test_cse232_a2",
    "repository/test_packaging", "engine/test_own_servers", "grade/test_grade",
    "../../bench/tests/test_parts", "../../bench/tests/test_layers", "conform/test_before_timing",
    "../../bench/tests/test_kills", "../../bench/tests/test_endurance",
    "records/test_altered_results", "engine/faults/test_programs", "engine/faults/test_primitives",
    "engine/faults/test_forks", "engine/faults/test_loads",
)  # fmt: skip
"""The files that take longest are begun first, so that at the end nothing waits for one of them alone. Others
follow by their names."""

PLACES = {(TESTS / f"{name}.py").resolve(): place for place, name in enumerate(LONGEST)}
assert all(path.exists() for path in PLACES), "LONGEST names a file that there is not"


FUZZ_SECONDS = 10.0
"""The time of a fuzz target: the tests marked fuzz of a file, which share it."""
TEST_SECONDS = pytest.StashKey[float]()
"""For a test marked fuzz, its part of that time."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden pages anew")
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        default=None,
        help=f"time of the tests marked fuzz of a file, together (default: {FUZZ_SECONDS:g})",
    )
    parser.addoption(
        "--fuzz-seed",
        type=int,
        default=None,
        help="seed of the inputs (default: always the same; with --fuzz-seconds drawn, and printed)",
    )


def give_time_to_fuzz_tests(items: list[pytest.Item]) -> None:
    tests = [item for item in items if item.get_closest_marker("fuzz")]
    of_file = Counter(item.path for item in tests)
    for item in tests:
        asked = item.config.getoption("--fuzz-seconds")
        seconds = (FUZZ_SECONDS if asked is None else asked) / of_file[item.path]
        item.stash[TEST_SECONDS] = seconds
        test = getattr(item, "obj", None)
        if is_hypothesis_test(test):
            # Hypothesis ends after a number of examples. The mark says how many a small machine makes.
            (mark,) = item.iter_markers("fuzz")
            examples = int(mark.kwargs["examples_a_second"] * seconds)
            settings(max_examples=max(1, examples), database=None)(test)


@pytest.fixture
def draws(request: pytest.FixtureRequest) -> Callable[[int], Iterator[random.Random]]:
    """Yields the randomness of each input of a test: of at least so many, until its time is over."""
    seconds, seed = request.node.stash[TEST_SECONDS], request.config.getoption("--fuzz-seed")
    if seed is None and request.config.getoption("--fuzz-seconds"):
        seed = random.SystemRandom().randrange(2**32)
    if seed is not None:
        print(f"the same inputs: --fuzz-seed {seed}")

    def for_inputs(number: int) -> Iterator[random.Random]:
        ends = time.monotonic() + seconds
        for made in itertools.count():
            if made >= number and time.monotonic() >= ends:
                print(f"{made:,} inputs")
                return
            yield random.Random(f"{request.node.name} {made}{'' if seed is None else f' {seed}'}")

    return for_inputs


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a page with its file in lab/tests/golden; with --update-golden, writes the file."""

    def check(name: str, page: str) -> None:
        path = TESTS / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page, encoding="utf-8")
        assert page == path.read_text(encoding="utf-8"), f"golden/{name} differs; pytest --update-golden"

    return check


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    give_time_to_fuzz_tests(items)
    items.sort(key=lambda item: PLACES.get(item.path, len(PLACES)))


class ByFileAndSource(LoadFileScheduling):
    """A worker takes all tests of a file, which share fixtures. Of the rows of docs/generated/sources.md,
    which share runs of studies, it takes those of a source."""

    def _split_scope(self, nodeid: str) -> str:
        row_of = re.search(r"/test_sources\.py::test_commands\[(\w+-\w+)-", nodeid)
        return row_of[0] if row_of else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFileAndSource | None:
    """With `--dist loadfile`. Groups by mark (`--dist loadgroup`) xdist 3.8 does not see under pytest 9.2."""
    return ByFileAndSource(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture
def copied_engine(monkeypatch: pytest.MonkeyPatch, real_engine: Path, tmp_path: Path) -> Path:
    """A copy of the engine for this test alone: its path identifies the processes of the test."""
    copy = tmp_path / "engine" / "thunderherd-engine"
    copy.parent.mkdir()
    shutil.copy2(real_engine, copy)
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(copy))
    return copy


@pytest.fixture
def begun(copied_engine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the words of each command that the engine of this test has begun, a line each."""
    file, noting = copied_engine.with_name("begun"), copied_engine.with_name("noting")
    file.touch()
    noting.write_text(f'#!/bin/sh\necho "$*" >>{file}\nexec {copied_engine} "$@"\n')
    noting.chmod(0o755)
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(noting))
    return file


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Replaces the engine by the stand-in; the words name the faults."""

    def install(*faults: str) -> Path:
        path = tmp_path / "fake-engine"
        # Imported, it is compiled once for all its starts.
        start = f'import sys; sys.path.append("{TESTS}"); from made.fake_engine import main; main()'
        path.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S -c '{start}' \"$@\"\n")
        path.chmod(0o755)
        monkeypatch.setenv("THUNDERHERD_ENGINE", str(path))
        monkeypatch.setenv("FAKE_ENGINE", ",".join(faults))
        return path

    return install


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


@pytest.fixture
def make_control_group() -> Iterator[Callable[[str], Path]]:
    """Makes a control group of a controller, in either version of the interface; it is removed at the end."""
    groups = Path("/sys/fs/cgroup")
    all_made: list[Path] = []

    def make(controller: str) -> Path:
        place = groups / controller if (groups / controller).is_dir() else groups
        made = place / f"thunderherd-test-{os.getpid()}"
        try:
            made.mkdir()
        except OSError as error:
            pytest.skip(f"no control group can be made in {place}: {error.strerror}")
        all_made.append(made)
        return made

    yield make
    for made in all_made:
        deadline = time.monotonic() + 10
        while made.exists() and time.monotonic() < deadline:
            try:
                made.rmdir()
            except OSError:  # an ended process is in its group until it is reaped
                time.sleep(0.05)
