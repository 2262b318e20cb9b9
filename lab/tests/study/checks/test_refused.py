"""Mistakes in a study are refused before the first trial, all at once, each with its code and its line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from made.refusals import below, page, places
from made.refusals import refused as problems_of
from made.summaries import swept
from made.summaries.figures_of_metrics import CELLS, FIGURES_OF_METRICS, LONG, SWEPT
from made.summaries.swept import BOTH_KEYS, STUDY, TWO_KEYS
from made.written_study import GOOD, line_of, loaded, machine, refused

from thunderherd.errors import Problem, UserError
from thunderherd.study.checks.sweeps import OF_RUNS
from thunderherd.toml.write import inline

__all__ = ["machine"]

QUICK = "alpha_split = [1.0]"

OF_STUDIES = [
    ('title = "A small study"', 'titel = "x"', "titel", "study.unknown_key"),
    ("baseline =", "base_line =", "base_line", "study.unknown_key"),
    ('"server_cpu_per_connection"', '"cpu_per_connection"', 'metric = "cpu', "study.unknown_metric"),
    ('baseline = "iterative"', 'baseline = "itrative"', "baseline", "study.unknown_contender"),
    ('workload = "bytes"', 'workload = "byte"', "workload", "study.unknown_workload"),
    ('primitive = "send_each"', 'primitive = "sent"', "primitive", "study.unknown_primitive"),
    ('kind = "closed"', 'kind = "open"', "kind", "study.unknown_load"),
    ("backlog = 64", "backlog = 0", "backlog = 0", "study.invalid_setting"),
    ("backlog = 64", 'backlog = "64"', 'backlog = "64"', "study.invalid_setting"),
    ("backlog = 64", "loops = 64", "loops = 64", "study.unknown_setting"),
    ("backlog = 64", "pool = 64", "pool = 64", "study.unknown_setting"),
    ("loops = 100", "lops = 100", "lops", "study.unknown_setting"),
    ("processes = 2", "processes = 2.5", "processes", "study.invalid_value"),
    ("processes = 2", "processes = 0", "processes", "study.invalid_value"),
    ("processes = 2", 'processes = "two"', "processes", "study.invalid_value"),
    ("bytes = 4000", "bytes = 20000", "bytes = 20000", "study.contradicting_settings"),
    ("server_cpus = [0]", "server_cpus = [0, 9]", "server_cpus", "study.unavailable_cpu"),
    ("server_cpus = [0]", "server_cpus = [2]", "server_cpus", "study.unavailable_cpu"),
    ("server_cpus = [0]", "server_cpus = []", "server_cpus", "study.no_cpu"),
    ("server_cpus = [0]", "server_cpus = [0, 0]", "server_cpus", "study.duplicate_cpu"),
    ('steal = "4%"', "steal = -1", "steal", "study.invalid_value"),
    ('steal = "4%"', "steal = nan", "steal", "study.invalid_value"),
    ("looks = [10, 20]", "looks = [10, 10]", "looks = [10, 10]", "study.looks_not_rising"),
    ("looks = [10, 20]", "looks = [8, 20]", "looks = [8, 20]", "study.look_too_early"),
    ("looks = [10, 20]", "looks = [10, 1000000]", "looks = [10, 1000000]", "study.invalid_value"),
    ("looks = [10, 20]", f"looks = {[*range(10, 200)]}", "looks = [10", "study.invalid_value"),
    ("looks = [10, 20]", "looks = [10, 20, 40]", "[0.4, 0.6]", "study.shares_without_looks"),
    ("[0.4, 0.6]", "[0.4, 0.5]", "[0.4, 0.5]", "study.invalid_shares"),
    ("[0.4, 0.6]", "[0.0, 1.0]", "[0.0, 1.0]", "study.invalid_shares"),
    ("[0.4, 0.6]", '[0.4, "x"]', '[0.4, "x"]', "study.invalid_value"),
    ('"load.settings.loops" = 50', '"load.settings.lops" = 50', "lops", "set.unknown_key"),
    ('"load.settings.loops" = 50', '"loops" = -5', "-5", "study.invalid_setting"),
    ("all_pairs = true", 'pairs = [["prefork", "x"]]', "pairs", "study.unknown_contender"),
    ("all_pairs = true", 'pairs = [["prefork", "prefork"]]', "pairs", "study.invalid_pair"),
    ('name = "prefork"', 'name = "iterative"', 'name = "iterative"#2', "study.duplicate_name"),
    ('name = "prefork"', 'name = "pre fork"', "pre fork", "study.invalid_value"),
    ('design = "prefork"', 'design = "preforc"', "preforc", "study.unknown_design"),
    ('design = "prefork"', "", 'name = "prefork"-1', "study.no_design"),
    ("pool = 7", "pool = 5000", "pool = 5000", "study.invalid_setting"),
    ("pool = 7", "ring = 7", "ring = 7", "study.unknown_setting"),
    ("row = 2", "row = 3", "row = 3", "study.unknown_row"),
    ("row = 2", 'row = "two"', 'row = "two"', "study.invalid_value"),
    ("row = 2", "", 'name = "prefork"-1', "study.no_row"),
    ('control_of = "prefork"', 'control_of = "prefrok"', "prefrok", "study.unknown_contender"),
    ('control_of = "prefork"', 'control_of = "modern"', 'control_of = "modern"', "study.control_of_control"),
    ("nodelay = true, backlog = 4096", "", 'name = "modern"-1', "study.empty_control"),
    ('file = "paper.csv"', 'file = "papr.csv"', "papr", "file.unreadable"),
    ('file = "paper.csv"', 'file = "wrong.csv"', 'file = "wrong', "file.missing_column"),
    ('value = "process_control_cpu_s"', 'value = "process_control"', "file =", "file.missing_column"),
    ('value = "process_control_cpu_s"', "", "[[paper]]", "study.invalid_figures"),
    ('value = "process_control_cpu_s"', 'value = "row"\npoint = "row"', "point", "study.point_not_allowed"),
    (
        'value = "process_control_cpu_s"',
        'value = "row"\nnames = { preforc = "2" }',
        "names",
        "study.unknown_contender",
    ),
    (
        'value = "process_control_cpu_s"',
        'value = "row"\nnames = { prefork = "3" }',
        "names",
        "study.unknown_source_name",
    ),
    (
        'value = "process_control_cpu_s"',
        'value = "row"\nwhere = { row = "9" }',
        "row = 2",
        "study.unknown_row",
    ),
    (
        'metric = "process_control_seconds"',
        'metric = "process_control"',
        'process_control"',
        "study.unknown_metric",
    ),
    ('metric = "process_control_seconds"', "", "[[paper]]", "study.figures_without_metric"),
    ('baseline = "iterative"', "", "process_control_seconds", "study.figures_without_baseline"),
    ('inconsistencies = "wrong.csv"', 'claims = "claims.toml"', "claims", "study.unreadable_file"),
    ('name = "small"', "", 'title = "A small study"-1', "study.missing_key"),
    ('question = "Which one?"', 'question = ""', 'question = ""', "study.invalid_value"),
    ("[measure]", "[mesure]", "[mesure]", "study.unknown_key"),
]
"""Mistakes in a study of contenders: the good part, its replacement, a part of the marked line, the code.

