"""What a sweep with a crossover cannot ask: refused before anything runs, with the line."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.summaries.crossed import asked, study_of
from made.summaries.swept import CATALOGUE

from thunderherd.errors import UserError
from thunderherd.search.crossover_study import coarse_study


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'b = "thread_per_client"\nunit',
            'b = "thread_per_clint"\nunit',
            "no such contender of sweep coarse",
        ),
        ('b = "thread_per_client"\nunit', 'b = "prefork"\nunit', "nothing changes places with itself"),
        ('axis = "logarithmic"', 'axis = "logarithmic"\ncompare = "none"', 'leave compare = "none" out'),
        (
            "values = [64, ",
            "values = [0, ",
            "the sweep has points that are no numbers above 0 (0), so no crossover",
        ),
        ('unit = "bytes"', 'unit = "bytes"\nstage = "third"', "allowed: coarse, dense"),
        (
            'unit = "bytes"\n',
            'unit = "bytes"\n[[sweeps.crossover.coarse]]\nsize = 1\nstanding = "a"\nratio = 1.0\n'
            "fitted = 1.0\n",
            'belongs to a second: say stage = "dense"',
        ),
        ('unit = "bytes"', 'unit = "bytes"\ncoarse_blocks = 0', "it must be at least 1"),
    ],
)
def test_a_sweep_that_cannot_ask(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = coarse_study(asked(), CATALOGUE)
    assert old in text
    with pytest.raises(UserError) as caught:
        study_of(text.replace(old, new), tmp_path / "coarse.toml")
    assert said in str(caught.value)
    assert "coarse.toml:" in str(caught.value)


def test_one_point_brackets_nothing(tmp_path: Path) -> None:
    text = coarse_study(asked(points=2), CATALOGUE).replace("values = [64, 4194304]", "values = [64]")
    with pytest.raises(UserError, match="one point brackets nothing"):
        study_of(text, tmp_path / "coarse.toml")
