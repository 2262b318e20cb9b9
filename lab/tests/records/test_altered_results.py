"""Results that somebody altered: each command that reads them answers, or refuses them in a line."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made.damage.values import alterations, altered
from made.paths import TESTS
from made.refusals import codes_printed
from made.stand_in import answered

from thunderherd.engine.client import EngineError, Server, catalogue
from thunderherd.errors import UserError
from thunderherd.gate import calibration
from thunderherd.machine.limits import limits_of_lines
from thunderherd.records.directory import COUNTED, WITH_COUNTERS, RunDirectory
from thunderherd.records.summary import TrialRecord

COMMANDS = (
    "table RUN", "explain RUN", "summary RUN", "diff RUN KEPT", "table RUN --pairs", "plot RUN",
    "export RUN --otava series.csv", "claims unp-ch30 RUN", "report RUN --output page.html",
)  # fmt: skip
"""The commands that read results. An altered file meets `IN_TURN` of them, so that each meets some."""
ALTERATIONS, IN_TURN = 12, 2
"""The number of alterations of each file."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of another day, unpacked."""
    folder = tmp_path_factory.mktemp("kept")
    with tarfile.open(TESTS / "golden/runs/unp-ch30.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    (run,) = (path.parent for path in folder.rglob("run.json"))
    return run


@pytest.mark.fuzz
@pytest.mark.parametrize("name", ["run.json", "summary.json", "trials.jsonl"])
def test_altered_results_are_shown_or_refused(
    name: str,
    kept: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    draws: Callable[[int], Iterator[random.Random]],
) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    for path in kept.iterdir():
        if path.is_file():
            (run / path.name).symlink_to(path)
    (run / name).unlink()
    first, *rest = (kept / name).read_text().splitlines() if name.endswith("l") else ["", ""]
    data = json.loads(first if name.endswith("l") else (kept / name).read_text())
    for number, text in enumerate(alterations(name, data, draws(ALTERATIONS))):
        (run / name).write_text("\n".join([text, *rest, ""]) if name.endswith("l") else text)
        for place in range(IN_TURN):
            command = COMMANDS[(IN_TURN * number + place) % len(COMMANDS)]
            places = {"RUN": str(run), "KEPT": str(kept)}
            done = answered(*(places.get(word, word) for word in command.split()))
            assert "\x1b[31m" not in done.stdout + done.stderr, text
            assert done.returncode == 0 or done.stderr.startswith("thunderherd: "), (command, done, text)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", [COUNTED, WITH_COUNTERS])
def test_altered_extra_trials_are_read_or_refused_by_a_run_that_is_resumed(
    name: str, kept: Path, tmp_path: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for each in ("run.json", "trials.jsonl"):
        shutil.copy2(kept / each, run)
    first, second, *_ = (kept / COUNTED).read_text().splitlines()
    data = json.loads(first)
    with RunDirectory.resume(run) as directory:
        for text in alterations("counted.jsonl", data, draws(ALTERATIONS)):
            (run / name).write_text(f"{text}\n{second}\n")
            try:
                assert len(directory.extra_trials(name, TrialRecord)) == 2
            except UserError as error:
                assert error.codes == ("results.broken_line",), text


@pytest.mark.fuzz
@pytest.mark.usefixtures("use_engine")
def test_altered_limits_are_read_or_refused(
    kept: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    """As a run that is resumed reads them."""
    lines, listed = (kept / "limits.jsonl").read_text().splitlines(), catalogue().limits
    assert limits_of_lines(lines, listed).figures
    with pytest.raises(EngineError):
        limits_of_lines([*lines, '{"line": []}'], listed)
    empty = next(json.loads(each) for each in lines if '"limit_round"' in each) | {"times": 0}
    with pytest.raises(ValueError, match=empty["limit"]):
        limits_of_lines([*lines, json.dumps(empty)], listed)
    for draw in draws(ALTERATIONS):
        place = draw.randrange(len(lines))
        text = altered(json.loads(lines[place]), draw)
        try:
            limits_of_lines([*lines[:place], text, *lines[place + 1 :]], listed)
        except (EngineError, ValueError):
            pass
        except UserError as error:
            assert all(error.codes), text


SESSION = {
    "name": "first", "server": "./server {port}", "reference": "epoll", "workload": None, "lab": [],
    "criteria": {"server_cpu_per_request": 5.0}, "settings": [["clients", "4"]], "budget": "1min",
    "directory": "/", "saved": "2026-11-28T12:00:00+00:00",
}  # fmt: skip


@pytest.mark.fuzz
def test_an_altered_baseline_is_listed_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = tmp_path / "thunderherd/baselines/first/baseline.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(SESSION))
    assert answered("baseline", "list").stdout.startswith("first ")
    for text in alterations("baseline.json", SESSION, draws(ALTERATIONS)):
        file.write_text(text)
        done = answered("baseline", "list")
        assert "\x1b[31m" not in done.stdout + done.stderr, text
        assert done.returncode == 0 or done.stderr.startswith("thunderherd: "), (done, text)


@pytest.mark.fuzz
def test_an_altered_calibration_is_read_or_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine = {"kernel": "6.18"}
    made = calibration.Calibration(
        server="epoll", workload=None, gates=9, alarms=0, undecided=1, budget_seconds=60.0, power=0.8,
        margins={"server_cpu_per_request": 2.0}, would_find_percent={"server_cpu_per_request": 3.0},
        measured=calibration.now(), machine=machine,
    )  # fmt: skip
    file = calibration.keep_calibration(made, machine)
    assert calibration.kept_calibration(machine) == made
    for text in alterations("calibration.json", made.model_dump(), draws(ALTERATIONS)):
        file.write_text(text)
        calibration.kept_calibration(machine)


@pytest.mark.fuzz
def test_an_altered_file_of_a_load_is_merged_or_refused(
    real_engine: Path, tmp_path: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    with Server("epoll", workload="bytes") as server:
        words = ("--load", "open", "--duration", "300ms", "--rate", "300", "--json")
        done = subprocess.run(
            [real_engine, "load", "bytes", "--connect", server.ready.address, *words],
            capture_output=True, text=True, timeout=60, check=False,  # on a busy machine it may not be valid
        )  # fmt: skip
    (line,) = (json.loads(each) for each in done.stdout.splitlines() if '"line":"load"' in each)
    files = [tmp_path / "one.jsonl", tmp_path / "other.jsonl"]
    files[0].write_text(done.stdout)
    empty = line["scheduled"] | {"service_time": line["scheduled"]["service_time"] | {"histogram": ""}}
    files[1].write_text(json.dumps(line | {"scheduled": empty}))
    assert codes_printed(answered("merge", *map(str, files)).stderr) == ["merge.damaged"]
    for text in alterations("load.json", line, draws(ALTERATIONS)):
        files[1].write_text(text)
        one, other = map(str, files)
        for words in (("merge", one, other), ("judge", one, "vs", other)):
            answer = answered(*words)
            assert "\x1b[31m" not in answer.stdout + answer.stderr, text
            assert answer.returncode in (0, 1) or answer.stderr.startswith("thunderherd: "), (answer, text)