`#2` is the second such line, `-1` the line before."""

OF_SWEEPS = [
    ('name = "pool_size"', 'name = "main"', '"main"', "study.duplicate_name"),
    ('name = "pool_size"', 'name = "Pool"', '"Pool"', "study.invalid_value"),
    ('key = "settings.pool"', "", "values = [5", "study.value_without_key"),
    ('key = "settings.pool"', 'key = "setings.pool"', "setings", "study.unknown_key"),
    ('key = "settings.pool"', 'key = "load.process"', "load.process", "study.unknown_key"),
    ('key = "settings.pool"', 'key = "settings.ring"', "values = [5", "study.unknown_setting"),
    ('key = "settings.pool"', 'key = "load.processes"\n#', "values = [5", "study.invalid_value"),
    ("[5, 10, 30]", "[5, 10, 5]", "values = [5", "study.duplicate_point"),
    ("[5, 10, 30]", "[5, 99999]", "values = [5", "study.invalid_setting"),
    ("[5, 10, 30]", '[5, "x"]', "values = [5", "study.invalid_setting"),
    ("[5, 10, 30]", "[5, [[1]]]", "values = [5", "study.invalid_point"),
    ("[5, 10, 30]", "[]", "values = []", "study.invalid_value"),
    ("[5, 10, 30]", "[{ name = 5 }]", "values = [{", "study.invalid_value"),
    ("[5, 10, 30]", '[{ name = "a b", set = {} }]', "values = [{", "study.invalid_value"),
    (
        "[5, 10, 30]",
        '[{ name = "a", set = { "settings.ring" = 1 } }]',
        "values = [{",
        "study.unknown_setting",
    ),
    ("[5, 10, 30]", '[{ name = "a", sett = {} }]', "values = [{", "study.unknown_key"),
    ('["prefork", "control"]', '["preforc"]', "preforc", "study.unknown_contender"),
    ('["prefork", "control"]', '["prefork", "prefork"]', '"prefork"]', "study.duplicate_contender"),
    ('["prefork", "control"]', "[3]", "contenders = [3]", "study.invalid_value"),
    ('["prefork", "control"]', '[{ name = "x" }]', "contenders = [{", "study.no_design"),
    (
        '["prefork", "control"]',
        '[{ name = "x", desing = "prefork" }]',
        "contenders = [{",
        "study.unknown_key",
    ),
    (
        '["prefork", "control"]',
        '[{ name = "prefork", design = "prefork" }]',
        "contenders = [{",
        "study.duplicate_name",
    ),
    ('"load.settings.loops" = 20', '"load.settings.lops" = 20', "lops", "study.unknown_setting"),
    ('"load.settings.loops" = 20', '"load.settings.loops" = 0', 'loops" = 0', "study.invalid_setting"),
    ('"load.settings.loops" = 20', '"load.loops" = 20', "load.loops", "study.unknown_key"),
    ('"load.settings.loops" = 20', '"load.processes" = 65', "load.processes", "study.invalid_value"),
    ('"load.settings.loops" = 20', '"load.kind" = "opened"', "opened", "study.unknown_load"),
    ('"load.settings.loops" = 20', '"lab.placement" = "appart"', "appart", "study.value_not_allowed"),
    ('"load.settings.loops" = 20', '"primitive" = "sent"', "sent", "study.unknown_primitive"),
    ('"load.settings.loops" = 20', '"load.settings.loops" = 3000', "3000", "study.too_few_ports"),
    ('["voluntary_switches_per_connection"]', '["voluntary_switches"]', "metrics", "study.unknown_metric"),
    (
        '["voluntary_switches_per_connection"]',
        '["server.user_seconds"]',
        "metrics",
        "study.only_of_whole_lives",
    ),
    ('axis = "logarithmic"', 'axis = "log"', "axis", "study.value_not_allowed"),
    ('axis = "logarithmic"', 'compare = "all"', "compare", "study.value_not_allowed"),
    ('file = "paper.csv"', 'file = "papr.csv"', "papr", "file.unreadable"),
    ('point = "children"', 'point = "child"', "file =", "file.missing_column"),
    ('point = "children"', "", "[[sweeps.paper]]", "study.figures_without_point"),
    (
        'metric = "server_cpu_per_connection"\npoint',
        'metric = "server_cpu_per_conection"\npoint',
        "conection",
        "study.unknown_metric",
    ),
    (
        'metric = "server_cpu_per_connection"\npoint',
        'metric = "requests_per_second"\npoint',
        'metric = "requests_per_second"',
        "study.unknown_metric",
    ),
    (
        'columns = { prefork = "row2" }',
        'contender = "other"\nnames = { prefork = "8" }\nvalue = "row2"',
        "names",
        "study.unknown_source_name",
    ),
    (
        'columns = { prefork = "row2" }',
        'columns = { preforc = "row2" }',
        "preforc",
        "study.unknown_contender",
    ),
    ('columns = { prefork = "row2" }', 'columns = { prefork = "row3" }', "file =", "file.missing_column"),
    ('columns = { prefork = "row2" }', "", "[[sweeps.paper]]", "study.invalid_figures"),
    (QUICK, 'alpha_split = [1.0]\nparts = ["man"]', "parts", "study.unknown_part"),
    (QUICK, "alpha_split = [1.0]\npoints = { pool_size = [6] }", "points", "study.unknown_point"),
    (QUICK, "alpha_split = [1.0]\npoints = { pol_size = [5] }", "points", "study.unknown_sweep"),
    (QUICK, "alpha_split = [1.0]\npoints = { pool_size = [] }", "points", "study.no_points"),
    (QUICK, "alpha_split = [1.0]\nrepetitions = 2", "looks = [12]", "study.looks_and_repetitions"),
    ("looks = [12]", "", "[sizes.quick]", "study.no_looks"),
    ("looks = [12]", "looks = [8]", "looks = [8]", "study.look_too_early"),
    ("normalise_connections = 5000", 'counters = ["task"]', "counters", "study.unknown_counter"),
    ("normalise_connections = 5000", 'counters = ["listen_drops"]', "counters", "study.unknown_counter"),
]
"""Mistakes in a study with a sweep."""

OF_KEYS = [
    (BOTH_KEYS, 'key = ["settings.pool", "setings.pool"]', "key =", "study.unknown_key"),
    (BOTH_KEYS, 'key = ["settings.pool", "load.process"]', "key =", "study.unknown_key"),
    (BOTH_KEYS, 'key = ["settings.pool", "settings.pool"]', "key =", "study.duplicate_key"),
    (BOTH_KEYS, 'key = ["settings.pool", 3]', "key =", "study.invalid_value"),
    (BOTH_KEYS, "key = []", "key =", "study.invalid_value"),
    (BOTH_KEYS, "key = 3", "key =", "study.invalid_value"),
]
"""Mistakes in several keys of a sweep."""

OF_FIGURES = [
    ("server_cpu_per_connection =", "server_cpu_per_conection =", "conection", "study.unknown_metric"),
    ("server_cpu_per_connection =", "requests_per_second =", "requests", "study.unknown_metric"),
    ('= "cpu"', '= "cpus"', "file =", "file.missing_column"),
    ('= "cpu"', "= 3", "server_cpu", "study.invalid_value"),
    ('value = "switches"', 'vale = "switches"', "vale", "study.unknown_key"),
    ('"server.task_clock" =', "server.task_clock =", "server.task", "study.unknown_key"),
    ('note = "one run"', 'unit = "s"', 'unit = "s"', "study.invalid_figures"),
    ('note = "one run"', 'value = "cpu"', 'value = "cpu"', "study.invalid_figures"),
    ('note = "one run"', 'metric = "server_cpu_per_connection"', "metric = ", "study.invalid_figures"),
    ('note = "one run"', 'columns = { prefork = "cpu" }', "[[sweeps.paper]]", "study.invalid_figures"),
    ('contender = "way"', "", "[[sweeps.paper]]", "study.invalid_figures"),
    ('names = { prefork = "Pre" }', 'names = { prefork = "pre" }', "names", "study.unknown_source_name"),
    (FIGURES_OF_METRICS, "figures = {}", "figures", "study.invalid_value"),
    (FIGURES_OF_METRICS, 'value = "cpu"', "[[sweeps.paper]]", "study.figures_without_metric"),
]
"""Mistakes in the source's figures of several metrics."""


