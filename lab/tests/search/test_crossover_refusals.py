"""Invalid sweeps with a crossover are refused before anything runs, with the line."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.refusals import refused
from made.summaries.crossed import asked, study_of
from made.summaries.swept import CATALOGUE

from thunderherd.search.crossover_study import coarse_study
from thunderherd.toml.write import toml_text

COARSE_POINT = '[[sweeps.crossover.coarse]]\nsize = 1\nstanding = "a"\nratio = 1.0\nfitted = 1.0\n'


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ('b = "thread_per_client"\nunit', 'b = "thread_per_clint"\nunit', '"thread_per_clint"'),
        ('b = "thread_per_client"\nunit', 'b = "prefork"\nunit', "with itself"),
        ('axis = "logarithmic"', 'axis = "logarithmic"\ncompare = "none"', 'compare = "none"'),
        ("values = [64, ", "values = [0, ", "(0)"),
        ('unit = "bytes"', 'unit = "bytes"\nstage = "third"', "coarse, dense"),
        (
            'unit = "bytes"\n',
            f'unit = "bytes"\n{COARSE_POINT}',
            'stage = "dense"',
        ),
        ('unit = "bytes"', 'unit = "bytes"\ncoarse_blocks = 0', "coarse_blocks = 0"),
    ],
)
def test_invalid_crossover_sweep_is_refused(tmp_path: Path, old: str, new: str, fact: str) -> None:
    text = toml_text(coarse_study(asked(), CATALOGUE))
    assert old in text
    problems = refused(study_of, text.replace(old, new), tmp_path / "coarse.toml")
    assert any(fact in str(each) for each in problems), problems
    assert all(str(each).startswith(f"{tmp_path}/coarse.toml:") for each in problems)


def test_one_point_brackets_nothing(tmp_path: Path) -> None:
    tables = coarse_study(asked(points=2), CATALOGUE)
    tables["sweeps"][0]["values"] = [64]
    problems = refused(study_of, tables, tmp_path / "coarse.toml")
    assert any("one point" in str(each) for each in problems), problems
