"""A study is refused before its first trial, with file and line, and all its mistakes at once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from made.written_study import GOOD, line_of, loaded, machine, refused

from thunderherd.errors import UserError

__all__ = ["machine"]


REFUSED = [
    # part of the good file, its replacement, what is marked by the line, what is said
    ('title = "A small study"', 'titel = "x"', "titel", "no such key 'titel'"),
    ("baseline =", "base_line =", "base_line", "did you mean 'baseline'?"),
    (
        '"server_cpu_per_connection"',
        '"cpu_per_connection"',
        'metric = "cpu',
        "did you mean 'server_cpu_per_connection'?",
    ),
    ('baseline = "iterative"', 'baseline = "itrative"', "baseline", "did you mean 'iterative'?"),
    (
        'workload = "bytes"',
        'workload = "byte"',
        "workload",
        'no such workload "byte"; known: bytes; did you mean',
    ),
    ('primitive = "send_each"', 'primitive = "sent"', "primitive", 'no such primitive "sent"'),
    ('kind = "closed"', 'kind = "open"', "kind", 'no such load "open"; known: closed'),
    (
        "backlog = 64",
        "backlog = 0",
        "backlog = 0",
        "backlog = 0; allowed: a whole number from 1 to 65535 connections",
    ),
    ("backlog = 64", 'backlog = "64"', 'backlog = "64"', 'backlog = "64"; allowed'),
    ("backlog = 64", "loops = 64", "loops = 64", "it is a setting of [load.settings]"),
    ("backlog = 64", "pool = 64", "pool = 64", "it is a setting of prefork, "),
    ("loops = 100", "lops = 100", "lops", 'load "closed" has no setting "lops"'),
    ("loops = 100", "lops = 100", "lops", "did you mean 'loops'?"),
    ("processes = 2", "processes = 2.5", "processes", "load.processes = 2.5: it must be a whole number"),
    ("processes = 2", "processes = 0", "processes", "it must be at least 1"),
    ("processes = 2", 'processes = "two"', "processes", 'load.processes = "two"'),
    ("bytes = 4000", "bytes = 20000", "bytes = 20000", "the server limit = 16384, which is less"),
    (
        "server_cpus = [0]",
        "server_cpus = [0, 9]",
        "server_cpus",
        "names CPU 9, which is not there; allowed: 0, 1",
    ),
    ("server_cpus = [0]", "server_cpus = [2]", "server_cpus", "which this process may not use"),
    ("server_cpus = [0]", "server_cpus = []", "server_cpus", "no CPU at all"),
    ("server_cpus = [0]", "server_cpus = [0, 0]", "server_cpus", "named twice"),
    ("steal_percent = 4", "steal_percent = -1", "steal_percent", "it must be at least 0"),
    ("steal_percent = 4", "steal_percent = nan", "steal_percent", "it must be a finite number"),
    ("looks = [10, 20]", "looks = [10, 10]", "looks = [10, 10]", "each must be more than the one before"),
    (
        "looks = [10, 20]",
        "looks = [8, 20]",
        "looks = [8, 20]",
        "2 comparisons at alpha 0.02 need at least 10 blocks",
    ),
    ("looks = [10, 20]", "looks = [10, 20, 40]", "[0.4, 0.6]", "2 shares for 3 looks"),
    ("[0.4, 0.6]", "[0.4, 0.5]", "[0.4, 0.5]", "sum 0.9"),
    ("[0.4, 0.6]", "[0.0, 1.0]", "[0.0, 1.0]", "shares > 0"),
    ("[0.4, 0.6]", '[0.4, "x"]', '[0.4, "x"]', 'sizes.full.alpha_split[1] = "x": it must be a number'),
    (
        '"load.settings.loops" = 50',
        '"load.settings.lops" = 50',
        "lops",
        "no such key 'load.settings.lops'; known in",
    ),
    ('"load.settings.loops" = 50', '"loops" = -5', "-5", "loops = -5; allowed"),
    ("all_pairs = true", 'pairs = [["prefork", "x"]]', "pairs", 'no such contender "x"'),
    ("all_pairs = true", 'pairs = [["prefork", "prefork"]]', "pairs", "a pair is two different names"),
    ('name = "prefork"', 'name = "iterative"', 'name = "iterative"#2', 'the name "iterative" is taken'),
    ('name = "prefork"', 'name = "pre fork"', "pre fork", "it must match"),
    ('design = "prefork"', 'design = "preforc"', "preforc", "did you mean 'prefork'?"),
    ('design = "prefork"', "", 'name = "prefork"-1', "neither design nor control_of"),
    ("pool = 7", "pool = 5000", "pool = 5000", "pool = 5000; allowed: a whole number from 1 to 4096 workers"),
    ("pool = 7", "ring = 7", "ring = 7", 'design "prefork" has no setting "ring"'),
    ("pool = 7", "ring = 7", "ring = 7", "it is a setting of prethread_queue"),
    ("row = 2", "row = 3", "row = 3", "prefork: row = 3; paper.csv has 0, 2"),
    ("row = 2", 'row = "two"', 'row = "two"', "it must be a whole number"),
    ("row = 2", "", 'name = "prefork"-1', "prefork has no row"),
    ('control_of = "prefork"', 'control_of = "prefrok"', "prefrok", "did you mean 'prefork'?"),
    ('control_of = "prefork"', 'control_of = "modern"', 'control_of = "modern"', "is a control itself"),
    ("nodelay = true, backlog = 4096", "", 'name = "modern"-1', 'control "modern" changes nothing'),
    (
        'file = "paper.csv"',
        'file = "papr.csv"',
        "papr",
        "papr.csv: cannot be read: No such file",
    ),
    ('file = "paper.csv"', 'file = "papr.csv"', "papr", "did you mean 'paper.csv'?"),
    ('file = "paper.csv"', 'file = "wrong.csv"', 'file = "wrong', 'no column "row"'),
    (
        'value = "process_control_cpu_s"',
        'value = "process_control"',
        "file =",
        "did you mean 'process_control_cpu_s'?",
    ),
    ('value = "process_control_cpu_s"', "", "[[paper]]", "paper: give columns"),
    (
        'value = "process_control_cpu_s"',
        'value = "row"\npoint = "row"',
        "point",
        "has no points; leave point out",
    ),
    (
        'value = "process_control_cpu_s"',
        'value = "row"\nnames = { preforc = "2" }',
        "names",
        "did you mean 'prefork'?",
    ),
    (
        'value = "process_control_cpu_s"',
        'value = "row"\nnames = { prefork = "3" }',
        "names",
        'no such row in paper.csv "3"; known: 0, 2',
    ),
    ('value = "process_control_cpu_s"', 'value = "row"\nwhere = { row = "9" }', "row = 2", "paper.csv has "),
    ('metric = "process_control_seconds"', 'metric = "process_control"', 'process_control"', "did you mean"),
    ('metric = "process_control_seconds"', "", "[[paper]]", "paper: give metric; or"),
    ('baseline = "iterative"', "", "process_control_seconds", "beyond measure.baseline; give both"),
    ('inconsistencies = "wrong.csv"', 'claims = "claims.toml"', "claims", "there is no file"),
    ('question = "Which one?"', "", 'title = "A small study"-1', "'question' is missing"),
    ("[measure]", "[mesure]", "[mesure]", "did you mean 'measure'?"),
    (
        'primitive = "send_each"',
        'primitive = "test_splice"',
        'design = "prefork"',
        "in the fixture, to have one",
    ),
]


@pytest.mark.parametrize(("old", "new", "marked", "complaint"), REFUSED)
def test_mistakes_are_refused_with_their_line(
    old: str, new: str, marked: str, complaint: str, tmp_path: Path
) -> None:
    assert GOOD.count(old) == 1 or old.startswith("name")
    text = GOOD.replace(old, new)
    part, _, shift = re.fullmatch(r"(.*?)((#2|-1)?)", marked).groups()  # type: ignore[union-attr]
    lines = [number for number, line in enumerate(text.splitlines(), 1) if part in line]
    expected = lines[1] if shift == "#2" else lines[0] - 1 if shift == "-1" else lines[0]
    told = refused(tmp_path, text)
    assert any(f":{expected}:" in line and complaint in line for line in told), (expected, told)


def test_control_takes_neither_design_nor_row(tmp_path: Path) -> None:
    text = GOOD.replace('control_of = "prefork"', 'control_of = "prefork"\ndesign = "prefork"\nrow = 2')
    told = " ".join(refused(tmp_path, text))
    assert "leave design out" in told
    assert "leave row out" in told


def test_contender_without_a_row_says_so(tmp_path: Path) -> None:
    study = loaded(tmp_path, GOOD.replace("row = 2", 'row = "none"\nrow_note = "not in the table"'))
    prefork = study.contender("prefork")
    assert prefork.row is None
    assert [(each.value, each.runs, each.note) for each in study.paper if each.base == "prefork"] == [
        (None, [], "not in the table")
    ]


PAPERS = """
[[paper]]
file = "more.csv"
metric = "requests_per_second"
unit = "Mreq/h"
figure = "fig 3"
note = "three runs"
contender = "server"
names = { prefork = "Pre", iterative = "One" }
value = "rate"