class Base(NamedTuple):
    """A study without mistakes, how it is loaded, and the mistakes that it may get."""

    text: str
    load: Callable[..., Any]
    mistakes: list[tuple[str, str, str, str]]


BASES = {
    "studies": Base(GOOD, loaded, OF_STUDIES),
    "sweeps": Base(STUDY, swept.loaded, OF_SWEEPS),
    "keys": Base(TWO_KEYS, swept.loaded, OF_KEYS),
    "figures": Base(SWEPT + LONG, swept.loaded, OF_FIGURES),
}
MISTAKES = [(name, *mistake) for name, base in BASES.items() for mistake in base.mistakes]


def with_mistake(name: str, old: str, new: str) -> str:
    text = BASES[name].text
    assert old in text
    changed = text.replace(old, new)
    # The largest number of processes is less than the largest pool.
    return changed.replace("[5, 10, 30]", "[5, 10, 100]") if 'load.processes"\n#' in new else changed


def problems_in(name: str, text: str, directory: Path) -> tuple[Problem, ...]:
    (directory / "cells.csv").write_text(CELLS)
    return below(directory, problems_of(BASES[name].load, directory, text))


@pytest.mark.parametrize(("name", "old", "new", "marked", "code"), MISTAKES)
def test_mistakes_are_refused_with_their_line(
    name: str, old: str, new: str, marked: str, code: str, tmp_path: Path
) -> None:
    text = with_mistake(name, old, new)
    part, _, shift = re.fullmatch(r"(.*?)((#2|-1)?)", marked).groups()  # type: ignore[union-attr]
    lines = [number for number, line in enumerate(text.splitlines(), 1) if part in line]
    expected = lines[1:2] if shift == "#2" else [lines[0] - 1] if shift == "-1" else lines
    problems = problems_in(name, text, tmp_path)
    assert all(problem.code for problem in problems)
    found = places(problems, code)
    assert {int(place.partition(":")[2]) for place in found} & {*expected}, (expected, found)


