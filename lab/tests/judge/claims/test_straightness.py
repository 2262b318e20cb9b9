"""How straight a line is, for slopes and for figures of claims; notes that belong to one figure only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made.questions import check_mistake
from made.refusals import refused
from made.summaries.swept import PAPER, STUDY, loaded

from thunderherd.judge.claims.claims import judge
from thunderherd.judge.claims.contrasts import r_squared
from thunderherd.judge.claims.slopes import slopes
from thunderherd.show.sentences.source_figures import own_notes
from thunderherd.study.loading import Study

COST = "server_cpu_per_connection"
POINTS = {"prefork@pool_size=5": 5.0, "prefork@pool_size=10": 10.0, "prefork@pool_size=30": 30.0}

ASKING = STUDY.replace('x_label = "children"', 'x_label = "children"\nslope = "child"').replace(
    'question = "Does it run?"', 'question = "Does it run?"\nclaims = "claims.toml"'
)
CLAIMS = """
study = "small"
source = "small"
[[claims]]
id = "H1"
statement = "Cost is linear in the number of children"
paper_figure = "none"
paper_data_supports = "yes"
metric = "server_cpu_per_connection"
tests = [{ label = "it grows", slope = { base = "prefork", sweep = "pool_size" } }]
figures = [{ label = "straight", r_squared = { base = "prefork", sweep = "pool_size" } }]
"""


def asking(directory: Path, claims: str = CLAIMS, study: str = ASKING) -> Study:
    (directory / "claims.toml").write_text(claims)
    return loaded(directory, study)


def columns(heights: tuple[float, float, float], blocks: int = 12) -> dict[str, dict[str, list[float]]]:
    return {
        COST: {
            name: [height * (1 + block / 100) for block in range(blocks)]
            for name, height in zip(POINTS, heights, strict=True)
        }
    }


@pytest.mark.parametrize("heights", [(1.0, 2.0, 6.0), (5.0, 10.0, 30.0), (3.0, 1.0, 2.0)])
def test_r_squared_is_the_square_of_the_correlation(heights: tuple[float, float, float]) -> None:
    found = r_squared(POINTS, COST, columns(heights))
    expected = np.corrcoef(list(POINTS.values()), heights)[0, 1] ** 2
    assert found == pytest.approx([expected] * 12)


def test_r_squared_of_constant_values_is_one() -> None:
    assert r_squared(POINTS, COST, columns((2.0, 2.0, 2.0))).tolist() == [1.0] * 12


def test_r_squared_is_part_of_the_slope_and_of_a_claim(tmp_path: Path) -> None:
    study = asking(tmp_path)
    straight, bent = columns((5.0, 10.0, 30.0)), columns((5.0, 29.0, 30.0))
    for values, expected in ((straight, 1.0), (bent, float(r_squared(POINTS, COST, bent)[0]))):
        line = slopes(study, study.sweeps[0], values, {})[0]
        assert line.r_squared is not None and line.r_squared.value == pytest.approx(expected)
        (claim,) = judge(study, values)
        shown = [each for each in claim.contrasts if each["label"] == "straight"]
        assert [each["value"] for each in shown] == pytest.approx([expected])
        assert shown[0]["points"] == POINTS
        assert claim.our_figure.startswith(f"straight: {expected:.2f}"[:14])
        assert claim.verdict == "supported"


def test_sweep_may_limit_slopes_to_some_metrics(tmp_path: Path) -> None:
    some = ASKING.replace('slope = "child"', f'slope = "child"\nslope_metrics = ["{COST}"]')
    study = asking(tmp_path, study=some)
    assert {each.metric for each in slopes(study, study.sweeps[0], columns((1, 2, 3)), {})} == {COST}
    for old, new in ((f'["{COST}"]', '["requests"]'), ('slope = "child"\n', "")):
        wrong = some.replace(old, new)
        (problem,) = refused(asking, tmp_path, study=wrong)
        line = 1 + wrong[: wrong.index("slope_metrics")].count("\n")
        assert Path(problem.where).name.endswith(f".toml:{line}")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ('r_squared = { base = "prefrok", sweep = "pool_size" }', "claims.unknown_contender"),
        ('r_squared = { base = "prefork", sweep = "pools" }', "claims.unknown_sweep"),
        (
            'weights = { prefork = 1 }, r_squared = { base = "prefork", sweep = "pool_size" }',
            "claims.r_squared_with_others",
        ),
    ],
)
def test_mistakes_in_r_squared_are_refused(wrong: str, code: str, tmp_path: Path) -> None:
    right = 'r_squared = { base = "prefork", sweep = "pool_size" }'
    check_mistake(asking(tmp_path), CLAIMS, (right, wrong), 11, code, "")


def test_note_about_one_figure_is_shown_with_that_figure_only(tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text(
        f"document,as_printed,finding,concerns\nd,3.5,misprint,prefork@pool_size=30 {COST}\n"
    )
    study = loaded(tmp_path, STUDY.replace("[measure]", 'inconsistencies = "wrong.csv"\n[measure]', 1))
    assert PAPER.count("3.5") == 1
    notes = {each.point: each.note for each in study.paper}
    assert notes == {"5": "its own machine", "30": "its own machine; 3.5: misprint"}
    assert own_notes(study.paper)["prefork", "30"].endswith("misprint")
