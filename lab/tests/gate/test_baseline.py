"""Baselines: two sessions of a server beside a reference, and what is refused; series of runs.

And a calibration that somebody altered.
"""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from made.refusals import codes_printed
from made.stand_in import answered
from made.summaries.trials import made_trial

from thunderherd.gate.baseline import Baseline, compare_with
from thunderherd.gate.calibration import Calibration, keep_calibration, kept_calibration
from thunderherd.records.directory import SavedRun
from thunderherd.statistics.two_samples import p_not_less, shift
from thunderherd.study.loading import Study

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
    ended = thunderherd(tmp_path, "baseline", "compare", "first", "--json", "--out", "later")
    assert ended.returncode in (0, 1, 125), ended.stderr
    first, later = (
        tomllib.loads((tmp_path / each / "baseline.toml").read_text())
        for each in ("data/thunderherd/baselines/first/run", "later")
    )
    assert first == later, "the same rate and CPUs"
    assert not (tmp_path / "later/pilot").exists()
    found = json.loads(ended.stdout)
    assert {"not slower": 0, "slower": 1, "undecided": 125}[found["verdict"]] == ended.returncode
    assert all(row["drift_percent"] for row in found["rows"])


CPU, LATENCY = "server_cpu_per_request", "latency_p50_seconds"


def session(study: Study, seed: int, slower: float) -> SavedRun:
    """A session of a server that is so much slower, beside its reference.

    At the common rate, costs are ten times those of the closed loop, and the latency is another one.
    """
    generator = np.random.default_rng(seed)
    names = [f"{name}{place}" for name in ("head", "base") for place in ("", "@common_rate=4000")]
    trials = []
    for block in range(1, 31):
        for name in generator.permutation(names):
            cost = (slower if name.startswith("head") else 1.0) * float(np.exp(generator.normal(0, 0.005)))
            at_rate = 10.0 if "@" in name else 1.0
            figures = {CPU: 4e-6 * cost * at_rate, LATENCY: 1e-4 * cost / at_rate}
            update = {"contender": str(name), "metrics": figures}
            trials.append(made_trial(study, "prefork", block).model_copy(update=update))
    counted = SimpleNamespace(trials=SimpleNamespace(accepted_blocks=[*range(1, 31)]))
    return cast(SavedRun, SimpleNamespace(trials=trials, summary=counted))


@pytest.mark.parametrize(
    ("slower", "verdict"), [(1.0, "not slower"), (1.04, "not slower"), (1.2, "slower"), (0.8, "not slower")]
)
@pytest.mark.parametrize("reference", ["prefork", None])
def test_two_sessions_are_compared_in_the_same_place(
    slower: float, verdict: str, reference: str | None, small_study: Study
) -> None:
    """Trials have a random order in each session, so the first one says nothing."""
    kept = Baseline(
        name="a", server="epoll", reference=reference, criteria={CPU: 5.0, LATENCY: 5.0}, workload=None,
        settings=[], lab=[], budget="1min", directory=".", saved="2026",
    )  # fmt: skip
    for seed in range(8):
        found = compare_with(kept, session(small_study, seed, 1.0), session(small_study, 90 + seed, slower))
        for each in found:
            assert each.verdict == verdict, each
            assert each.slowdown_percent is not None
            assert each.slowdown_percent.value == pytest.approx(100 * (slower - 1), abs=1)
            assert (each.drift_percent is None) == (reference is None)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("compare", "nobody"), "baseline.unknown"),
        (("compare", "../nobody"), "baseline.invalid_name"),
        (("save", "first"), "baseline.words"),
        (("forget", "first"), "baseline.unknown_action"),
        (("compare", "first", "--margin", "2%"), "baseline.no_such_option"),
        (("save", "first", "epoll", "--across-sessions"), "baseline.no_such_option"),
        (("list", "--json"), "baseline.no_such_option"),
        (("list", "--frob"), "baseline.no_such_option"),
        (("list", "first"), "baseline.words"),
        (("compare", "first", "--think", "50us"), "baseline.no_such_option"),
        (("compare", "first", "-c", "4"), "baseline.no_such_option"),
        (("save", "first", "epoll", "--no-such-setting", "4"), "compare.unknown_setting"),
    ],
)
def test_a_mistake_is_no_verdict(
    tmp_path: Path, words: tuple[str, ...], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    ended = answered("baseline", *words)
    assert ended.returncode >= 128 and code in ended.stderr, ended.stderr


ABOUT = {
    "name": "alone", "server": "epoll", "reference": None, "criteria": {CPU: 5.0}, "workload": None,
    "settings": [], "lab": [], "budget": "20s", "directory": ".", "saved": "2026",
}  # fmt: skip
"""A baseline without a reference, as it is kept."""


@pytest.mark.parametrize("margin", [-100, -1, 1000, math.nan, math.inf, "5%", None])
def test_a_baseline_with_an_altered_margin_is_refused(
    margin: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_refused(json.dumps({**ABOUT, "criteria": {CPU: margin}}).encode(), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b'{"name": "\xff"}', json.dumps(ABOUT).encode() + b" " * (1 << 20)],
    ids=["empty", "no fields", "no text", "too large"],
)
def test_what_is_no_baseline_is_refused(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_refused(content, tmp_path, monkeypatch)


def check_refused(content: bytes, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that both commands that read baselines refuse one with this content in a line."""
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    folder = data / "thunderherd/baselines/alone"
    folder.mkdir(parents=True)
    (folder / "baseline.json").write_bytes(content)
    for words in (("list",), ("compare", "alone", "--across-sessions")):
        ended = answered("baseline", *words)
        assert ended.returncode >= 128 and codes_printed(ended.stderr) == ["baseline.unreadable"], ended


@pytest.mark.parametrize(
    ("content", "is_known"),
    [
        ("{}", True),
        ('{"budget_seconds": Infinity}', False),
        ('{"power": NaN}', False),
        ('{"gates": "many"}', False),
        ("\xff", False),
    ],
)
def test_an_altered_calibration_is_not_known(
    content: str, is_known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content is what replaces some of its figures."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Calibration(
        server="epoll", workload=None, gates=1, alarms=0, undecided=0, margins={CPU: 2.0}, power=0.9,
        budget_seconds=60.0, would_find_percent={CPU: 1.0}, measured="2026", machine={},
    )  # fmt: skip
    path = keep_calibration(made, {})
    if content.startswith("{"):
        path.write_text(json.dumps({**json.loads(path.read_text()), **json.loads(content)}))
    else:
        path.write_bytes(content.encode("latin-1"))
    assert kept_calibration({}) == (made if is_known else None)


def test_a_baseline_without_a_reference_is_compared_only_if_insisted(tmp_path: Path) -> None:
    folder = tmp_path / "data/thunderherd/baselines/alone"
    folder.mkdir(parents=True)
    (folder / "baseline.json").write_text(json.dumps(ABOUT))
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
    # Two runs an hour apart, of which the later has the earlier local time.
    for name, started in (("run", "2026-10-25T02:30:00+02:00"), ("less", "2026-10-25T02:10:00+01:00")):
        of_run = {**json.loads((tmp_path / "run/run.json").read_text()), "started": started}
        (tmp_path / name / "run.json").write_text(json.dumps(of_run))
    (tmp_path / "less/summary.json").write_text(json.dumps(summary))
    assert thunderherd(tmp_path, "export", "less", "run", "--otava", "hour.csv").returncode == 0
    assert [row["run"] for row in csv.DictReader((tmp_path / "hour.csv").open())] == ["run", "less"]
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
