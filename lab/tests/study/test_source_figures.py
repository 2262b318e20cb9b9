"""The source's figures: of the main table and sweeps, of several systems, of several metrics in a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.refusals import places
from made.summaries.figures_of_metrics import CELLS, LONG, SWEPT
from made.summaries.swept import STUDY, loaded, refused
from made.written_study import GOOD, machine
from made.written_study import loaded as loaded_main
from made.written_study import refused as refused_main

__all__ = ["machine"]

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

APART = "".join(
    LONG[: LONG.index("note =")] + f'metric = "{metric}"\nvalue = "{value}"\n{more}\n'
    for metric, value, more in (
        ("server_cpu_per_connection", "cpu", 'note = "one run"'),
        ("voluntary_switches_per_connection", "switches", 'note = "one run"\nunit = "a thousand"'),
        ("server.task_clock", "all", 'note = "computed"'),
    )
)


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text(CELLS)
    (tmp_path / "more.csv").write_text(MORE)
    (tmp_path / "workers.csv").write_text("worker,b,s\n0,10,1\n1,20,2\n")


def test_the_source_has_figures_of_any_metric(tmp_path: Path) -> None:
    paper = loaded_main(tmp_path, GOOD + PAPERS).paper
    (rate,) = [each for each in paper if each.metric == "requests_per_second"]
    assert (rate.base, rate.sweep, rate.point, rate.value, rate.runs) == ("prefork", None, None, 8, [7, 8, 9])
    assert (rate.unit, rate.note) == ("Mreq/h", "three runs")
    workers = [(each.base, each.system, each.runs) for each in paper if each.metric == "worker_connections"]
    assert workers == [("prefork", "BSD/OS", [10, 20]), ("prefork", "Solaris", [1, 2])]
    assert [each.note for each in paper if each.metric == "worker_connections"] == [None, None]


def test_an_inconsistency_is_a_note_of_its_figures(tmp_path: Path) -> None:
    wrong = "as_printed,finding,concerns\n7,was 6,claim H1; fig 3\n"
    (tmp_path / "listed.csv").write_text(wrong)
    text = GOOD.replace('"wrong.csv"', '"listed.csv"') + PAPERS
    notes = {each.metric: each.note for each in loaded_main(tmp_path, text).paper}
    assert notes["requests_per_second"] == "three runs; 7: was 6"
    assert notes["worker_connections"] is notes["process_control_seconds"] is None


@pytest.mark.parametrize(
    ("old", "new", "marked", "code"),
    [
        ("Pre,8", "Pre,eight", "more.csv", "file.not_a_number"),
        ("Pre,8", "Pre,nan", "more.csv", "file.not_a_number"),
        ("Pre,8", "Pre,8,8", "more.csv", "file.uneven_row"),
        ("7\nPre,8\nOne,\nPre,9", "\nPre,\nOne,\nPre,", "more.csv", "study.no_figures"),
        (
            '"worker_connections"',
            '"requests_per_second"',
            'requests_per_second"#2',
            "study.duplicate_figures",
        ),
    ],
)
def test_mistakes_in_files_are_reported_at_the_line_that_names_the_file(
    old: str, new: str, marked: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / "more.csv").write_text(MORE.replace(old, new))
    text = GOOD + PAPERS.replace(old, new)
    part, _, second = marked.partition("#")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if part in line]
    assert f"small.toml:{lines[1 if second else 0]}" in places(refused_main(tmp_path, text), code)


def test_a_contender_without_a_row_has_its_note_and_no_figure(tmp_path: Path) -> None:
    study = loaded_main(tmp_path, GOOD.replace("row = 2", 'row = "none"\nrow_note = "absent"'))
    prefork = study.contender("prefork")
    assert prefork.row is None
    assert [(each.value, each.runs, each.note) for each in study.paper if each.base == "prefork"] == [
        (None, [], "absent")
    ]


def test_figures_that_do_not_fit_another_metric_of_the_run_are_no_mistake(tmp_path: Path) -> None:
    assert loaded_main(tmp_path, GOOD, "measure.metric=requests_per_second").paper


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


def test_a_missing_column_is_reported_once(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, SWEPT + LONG.replace('value = "switches", ', ""))
    assert problem.code == "study.missing_key"
    assert "figures.voluntary_switches_per_connection.value" in problem.message


def test_a_metric_has_one_table(tmp_path: Path) -> None:
    again = APART[: APART.index("[[sweeps.paper]]", 1)]
    for text in (LONG + again, again + LONG):
        assert places(refused(tmp_path, SWEPT + text), "study.duplicate_figures")


def test_the_source_may_have_several_systems(tmp_path: Path) -> None:
    wide = STUDY.replace(
        'columns = { prefork = "row2" }', 'columns = { prefork = { "BSD/OS" = "row2", "Solaris" = "other" } }'
    )
    study = loaded(tmp_path, wide)
    found = [(each.system, each.point, each.value) for each in study.paper]
    assert found == [
        ("BSD/OS", "5", 1.5), ("BSD/OS", "30", 3.5), ("Solaris", "30", 9)
    ]  # fmt: skip


def test_the_source_may_have_figures_of_every_metric_that_a_sweep_shows(tmp_path: Path) -> None:
    second = """
[[sweeps.paper]]
file = "paper.csv"
metric = "voluntary_switches_per_connection"
unit = "a thousand"
point = "children"
columns = { control = "other" }
"""
    paper = loaded(tmp_path, STUDY + second).paper
    found = [(each.metric, each.sweep, each.base, each.point, each.value, each.unit) for each in paper]
    assert found == [
        ("server_cpu_per_connection", "pool_size", "prefork", "5", 1.5, ""),
        ("server_cpu_per_connection", "pool_size", "prefork", "30", 3.5, ""),
        ("voluntary_switches_per_connection", "pool_size", "control", "30", 9, "a thousand"),
    ]
    twice = second.replace("voluntary_switches_per_connection", "server_cpu_per_connection")
    assert places(refused(tmp_path, STUDY + twice), "study.duplicate_figures")


def test_a_run_of_another_metric_keeps_the_sources_figures(tmp_path: Path) -> None:
    study = loaded(tmp_path, STUDY, "sweeps.pool_size.metric=requests_per_second")
    assert study.sweeps[0].metric == "requests_per_second"
    assert {each.metric for each in study.paper} == {"server_cpu_per_connection"}


def test_files_of_other_programs_are_read_alike(tmp_path: Path) -> None:
    """With a byte order mark, other line ends, empty last lines, fields in quotes, and 7.0 for 7."""
    path = tmp_path / "more.csv"
    before = loaded_main(tmp_path, GOOD + PAPERS).paper
    quoted = "".join(",".join(f'"{field}"' for field in line.split(",")) + "\n" for line in MORE.splitlines())
    for changed in (
        "\ufeff" + MORE,
        "\ufeff" + quoted,
        MORE.replace("\n", "\r\n"),
        MORE + "\n\n",
        MORE.rstrip(),
        quoted,
        MORE.replace("7", "7.0"),
    ):
        path.write_bytes(changed.encode())
        assert loaded_main(tmp_path, GOOD + PAPERS).paper == before


def test_overrides_may_write_whole_numbers_with_a_fraction(tmp_path: Path) -> None:
    plain, fraction = (loaded_main(tmp_path, GOOD, f"load.processes={text}") for text in ("3", "3.0"))
    assert plain.digest == fraction.digest
