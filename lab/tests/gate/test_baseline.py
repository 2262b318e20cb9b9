"""Baselines: two sessions of a server beside a reference, and what is refused; series of runs."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from thunderherd.statistics.two_samples import p_not_less, shift

RUNS = Path(__file__).parents[1] / "golden" / "runs"


def thunderherd(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "thunderherd", *words]
    own = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), "XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(
        command, cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.thorough
def test_a_later_session_is_compared_relative_to_the_reference(tmp_path: Path) -> None:
    words = ("save", "first", "epoll,compute=50us", "--reference", "prefork,compute=50us", "--budget", "30s")
    saved = thunderherd(tmp_path, "baseline", *words)
    assert saved.returncode == 0, saved.stderr
    assert "first" in thunderherd(tmp_path, "baseline", "list").stdout
    ended = thunderherd(tmp_path, "baseline", "compare", "first", "--json")
    assert ended.returncode in (0, 1, 125), ended.stderr
    found = json.loads(ended.stdout)
    assert {"not slower": 0, "slower": 1, "undecided": 125}[found["verdict"]] == ended.returncode
    assert all(row["drift_percent"] for row in found["rows"])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("compare", "nobody"), "baseline.unknown"),
        (("compare", "../nobody"), "baseline.invalid_name"),
        (("save", "first"), "baseline.words"),
        (("forget", "first"), "baseline.unknown_action"),
        (("compare", "first", "--margin", "2%"), "baseline.option_of_another_action"),
        (("save", "first", "epoll", "--across-sessions"), "baseline.option_of_another_action"),
        (("list", "--json"), "baseline.option_of_another_action"),
        (("list", "first"), "baseline.words"),
    ],
)
def test_a_mistake_is_no_verdict(tmp_path: Path, words: tuple[str, ...], code: str) -> None:
    ended = thunderherd(tmp_path, "baseline", *words)
    assert ended.returncode >= 128 and code in ended.stderr, ended.stderr


def test_a_baseline_without_a_reference_is_compared_only_if_insisted(tmp_path: Path) -> None:
    folder = tmp_path / "data/thunderherd/baselines/alone"
    folder.mkdir(parents=True)
    about = {
        "name": "alone", "server": "epoll", "reference": None, "criteria": {"server_cpu_per_request": 5.0},
        "workload": None, "settings": [], "lab": [], "budget": "20s", "directory": ".",
        "saved": "2026",
    }  # fmt: skip
    (folder / "baseline.json").write_text(json.dumps(about))
    ended = thunderherd(tmp_path, "baseline", "compare", "alone")
    assert ended.returncode >= 128 and "baseline.no_reference" in ended.stderr


def test_runs_become_a_series_with_the_test_of_otava(tmp_path: Path) -> None:
    with tarfile.open(RUNS / "unp-ch30.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    ended = thunderherd(tmp_path, "export", "run", "--otava", "series.csv")
    assert ended.returncode == 0, ended.stderr
    (row,) = csv.DictReader((tmp_path / "series.csv").open())
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    for each in summary["contenders"]:
        for metric, found in each["metrics"].items():
            assert float(row[f"{each['name']}.{metric}"]) == found["value"]
    # Otava reads no gap: a figure that one run lacks is no series.
    with_less = json.loads((tmp_path / "run/summary.json").read_text())
    gone, *with_less["contenders"] = with_less["contenders"]
    (tmp_path / "less").mkdir()
    for each in ("run.json", "trials.jsonl"):
        (tmp_path / "less" / each).write_bytes((tmp_path / "run" / each).read_bytes())
    (tmp_path / "less/summary.json").write_text(json.dumps(with_less))
    assert thunderherd(tmp_path, "export", "run", "less", "--otava", "both.csv").returncode == 0
    rows = list(csv.DictReader((tmp_path / "both.csv").open()))
    assert len(rows) == 2 and all(value for each in rows for value in each.values())
    assert {*rows[0]} == {name for name in row if not name.startswith(f"{gone['name']}.")}
    (tmp_path / "less/summary.json").write_text(json.dumps({**with_less, "contenders": []}))
    ended = thunderherd(tmp_path, "export", "run", "less", "--otava", "none.csv")
    assert ended.returncode == 2 and "export.nothing_in_common" in ended.stderr
    (test,) = json.loads((tmp_path / "series.csv.yaml").read_text())["tests"].values()
    assert [test["time_column"], *test["attributes"], *test["metrics"]] == [*row]


def test_the_shift_of_two_samples() -> None:
    generator = np.random.default_rng(1)
    covered = false = 0
    for _ in range(300):
        first, second = generator.normal(0, 1, 20), generator.normal(0.5, 1, 25)
        found = shift(first, second)
        assert found.low is not None and found.high is not None and found.low <= found.value <= found.high
        covered += found.low <= 0.5 <= found.high
        false += p_not_less(first + 0.5, second) <= 0.05
    # 95 % and 5 % are promised; either bound would be missed once in a thousand times.
    assert covered >= 273 and false <= 28
    assert shift([0.0, 1.0], [5.0, 6.0]).low is None, "too few observations have no interval"
