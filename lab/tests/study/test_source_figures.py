"""The source's figures of several metrics that stand in one file, said once: they are those of a table for
each."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.summaries.swept import STUDY, loaded, refused
from made.written_study import GOOD
from made.written_study import loaded as loaded_main

LONG = """[[sweeps.paper]]
file = "cells.csv"
point = "pool"
contender = "way"
names = { prefork = "Pre" }
where = { host = "a" }
note = "one run"
[sweeps.paper.figures]
server_cpu_per_connection = "cpu"
voluntary_switches_per_connection = { value = "switches", unit = "a thousand" }
"server.task_clock" = { value = "all", note = "computed" }
"""
CELLS = "host,way,pool,cpu,switches,all\na,Pre,5,1.5,7,70\na,Pre,30,2.5,,80\na,Two,5,1,1,1\nb,Pre,5,9,9,9\n"
SWEPT = (
    STUDY[: STUDY.index("[[sweeps.paper]]")]
    .replace(
        '["voluntary_switches_per_connection"]',
        '["voluntary_switches_per_connection", "server.task_clock"]',
    )
    .replace(
        "normalise_connections = 5000",
        'normalise_connections = 5000\ncounters = ["task_clock"]',
    )
)
APART = "".join(
    LONG[: LONG.index("note =")] + f'metric = "{metric}"\nvalue = "{value}"\n{more}\n'
    for metric, value, more in (
        ("server_cpu_per_connection", "cpu", 'note = "one run"'),
        ("voluntary_switches_per_connection", "switches", 'note = "one run"\nunit = "a thousand"'),
        ("server.task_clock", "all", 'note = "computed"'),
    )
)


@pytest.fixture(autouse=True)
def cells(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text(CELLS)


def test_figures_of_one_file_are_those_of_a_table_for_each(tmp_path: Path) -> None:
    paper = loaded(tmp_path, SWEPT + LONG).paper
    assert [(each.metric, each.point, each.value, each.unit, each.note) for each in paper] == [
        ("server_cpu_per_connection", "5", 1.5, "", "one run"),
        ("server_cpu_per_connection", "30", 2.5, "", "one run"),
        ("voluntary_switches_per_connection", "5", 7, "a thousand", "one run"),
        ("server.task_clock", "5", 70, "", "computed"),
        ("server.task_clock", "30", 80, "", "computed"),
    ]
    assert paper == loaded(tmp_path, SWEPT + APART).paper


def test_a_note_may_be_taken_back(tmp_path: Path) -> None:
    text = SWEPT + LONG.replace('note = "computed"', 'note = ""')
    assert {each.note for each in loaded(tmp_path, text).paper} == {"one run", None}


def test_the_main_table_may_have_them_by_its_rows(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text("row,rate,cpu\n0,100,1\n2,300,2\n")
    table = """
[[paper]]
file = "cells.csv"
contender = "row"
[paper.figures]
requests_per_second = "rate"
server_cpu_per_connection = { value = "cpu", unit = "ms" }
"""
    paper = loaded_main(tmp_path, GOOD + table).paper
    assert [(each.metric, each.base, each.value, each.unit) for each in paper][-4:] == [
        ("requests_per_second", "iterative", 100, ""),
        ("requests_per_second", "prefork", 300, ""),
        ("server_cpu_per_connection", "iterative", 1, "ms"),
        ("server_cpu_per_connection", "prefork", 2, "ms"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "marked", "said"),
    [
        (
            "server_cpu_per_connection =",
            "server_cpu_per_conection =",
            "conection",
            "did you mean 'server_cpu_per",
        ),
        (
            "server_cpu_per_connection =",
            "requests_per_second =",
            "requests",
            "no such metric that sweep pool_size",
        ),
        ('= "cpu"', '= "cpus"', "file =", 'no column "cpus"'),
        (
            '= "cpu"',
            "= 3",
            "server_cpu",
            "figures.server_cpu_per_connection = 3: it must be a text in quotes",
        ),
        ('value = "switches"', 'vale = "switches"', "vale", "did you mean 'value'?"),
        ('"server.task_clock" =', "server.task_clock =", "server.task", "no such key"),
        ('note = "one run"', 'unit = "s"', 'unit = "s"', "paper: unit and figures"),
        ('note = "one run"', 'value = "cpu"', 'value = "cpu"', "paper: value and figures"),
        (
            'note = "one run"',
            'metric = "server_cpu_per_connection"',
            "metric = ",
            "paper: metric and figures",
        ),
        (
            'note = "one run"',
            'columns = { prefork = "cpu" }',
            "[[sweeps.paper]]",
            "or contender, names, figures",
        ),
        ('contender = "way"', "", "[[sweeps.paper]]", "or contender, names, figures"),
        ('names = { prefork = "Pre" }', 'names = { prefork = "pre" }', "names", "no such way in cells.csv"),
        (LONG[LONG.index("[sweeps.paper.figures]") :], "figures = {}", "figures", "must not be empty"),
        (
            LONG[LONG.index("[sweeps.paper.figures]") :],
            'value = "cpu"',
            "[[sweeps.paper]]",
            "give metric; or",
        ),
    ],
)
def test_mistakes_in_figures_have_their_line(
    tmp_path: Path, old: str, new: str, marked: str, said: str
) -> None:
    assert old in LONG
    before = SWEPT.count("\n")
    table = LONG.replace(old, new)
    lines = [before + number for number, line in enumerate(table.splitlines(), 1) if marked in line]
    told = refused(tmp_path, SWEPT + table)
    assert any(line.startswith(f"swept.toml:{at}: ") and said in line for line in told for at in lines), told


def test_what_was_wrong_by_itself_is_not_told_twice(tmp_path: Path) -> None:
    """What is filled in for a missing column is none of the file's."""
    (only,) = refused(tmp_path, SWEPT + LONG.replace('value = "switches", ', ""))
    assert "figures.voluntary_switches_per_connection.value' is missing: the column with the figures" in only


def test_a_metric_has_one_table(tmp_path: Path) -> None:
    again = APART[: APART.index("[[sweeps.paper]]", 1)]
    for text in (LONG + again, again + LONG):
        assert "server_cpu_per_connection has a table already" in " ".join(refused(tmp_path, SWEPT + text))
