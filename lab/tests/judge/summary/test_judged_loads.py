"""Loads that a user keeps in files: groups, what cannot be compared, and the verdicts."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from made.refusals import codes_printed, refused

from thunderherd.cli import main
from thunderherd.engine import client
from thunderherd.judge.summary.judged_loads import JudgedLoads, grouped, judged_loads

BLOCKS = 10
Line = dict[str, Any]
Change = Callable[[Line], None]


@pytest.fixture(scope="module")
def line(real_engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Line:
    """The result of a real load, with enough requests for a 99th percentile."""
    with client.Server("epoll", workload="bytes") as server:
        words = ["--load", "closed_connections", "--connections", "kept", "--loops", "2000", "--bytes", "9"]
        command = [str(real_engine), "load", "bytes", "--connect", server.ready.address, "--json", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found: Line = json.loads(done.stdout.splitlines()[-1])
    assert found["latency"]["p99_ns"] and not found["tally"]["errors"]
    return found


def written(folder: Path, name: str, line: Line, factor: float = 1.0, blocks: int = BLOCKS) -> list[Path]:
    """Files of one group: the real load, with times that vary by some percent and differ by a factor."""
    draws = random.Random(name)
    files = []
    for number in range(1, blocks + 1):
        copy = json.loads(json.dumps(line))
        slower = factor * draws.gauss(1, 0.01)
        copy["elapsed_ns"] = int(copy["elapsed_ns"] * slower)
        copy["started_monotonic_ns"] += 1_000_000_000_000 * number + draws.randrange(10**9)
        copy["ended_monotonic_ns"] = copy["started_monotonic_ns"] + copy["elapsed_ns"]
        copy["user_ns"] = int(copy["user_ns"] * slower)
        copy["system_ns"] = int((copy["system_ns"] + 10_000_000) * slower)
        for part in ("p50_ns", "p99_ns"):
            copy["latency"][part] = int(copy["latency"][part] * slower)
        copy["address"] = f"{name}:80"
        files.append(folder / f"{name}{number}.json")
        files[-1].write_text(json.dumps(copy) + "\n")
    return files


def changed(path: Path, change: Change) -> None:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found) + "\n")


def judged(*groups: Sequence[Path]) -> JudgedLoads:
    return judged_loads(grouped([str(path) for group in groups for path in group]))


def verdicts(found: JudgedLoads) -> dict[str, str]:
    return {pair.metric: pair.verdict for pair in found.pairs}


METRICS = ("requests_per_second", "latency_p50_seconds", "latency_p99_seconds", "client_cpu_per_request")


def test_a_true_difference_is_found_in_each_metric(line: Line, tmp_path: Path) -> None:
    found = judged(written(tmp_path, "A", line), written(tmp_path, "B", line, 1.3))
    assert verdicts(found) == dict.fromkeys(METRICS, "faster")
    assert all(pair.ratio and 1.2 < 1 / pair.ratio < 1.4 for pair in found.pairs)
    assert found.missing == 0 and found.targets == {"A": ["A:80"], "B": ["B:80"]}


def test_twins_do_not_differ(line: Line, tmp_path: Path) -> None:
    found = judged(written(tmp_path, "A", line), written(tmp_path, "B", line))
    assert not {"faster", "slower"} & {*verdicts(found).values()}


def test_three_groups_are_compared_in_pairs(line: Line, tmp_path: Path) -> None:
    groups = [written(tmp_path, name, line, factor) for name, factor in (("A", 1), ("B", 1.2), ("C", 1.5))]
    found = judged(*groups)
    assert found.needed > BLOCKS or {*verdicts(found).values()} == {"faster"}
    assert {(pair.a, pair.b) for pair in found.pairs} == {("A", "B"), ("A", "C"), ("B", "C")}


def test_too_few_blocks_have_estimates_and_no_verdict(
    line: Line, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [*written(tmp_path, "A", line, blocks=7), *written(tmp_path, "B", line, 2, blocks=7)]
    assert main.run_command(["judge", "--json", *map(str, files)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["blocks"], found["needed_blocks"]) == (7, BLOCKS)
    pairs = [pair for answer in found["answers"] for pair in answer["pairs"]]
    assert {pair["verdict"] for pair in pairs} == {"undecided"} and all(pair["ratio"] for pair in pairs)
    assert main.run_command(["judge", *map(str, files)]) == 1
    said = capsys.readouterr().out
    (following,) = [text for text in said.splitlines() if text.startswith("Next")]
    assert "3 more loads" in following


def test_one_block_has_estimates(line: Line, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [*written(tmp_path, "A", line, blocks=1), *written(tmp_path, "B", line, 2, blocks=1)]
    assert main.run_command(["judge", *map(str, files)]) == 1
    assert "9 more loads" in capsys.readouterr().out


def test_enough_blocks_end_with_success(
    line: Line, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [*written(tmp_path, "A", line, 2), *written(tmp_path, "B", line)]
    assert main.run_command(["judge", "--json", *map(str, files)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(answer["metric"], answer["best"]) for answer in found["answers"]] == [
        (metric, ["B"]) for metric in METRICS
    ]
    assert [each["name"] for each in found["contenders"]] == ["A", "B"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["A1.json", "A10.json", "B1.json", "B2.json"], {"A": 2, "B": 2}),
        (["a/1.json", "a/2.json", "b/1.json"], {"a": 2, "b": 1}),
        (["x/A1.json", "y/A1.json"], {"x/A": 1, "y/A": 1}),
        (["c64-1.json", "c64-2.json", "c128-1.json"], {"c64": 2, "c128": 1}),
        (["old.json", "new.json"], {"old": 1, "new": 1}),
        (["one.json", "two.json", "vs", "three.json"], {"one": 2, "three": 1}),
        (["1.json", "2.json", "vs", "3.json", "vs", "4.json"], {"1.json": 2, "3.json": 1, "4.json": 1}),
    ],
)
def test_files_form_groups(words: list[str], expected: dict[str, int]) -> None:
    assert {each.name: len(each.files) for each in grouped(words)} == expected


@pytest.mark.parametrize("words", [["A1.json", "A2.json"], ["A1.json", "vs"], ["vs", "A1.json"], ["vs"]])
def test_one_group_alone_is_refused(words: list[str]) -> None:
    assert [each.code for each in refused(grouped, words)] == ["judge.too_few_groups"]


def test_a_file_may_hold_many_loads(line: Line, tmp_path: Path) -> None:
    for name, factor in (("A", 1.0), ("B", 1.5)):
        files = written(tmp_path, name, line, factor)
        tmp_path.joinpath(f"all{name}.json").write_text("".join(each.read_text() for each in files))
    found = judged([tmp_path / "allA.json"], [tmp_path / "allB.json"])
    assert found.blocks == BLOCKS and verdicts(found) == dict.fromkeys(METRICS, "faster")


def test_an_invalid_load_is_refused_with_its_file(line: Line, tmp_path: Path) -> None:
    a, b = written(tmp_path, "A", line), written(tmp_path, "B", line)
    changed(a[3], lambda found: found["tally"].update(errors={"reset": 3}))
    changed(b[2], lambda found: found.update(interrupted=True))
    check = {"name": "send_lag", "value": 9.0, "limit": 1.0, "holds": False, "words": "late"}
    changed(b[5], lambda found: found.update(validity={"valid": False, "checks": [check], "generators": []}))
    problems = refused(judged, a, b)
    assert [(each.code, each.where) for each in problems] == [
        ("judge.invalid_load", str(path)) for path in (a[3], b[2], b[5])
    ]
    assert "3 reset" in problems[0].message and "send_lag" in problems[2].message


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda found: found["settings"].update(clients=99), "clients is 99"),
        (lambda found: found.update(workload="http"), "workload is http"),
        (lambda found: found.update(receive="recvmsg"), "receive is recvmsg"),
        (lambda found: found["settings"].pop("timeout"), "timeout is none"),
    ],
)
def test_only_the_target_may_differ(line: Line, tmp_path: Path, change: Change, named: str) -> None:
    a, b = written(tmp_path, "A", line), written(tmp_path, "B", line)
    changed(b[4], change)
    (problem,) = refused(judged, a, b)
    assert (problem.code, problem.where) == ("judge.different_settings", str(b[4]))
    assert named in problem.message


def test_seeds_may_differ(line: Line, tmp_path: Path) -> None:
    a, b = written(tmp_path, "A", line), written(tmp_path, "B", line)
    changed(b[4], lambda found: found["settings"].update(request_seed=77))
    assert judged(a, b).blocks == BLOCKS


def test_unequal_groups_and_repeated_loads_are_refused(line: Line, tmp_path: Path) -> None:
    a, b = written(tmp_path, "A", line), written(tmp_path, "B", line)
    (problem,) = refused(judged, a, b[1:])
    assert problem.code == "judge.unequal_groups" and "A 10 and B 9" in problem.message
    b[7].write_text(a[0].read_text())
    (problem,) = refused(judged, a, b)
    assert (problem.code, problem.where) == ("judge.repeated", str(b[7]))


def test_files_without_a_load_are_refused(
    line: Line, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (good,) = written(tmp_path, "A", line, blocks=1)
    other = tmp_path / "B1.json"
    for text, code in (("", "judge.no_load"), ('{"line": "mark"}', "judge.no_load"), ("x", "judge.not_json")):
        other.write_text(text)
        assert main.run_command(["judge", str(good), str(other)]) == 2
        assert codes_printed(capsys.readouterr().err) == [code]
    assert main.run_command(["judge", str(good), str(tmp_path / "none.json")]) == 2
    assert codes_printed(capsys.readouterr().err) == ["judge.unreadable"]


def test_a_metric_that_a_load_lacks_is_a_note(line: Line, tmp_path: Path) -> None:
    a, b = written(tmp_path, "A", line), written(tmp_path, "B", line)
    changed(b[4], lambda found: found["latency"].update(p99_ns=None))
    found = judged(a, b)
    assert "latency_p99_seconds" not in found.metrics and any("99th" in note for note in found.notes)


def test_groups_one_after_another_are_noted(line: Line, tmp_path: Path) -> None:
    a, b = written(tmp_path, "A", line), written(tmp_path, "B", line)
    in_turns = judged(a, b).notes
    for path in b:
        changed(
            path,
            lambda found: found.update(
                started_monotonic_ns=found["started_monotonic_ns"] + 10**14,
                ended_monotonic_ns=found["ended_monotonic_ns"] + 10**14,
            ),
        )
    one_after_another = judged(a, b).notes
    assert not any("in turns" in note for note in in_turns)
    assert any("in turns" in note for note in one_after_another)


def test_blocks_of_other_numbers_are_noted(line: Line, tmp_path: Path) -> None:
    a, b = written(tmp_path, "A", line), written(tmp_path, "B", line, blocks=11)
    assert not any("block 1 " in note for note in judged(a, b[:10]).notes)
    assert any(str(b[1]) in note for note in judged(a, b[1:]).notes)


def test_files_of_other_systems_are_read_alike(line: Line, tmp_path: Path) -> None:
    """With a byte order mark, other line ends, an empty last line, and whole numbers with a fraction."""
    a, b = written(tmp_path, "A", line), written(tmp_path, "B", line, 1.3)
    before = judged(a, b)
    for path in a:
        changed(path, lambda found: found["settings"].update(bytes=float(found["settings"]["bytes"])))
        changed(path, lambda found: found.update(user_ns=float(found["user_ns"])))
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    after = judged(a, b)
    assert after.pairs == before.pairs