[[paper]]
file = "workers.csv"
metric = "worker_connections"
[paper.columns]
prefork = { "BSD/OS" = "b", "Solaris" = "s" }
"""
MORE = "server,rate\nPre,7\nPre,8\nOne,\nPre,9\nTwo,1\n"


def test_the_paper_has_figures_of_any_metric(tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(MORE)
    (tmp_path / "workers.csv").write_text("worker,b,s\n0,10,1\n1,20,2\n")
    paper = loaded(tmp_path, GOOD + PAPERS).paper
    (rate,) = [each for each in paper if each.metric == "requests_per_second"]
    assert (rate.base, rate.sweep, rate.point, rate.value, rate.runs) == ("prefork", None, None, 8, [7, 8, 9])
    assert (rate.unit, rate.note) == ("Mreq/h", "three runs")
    workers = [(each.base, each.system, each.runs) for each in paper if each.metric == "worker_connections"]
    assert workers == [("prefork", "BSD/OS", [10, 20]), ("prefork", "Solaris", [1, 2])]
    assert [each.note for each in paper if each.metric == "worker_connections"] == [None, None]


def test_what_is_wrong_with_a_figure_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(MORE)
    (tmp_path / "workers.csv").write_text("worker,b,s\n0,10,1\n1,20,2\n")
    wrong = "as_printed,finding,concerns\n7,was 6,claim H1; fig 3\n"
    (tmp_path / "listed.csv").write_text(wrong)
    text = GOOD.replace('"wrong.csv"', '"listed.csv"') + PAPERS
    notes = {each.metric: each.note for each in loaded(tmp_path, text).paper}
    assert notes["requests_per_second"] == "three runs; 7: was 6"
    assert notes["worker_connections"] is notes["process_control_seconds"] is None


@pytest.mark.parametrize(
    ("old", "new", "marked", "complaint"),
    [
        ("Pre,8", "Pre,eight", "more.csv", '"eight" is no number'),
        ("Pre,8", "Pre,nan", "more.csv", '"nan" is no number'),
        ("Pre,8", "Pre,8,8", "more.csv", "another number of fields"),
        ("7\nPre,8\nOne,\nPre,9", "\nPre,\nOne,\nPre,", "more.csv", "more.csv has no figure"),
        ('"worker_connections"', '"requests_per_second"', 'requests_per_second"#2', "has a table already"),
    ],
)
def test_mistakes_in_its_files_are_refused_with_the_line_that_names_them(
    old: str, new: str, marked: str, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "more.csv").write_text(MORE.replace(old, new))
    (tmp_path / "workers.csv").write_text("worker,b,s\n0,10,1\n1,20,2\n")
    text = GOOD + PAPERS.replace(old, new)
    part, _, second = marked.partition("#")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if part in line]
    told = refused(tmp_path, text)
    assert any(f":{lines[1 if second else 0]}:" in line and complaint in line for line in told), told


def test_a_run_of_another_metric_is_none_of_the_files_mistakes(tmp_path: Path) -> None:
    assert loaded(tmp_path, GOOD, "measure.metric=requests_per_second").paper


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    text = GOOD
    for old, new in [
        ('title = "A small study"', "title = 3"),
        ("processes = 2", "processes = true"),
        ("backlog = 64", "backlog = -1"),
        ('design = "prefork"', 'design = "prefrok"'),
        ("[0.4, 0.6]", "[0.4, 0.5]"),
        ("steal_percent = 4", "steel_percent = 4"),
        ("server_cpus = [0]", "server_cpus = [64]"),
        ("pool = 7", "pool = 7, polo = 8"),
    ]:
        text = text.replace(old, new)
    told = refused(tmp_path, text, "loop=1")
    numbers = [int(line.split(":")[1]) for line in told if line.startswith("small.toml")]
    parts = [
        "title =",
        "backlog = -1",
        "processes",
        "server_cpus",
        "steel_percent",
        "[0.4, 0.5]",
        'design = "prefrok"',
    ]
    assert numbers == sorted(numbers)
    assert set(numbers) == {line_of(text, part) for part in parts}
    assert [line for line in told if line.startswith("--set loop=1: no such key 'loop'")]


def test_a_wrong_key_is_complained_about_once(tmp_path: Path) -> None:
    told = refused(tmp_path, GOOD.replace('metric = "server_cpu_per_connection"', "metric = 3"))
    assert len(told) == 1, told


def test_the_other_sizes_are_checked_too_but_not_against_this_machine(tmp_path: Path) -> None:
    text = GOOD.replace("alpha_split = [0.4, 0.6]", 'alpha_split = [0.4, 0.6]\nset = { "loops" = 1500 }')
    assert loaded(tmp_path, text).load.settings["loops"] == 50
    assert "allowed: 10000" in refused(tmp_path, text, size="full")[0]
    assert "loops = 0" in refused(tmp_path, text.replace("1500", "0"))[0]


def test_unknown_size(tmp_path: Path) -> None:
    (told,) = refused(tmp_path, size="fulll")
    assert told.endswith("no such size \"fulll\"; known: quick, full; did you mean 'full'?")


def test_baseline_alone_is_no_study(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index('[[contenders]]\nname = "prefork"')]
    assert any("nothing is compared" in line for line in refused(tmp_path, text))


JUNK: list[Any] = [0, -1, 1.5, True, "", "x", [], [1], [[]], {}, {"x": 1}, [{"name": "a"}]]


@pytest.mark.parametrize("junk", JUNK, ids=json.dumps)
def test_junk_in_any_place_is_a_users_mistake(junk: Any, tmp_path: Path) -> None:
    """Whatever stands at a key: the file is refused, or it is a study; nothing else is ever raised."""

    def toml(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(toml, value)) + "]"
        return json.dumps(value)

    for number, line in enumerate(GOOD.splitlines()):
        if " = " not in line:
            continue
        lines = GOOD.splitlines()
        lines[number] = f"{line.split(' = ')[0]} = {toml(junk)}"
        try:
            loaded(tmp_path, "\n".join(lines))
        except UserError as error:
            assert "small.toml:" in str(error)
