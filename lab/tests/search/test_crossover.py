"""The command `crossover` from its arguments to its answer, on invented trials and with the engine."""

from __future__ import annotations

import json
import random
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made.damage.lines import mutated
from made.damage.values import alterations
from made.refusals import codes_printed
from made.summaries.trials import made_trial

from thunderherd.cli import main
from thunderherd.engine import client as engine
from thunderherd.machine import description
from thunderherd.records.directory import load
from thunderherd.records.summary import TrialRecord
from thunderherd.run import runner
from thunderherd.statistics import crossings
from thunderherd.study.loading import Contender, Study

METRIC = "server_cpu_per_connection"
WORDS = ["prefork", "iterative", "--over", "pool=1..256", "--load", "closed", "--metric", METRIC]


class Rig:
    """Trials that never happened: an iterative server costs 20 µs a connection, a pool as its size has it."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.stop_after = 10**9
        self.cost: Callable[[int], float] = lambda pool: 1e-6 * pool
        self.invalid: Callable[[str], bool] = lambda name: False

    def run_trial(self, study: Study, contender: Contender, **where: Any) -> TrialRecord:
        for place in ("engine", "site", "profiles"):
            where.pop(place)
        if len(self.ran) >= self.stop_after:
            raise KeyboardInterrupt
        self.ran.append(contender.name)
        cost = 20e-6 if contender.base == "iterative" else self.cost(int(contender.settings["pool"]))
        # The same for the same trial, whenever it is run.
        seed = [where["block"], int(contender.point or 0), contender.base == "iterative"]
        noisy = cost * float(np.exp(np.random.default_rng(seed).normal(0, 0.02)))
        return made_trial(study, contender.name, cost=noisy, valid=not self.invalid(contender.name), **where)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, fake_engine: Callable[..., Path]) -> Rig:
    fake_engine()
    here = {"kernel": "Linux", "engine": {"sha256": "0"}, "cpu": {"model": "A CPU"}}
    monkeypatch.setattr(description, "describe", lambda engine=None: here)
    made = Rig()
    monkeypatch.setattr(runner, "run_trial", made.run_trial)
    return made


@pytest.fixture
def typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Types a command; returns its exit status, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["thunderherd", *words])
        status = main.run_command(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return run


Typed = Callable[..., tuple[int, str, str]]


def answer(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "summary.json").read_text())["sweeps"][0]["crossover"]
    return found


def test_both_stages_and_the_answer(rig: Rig, typed: Typed, tmp_path: Path) -> None:
    out = tmp_path / "found"
    status, printed, said = typed("crossover", *WORDS, "--out", str(out), "--seed", "5")
    assert status == 0, said
    found = answer(out / "dense")
    assert found["outcome"] == "one"
    assert found["estimate"]["low"] <= 20 <= found["estimate"]["high"]
    (sentence,) = re.findall(r"^Below \d\d workers, .*$", printed, re.MULTILINE)
    assert "prefork beats iterative" in sentence and "95 %" in sentence
    assert {path.name for path in out.iterdir()} == {
        "coarse.toml", "coarse", "dense.toml", "dense", "crossover.svg", "crossover.png"
    }  # fmt: skip
    assert str(out / "dense" / "report.html") in printed and (out / "dense" / "report.html").exists()
    assert load(out / "coarse").run.seed == load(out / "dense").run.seed == 5
    sizes = {int(name.partition("=")[2]) for name in rig.ran if "@dense=" in name}
    assert sizes == set(map(int, answer(out / "coarse")["next_sizes"]))
    # What was run can be run and shown again by the other commands.
    assert typed("table", str(out / "dense"))[1].count("prefork beats iterative") == 1
    again = typed("run", str(out / "dense.toml"), "--quick", "--seed", "5", "--out", str(tmp_path / "again"))
    assert again[0] == 0
    assert answer(tmp_path / "again") == found


def test_search_without_a_crossing_succeeds(rig: Rig, typed: Typed, tmp_path: Path) -> None:
    rig.cost = lambda pool: 10e-6
    status, printed, _ = typed("crossover", *WORDS, "--out", str(tmp_path / "none"))
    assert status == 0
    assert answer(tmp_path / "none" / "coarse")["brackets"] == []
    assert "prefork beats iterative" in " ".join(printed.split()), "wherever its lines are broken"
    assert not (tmp_path / "none" / "dense").exists()
    assert "Picture  " in printed


def test_no_answer_is_a_failure(rig: Rig, typed: Typed, tmp_path: Path) -> None:
    rig.invalid = lambda name: name.startswith("prefork")
    status, printed, _ = typed("crossover", *WORDS, "--out", str(tmp_path / "none"))
    assert status == 1
    found = answer(tmp_path / "none" / "coarse")
    assert found["why"] and found["why"] in " ".join(printed.split())


@pytest.fixture(scope="module")
def uninterrupted() -> list[tuple[list[str], dict[str, Any]]]:
    """The trials of an uninterrupted search, and its answer, once a test has run it."""
    return []


@pytest.mark.parametrize(
    "stop_after",
    [7, *(pytest.param(count, marks=pytest.mark.thorough) for count in (100, 150))],
    ids=lambda count: f"after {count} trials",
)
def test_interrupted_search_resumes(
    rig: Rig,
    typed: Typed,
    tmp_path: Path,
    stop_after: int,
    uninterrupted: list[tuple[list[str], dict[str, Any]]],
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    words = [*WORDS, "--points", "5", "--blocks", "10", "--seed", "5"]
    if not uninterrupted:
        assert typed("crossover", *words, "--out", str(whole))[0] == 0
        uninterrupted.append((rig.ran, answer(whole / "dense")))
    ran, found = uninterrupted[0]
    rig.ran, rig.stop_after = [], stop_after
    status, _, said = typed("crossover", *words, "--out", str(parts))
    assert status == 130
    again = shlex.split(said.partition("resume: ")[2])
    assert again == ["thunderherd", "crossover", *words, "--out", str(parts), "--resume"]
    rig.stop_after = 10**9
    status, _, said = typed(*again[1:])
    assert status == 0, said
    assert rig.ran == ran
    assert answer(parts / "dense") == found
    # And once more, when nothing is left to be done.
    assert typed(*again[1:])[0] == 0 and rig.ran == ran


def test_default_directory_is_named_in_the_resume_command(
    rig: Rig, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rig.stop_after = 3
    _, _, said = typed("crossover", *WORDS)
    again = shlex.split(said.partition("resume: ")[2])
    assert again[-3] == "--out" and again[-2].startswith("results/crossover-") and again[-1] == "--resume"


@pytest.mark.parametrize(
    ("change", "code", "facts"),
    [
        (["--blocks", "11"], "search.other_search", ["`thunderherd crossover prefork iterative "]),
        (["--set", "load.settings.loops=7"], "run.other_study", ["loops"]),
        (["--seed", "6"], "run.other_seed", ["seed 5", "--seed", "6"]),
    ],
)
def test_only_the_same_search_can_be_resumed(
    rig: Rig, typed: Typed, tmp_path: Path, change: list[str], code: str, facts: list[str]
) -> None:
    out = str(tmp_path / "out")
    rig.stop_after = 5
    typed("crossover", *WORDS, "--seed", "5", "--out", out)
    status, _, told = typed("crossover", *WORDS, *change, "--out", out, "--resume")
    assert status == 2 and told.startswith("thunderherd: ")
    assert codes_printed(told) == [code]
    assert [fact for fact in facts if fact not in told] == []


@pytest.mark.fuzz
@pytest.mark.parametrize("name", ["coarse.toml", "coarse/run.json", "coarse/summary.json"])
def test_an_altered_stage_is_continued_or_refused(
    rig: Rig, typed: Typed, tmp_path: Path, draws: Callable[[int], Iterator[random.Random]], name: str
) -> None:
    """Whatever is read again of a search that has ended: the studies of its stages, and their results."""
    out = tmp_path / "out"
    words = ["crossover", *WORDS, "--points", "5", "--blocks", "10", "--seed", "5", "--out", str(out)]
    assert typed(*words)[0] == 0
    rig.stop_after = len(rig.ran)
    file = out / name
    text = file.read_text()
    if file.suffix == ".json":
        damaged = alterations(f"stage-{file.name}", json.loads(text), draws(2))
    else:
        damaged = (mutated(text, draw) for draw in draws(2))
    for each in damaged:
        file.write_text(each)
        status, printed, said = typed(*words, "--resume")
        assert "\x1b[31m" not in printed + said
        assert status in (0, 1, 130) or said.startswith("thunderherd: "), (each, said)


def test_directory_that_is_taken_is_refused(rig: Rig, typed: Typed, tmp_path: Path) -> None:
    def refusal(out: Path, *more: str) -> tuple[int, list[str], str]:
        status, _, said = typed("crossover", *WORDS, *more, "--out", str(out))
        return status, codes_printed(said), said

    rig.stop_after = 5
    typed("crossover", *WORDS, "--out", str(tmp_path / "out"))
    status, codes, said = refusal(tmp_path / "out")
    assert (status, codes) == (2, ["search.out_has_a_search"]) and "--resume" in said
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    assert refusal(tmp_path / "other")[:2] == (2, ["search.out_not_empty"])
    assert refusal(tmp_path / "other" / "file")[:2] == (2, ["search.out_is_a_file"])
    # A mistake found in the written study leaves no files, because the user did not write that study.
    third = tmp_path / "third"
    status, _, said = refusal(third, "--set", "noise.foreign=900%")
    assert status == 2 and "crossover: --set noise.foreign=900%: " in said and not third.exists()
    rig.stop_after = 10**9
    assert typed("crossover", *WORDS, "--out", str(third))[0] == 0


@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (["prefork", "iterative"], "usage.missing", ["'--over'"]),
        (["prefork", "--over", "pool=1..9"], "usage.missing", ["'B'"]),
        ([*WORDS, "--resume"], "crossover.resume_without_out", ["--out DIR"]),
        ([*WORDS, "--blocks", "0"], "usage.invalid_value", ["--blocks"]),
        ([*WORDS, "--points", "one"], "usage.invalid_value", ["--points"]),
        ([*WORDS, "--sede", "3"], "usage.unknown_option", ["--seed"]),
        (["prefork", "iteratve", "--over", "pool=1..9"], "contender.unknown", ["'iterative'?"]),
        (["prefork", "prefork", "--over", "pool=1..9"], "crossover.same_contender", ["prefork and prefork"]),
        (["prefork", "iterative", "--over", "pool=9..1"], "quantity.reversed_range", ["--over", "=1..9"]),
        (
            ["prefork", "iterative", "--over", "pool=1..99999"],
            "crossover.over_exceeds_setting",
            ["1 to 4096 workers"],
        ),
        (["prefork", "iterative", "--over", "pol=1..9"], "crossover.over_unknown", ["'pool'?"]),
        (
            ["prefork", "iterative", "--over", "check=1..9"],
            "crossover.over_is_no_number",
            ['"pattern", "count"'],
        ),
    ],
)
def test_a_mistake_is_a_line_and_perhaps_a_hint(
    fake_engine: Callable[..., Path],
    typed: Typed,
    words: list[str],
    code: str,
    facts: list[str],
) -> None:
    fake_engine()
    status, printed, told = typed("crossover", *words)
    assert (status, printed) == (2, "")
    refusal, *hints = told.splitlines()
    assert refusal.startswith("thunderherd: crossover: ")
    assert [line[:6] for line in hints] in ([], ["hint: "])
    assert codes_printed(told) == [code]
    assert [fact for fact in facts if fact not in told] == []


# With the engine itself -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_real_search_finds_a_known_crossing(
    use_engine: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process for every connection against 60 µs of spinning for every request: the first is dearer where a
    connection has one request, the second where it has 64, on any machine, however busy."""
    out = tmp_path / "out"
    settings = {
        "load.settings.clients": 8, "load.settings.connections": "kept", "load.settings.duration": 0,
        "load.settings.warm_up": 0, "noise.foreign": "100%", "noise.steal": "100%",
    }  # fmt: skip
    command = [
        "crossover", "design=fork_per_client,name=forks",
        "design=thread_per_client,settings.compute=60us,name=spins",
        "--over", "load.settings.loops=1..64", "--workload", "bytes", "--load", "closed_threads",
        "--metric", "server_cpu_per_request", "--points", "2", "--blocks", "10", "--seed", "3",
        *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")), "--out", str(out),
    ]  # fmt: skip
    # Three sizes around the crossing in the place of seven.
    monkeypatch.setattr(crossings, "second_stage", partial(crossings.second_stage, points=3))
    status, printed, told = typed(*command)
    assert status == 0, told
    coarse = answer(out / "coarse")
    standings = [point["standing"] for point in coarse["points"]]
    assert standings[0] == "b" and standings[-1] == "a", coarse["points"]
    found = answer(out / "dense")
    assert found["outcome"] == "one"
    (bracket,) = found["brackets"]
    assert (bracket["before"], bracket["after"]) == ("spins", "forks")
    assert 1 <= bracket["low"] < bracket["high"] <= 64
    assert "forks beats spins" in " ".join(printed.split())
    assert " 2 sizes from 1 to 64 " in " ".join(printed.split())
    assert (out / "crossover.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_a_rate_is_swept_over_pairs_of_namespaces(use_engine: Path, typed: Typed, tmp_path: Path) -> None:
    """Both contenders send at the rate of the point, whose lab is its own."""
    pair = engine.catalogue().namespace
    if pair is None or not pair.available:
        pytest.skip(pair.reason or "no namespaces" if pair else "this engine makes no namespaces")
    out = tmp_path / "out"
    quiet = ("measure.limits=0", "noise.foreign=100%", "noise.steal=100%")
    status, printed, told = typed(
        "crossover", "writev", "sendmsg", "--over", "rate=20mbit..200mbit", "--workload", "stream",
        "--lab", "veth", "--points", "2", "--blocks", "10", "--duration", "60ms", "--seed", "3",
        *(word for each in quiet for word in ("--set", each)), "--out", str(out),
    )  # fmt: skip
    assert status == 0, told
    trials = load(out / "coarse").trials
    assert len(trials) >= 40
    for rate in (20, 200):
        seen = [
            each.metrics["gigabits_per_second"]
            for each in trials
            if each.metrics and each.contender.endswith(f"={rate}mbit")
        ]
        assert len(seen) >= 20
        # A bucket that is full at first lets some more through in so short a window.
        assert 0.3 * rate < 1e3 * float(np.median([each for each in seen if each])) < 2 * rate, seen
    assert "bit/s" in printed
