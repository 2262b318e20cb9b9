"""The source's own CSV: its columns, a line for each configuration, empty fields if not measured."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from made.refusals import refused
from made.summaries import sweeps as synthetic_sweeps
from made.summaries import swept

from thunderherd.judge.summary.source_csv import text_of
from thunderherd.study.file.source_tables import SourceCsvTable

TABLE = """
[source_csv]
file = "original.csv"
sweeps = ["pool_size"]
[source_csv.columns]
server = { names = { prefork = "row 2" } }
children = { key = "settings.pool" }
cpu_us = { metric = "server_cpu_per_connection", unit = "us" }
"""


def of_synthetic(**columns: Any) -> list[list[str]] | None:
    """Return the lines that a synthetic run gives."""
    made = {"server": {"names": {"prefork": "row 2"}}, "children": {"key": "settings.pool"}, **columns}
    table = SourceCsvTable.model_validate({"file": "o.csv", "sweeps": ["pool_size"], "columns": made})
    study = synthetic_sweeps.study().model_copy(update={"source_csv": table})
    text = text_of(study, synthetic_sweeps.summary())
    return None if text is None else list(csv.reader(text.splitlines()))


def test_source_csv_has_a_row_per_configuration_in_the_units_of_the_source() -> None:
    lines = of_synthetic(cpu_us={"metric": "server_cpu_per_connection", "unit": "us"})
    assert lines is not None
    own = {each.name: each for each in synthetic_sweeps.summary().contenders}
    expected = [name for name in own if name.startswith("prefork@pool_size=")]
    assert lines[0] == ["server", "children", "cpu_us"]
    assert len(lines) == 1 + len(expected)
    for line, name in zip(lines[1:], expected, strict=True):
        assert line[0] == "row 2"
        assert float(line[2]) == pytest.approx(own[name].metrics["server_cpu_per_connection"].value * 1e6)


def test_unmeasured_cell_is_empty_and_its_row_is_kept() -> None:
    lines = of_synthetic(cycles={"metric": "client.cpu_cycles"})
    assert lines is not None
    assert {line[2] for line in lines[1:]} == {""}


def test_study_without_a_source_csv_table_writes_none() -> None:
    assert text_of(synthetic_sweeps.study(), synthetic_sweeps.summary()) is None


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ('sweeps = ["pool_size"]', 'sweeps = ["pool_sizes"]', ('"pool_sizes"', "'pool_size'")),
        ('prefork = "row 2"', 'prefrok = "row 2"', ('"prefrok"', "'prefork'")),
        ('key = "settings.pool"', 'keys = "settings.pool"', ("keys",)),
        ('key = "settings.pool"', 'key = "setting.pool"', ('"setting.pool"',)),
        ('metric = "server_cpu_per_connection"', 'metric = "server_cpu"', ('"server_cpu"',)),
        ('unit = "us"', 'unit = "hours"', ('"hours"',)),
        (', unit = "us" }', ', key = "settings.pool" }', ("names", "key", "metric")),
        ('file = "original.csv"', 'file = "../original.csv"', ("file", "../original.csv")),
    ],
)
def test_mistakes_are_refused_at_their_line(
    old: str, new: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    text = swept.STUDY + TABLE
    assert swept.loaded(tmp_path, text).source_csv is not None
    assert old in TABLE
    found = refused(swept.loaded, tmp_path, swept.STUDY + TABLE.replace(old, new))
    line = 1 + text[: len(swept.STUDY) + TABLE.index(old)].count("\n")
    assert any(
        f"swept.toml:{line}" == Path(each.where).name and all(part in str(each) for part in parts)
        for each in found
    ), found