def test_golden_page_of_refusals(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    cases = [
        (f"{name}: {old!r} -> {new!r}", problems_in(name, with_mistake(name, old, new), tmp_path))
        for name, old, new, _, _ in MISTAKES
    ]
    golden("study/refusals.txt", page(cases))


@pytest.mark.parametrize(
    "line",
    [
        f"normalise_connections = {'9' * 401}",
        "equivalence = 1e-14",
        'equivalence = "0.00000000000001%"',
        "alpha = 1e-14",
    ],
)
def test_a_number_that_no_figure_can_be_computed_with_is_refused(line: str, tmp_path: Path) -> None:
    text = GOOD.replace("normalise_connections = 5000", line)
    (problem,) = refused(tmp_path, text)
    assert (problem.code, problem.where) == ("study.invalid_value", f"small.toml:{line_of(text, line)}")
    key, _, value = line.partition(" = ")
    override = f"measure.{key}={value.strip(chr(34))}"
    assert [each.code for each in refused(tmp_path, GOOD, override)] == ["study.invalid_value"]


OWN_CSV = """
[source_csv]
file = "results.csv"
sweeps = ["pool_size"]
[source_csv.columns]
server = { names = { prefork = "row 2" } }
"""


@pytest.mark.parametrize("name", OF_RUNS)
def test_the_sources_csv_file_is_none_of_the_run_itself(name: str, tmp_path: Path) -> None:
    assert swept.loaded(tmp_path, STUDY + OWN_CSV).source_csv is not None
    text = STUDY + OWN_CSV.replace("results.csv", name)
    (problem,) = swept.refused(tmp_path, text)
    where = f"swept.toml:{line_of(text, f'file = {inline(name)}')}"
    assert (problem.code, problem.where) == ("study.file_of_run", where)


def test_control_with_design_or_row_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace('control_of = "prefork"', 'control_of = "prefork"\ndesign = "prefork"\nrow = 2')
    codes = {problem.code for problem in refused(tmp_path, text)}
    assert codes >= {"study.design_of_control", "study.row_not_allowed"}


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    text = GOOD
    for old, new in [
        ('title = "A small study"', "title = 3"),
        ("processes = 2", "processes = true"),
        ("backlog = 64", "backlog = -1"),
        ('design = "prefork"', 'design = "prefrok"'),
        ("[0.4, 0.6]", "[0.4, 0.5]"),
        ('steal = "4%"', 'steel = "4%"'),
        ("server_cpus = [0]", "server_cpus = [64]"),
        ("pool = 7", "pool = 7, polo = 8"),
    ]:
        text = text.replace(old, new)
    problems = refused(tmp_path, text, "loop=1")
    numbers = [int(each.where.split(":")[1]) for each in problems if each.where.startswith("small.toml")]
    parts = [
        "title =",
        "backlog = -1",
        "processes",
        "server_cpus",
        "steel",
        "[0.4, 0.5]",
        'design = "prefrok"',
    ]
    assert numbers == sorted(numbers)
    assert set(numbers) == {line_of(text, part) for part in parts}
    assert places(problems, "set.unknown_key") == ["--set loop=1"]


def test_a_wrong_key_is_reported_once(tmp_path: Path) -> None:
    problems = refused(tmp_path, GOOD.replace('metric = "server_cpu_per_connection"', "metric = 3"))
    assert [each.code for each in problems] == ["study.invalid_value"]


def test_the_other_sizes_are_checked_too_but_not_against_this_machine(tmp_path: Path) -> None:
    text = GOOD.replace("alpha_split = [0.4, 0.6]", 'alpha_split = [0.4, 0.6]\nset = { "loops" = 1500 }')
    assert loaded(tmp_path, text).load.settings["loops"] == 50
    (ports,) = refused(tmp_path, text, size="full")
    assert ports.code == "study.too_few_ports" and "10000" in ports.message
    assert places(refused(tmp_path, text.replace("1500", "0")), "study.invalid_setting")


def test_an_unknown_size_is_refused(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, size="fulll")
    assert problem.code == "study.unknown_size"
    assert "'full'" in problem.hint and "quick, full" in problem.hint


def test_study_with_only_a_baseline_is_refused(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index('[[contenders]]\nname = "prefork"')]
    assert places(refused(tmp_path, text), "study.nothing_to_compare")


JUNK: list[Any] = [0, -1, 1.5, True, "", "x", [], [1], [[]], {}, {"x": 1}, [{"name": "a"}]]


@pytest.mark.parametrize("junk", JUNK, ids=json.dumps)
@pytest.mark.parametrize("name", ["studies", pytest.param("sweeps", marks=pytest.mark.thorough)])
def test_junk_in_any_place_is_a_mistake_of_the_user(name: str, junk: Any, tmp_path: Path) -> None:
    """With any value at any key, a file is a study or is refused at a line; nothing else is raised."""
    good, load, _ = BASES[name]
    for number, line in enumerate(good.splitlines()):
        if " = " not in line:
            continue
        lines = good.splitlines()
        lines[number] = f"{line.split(' = ')[0]} = {inline(junk)}"
        try:
            load(tmp_path, "\n".join(lines))
        except UserError as error:
            assert any(".toml:" in each.where for each in error.problems)
