"""Several keys of a sweep that have the same value at each point: one axis, with each key checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.refusals import places
from made.summaries.swept import BOTH_KEYS, ONE_KEY, STUDY, TWO_KEYS, loaded, refused
from made.summaries.trials import made_trial

from thunderherd.claims.claim_file import load_claims
from thunderherd.judge.summary.summarise import summarise
from thunderherd.study.file.contenders import x_label
from thunderherd.study.file.tables import SweepTable

TABLES = TWO_KEYS.replace(BOTH_KEYS + "\n", "").replace(
    "[5, 10, 30]",
    str(
        [
            f'{{ name = "{each}", set = {{ "settings.pool" = {each}, "load.settings.loops" = {each} }} }}'
            for each in (5, 10, 30)
        ]
    ).replace("'", ""),
)


def test_each_value_applies_to_all_keys(tmp_path: Path) -> None:
    study = loaded(tmp_path, TWO_KEYS)
    (sweep,) = study.sweeps
    assert sweep.key == ("settings.pool", "load.settings.loops")
    assert [(each.name, each.number) for each in sweep.points] == [("5", 5), ("10", 10), ("30", 30)]
    assert {
        each.name: (each.settings["pool"], each.load.settings["loops"])
        for each in study.contenders
        if each.sweep
    } == {
        f"{base}@pool_size={value}": (value, value)
        for base in ("prefork", "control")
        for value in (5, 10, 30)
    }


def test_several_keys_equal_tables_of_the_same_values(tmp_path: Path) -> None:
    short, long = (loaded(tmp_path, text).model_dump(exclude={"digest"}) for text in (TWO_KEYS, TABLES))
    assert [sweep.pop("key") for sweep in (*short["sweeps"], *long["sweeps"])] == [
        ("settings.pool", "load.settings.loops"),
        None,
    ]
    assert short == long


def test_summary_names_the_key_of_a_sweep_with_one_key(tmp_path: Path) -> None:
    """Several keys give none, like points that are tables."""
    for text, key in ((STUDY, "settings.pool"), (TWO_KEYS, None), (TABLES, None)):
        study = loaded(tmp_path, text)
        trials = [made_trial(study, each.name, block) for block in (1, 2) for each in study.contenders]
        (sweep,) = summarise(study, trials, {}, seed=1, command=[], started="", notes=[]).sweeps
        assert (sweep.key, [point.name for point in sweep.points]) == (key, ["5", "10", "30"])


def test_a_list_of_one_key_is_that_key(tmp_path: Path) -> None:
    study = loaded(tmp_path, STUDY.replace(ONE_KEY, 'key = ["settings.pool"]'))
    assert study.contenders == loaded(tmp_path).contenders


@pytest.mark.parametrize(
    ("key", "label"),
    [
        (["settings.backlog", "load.processes"], "backlog and processes"),
        (["settings.field_size", "load.settings.field_size"], "field size"),
        ("settings.pool", "pool"),
        (None, "s"),
    ],
)
def test_the_axis_is_called_by_its_keys(key: str | list[str] | None, label: str) -> None:
    assert x_label(SweepTable(name="s", title="t", key=key, values=[1], contenders=["a"])) == label


def test_overridden_values_apply_to_all_keys(tmp_path: Path) -> None:
    study = loaded(tmp_path, TWO_KEYS, "sweeps.pool_size.values=[7]")
    assert {
        (each.settings["pool"], each.load.settings["loops"]) for each in study.contenders if each.sweep
    } == {(7, 7)}


CLAIMS = """
study = "small"
source = "the tests"
[[claims]]
id = "H1"
statement = "More is more"
paper_figure = "none"
paper_data_supports = "yes"
metric = "server_cpu_per_connection"
tests = [{ label = "more than 1 s", weights = { "prefork@pool_size=30" = 1 }, constant = -1.0 }]
[claims.conditions]
load = { loops = 3 }
"""


def test_swept_setting_is_no_condition_of_its_points(tmp_path: Path) -> None:
    """The same holds for a sweep of one point."""
    (tmp_path / "claims.toml").write_text(CLAIMS.replace('"small"', f'"{loaded(tmp_path).name}"'))
    asks = 'claims = "claims.toml"\n'
    one = "sweeps.pool_size.values=[30]"
    (claim,) = load_claims(loaded(tmp_path, asks + TWO_KEYS, one))
    assert not claim.unmet
    (claim,) = load_claims(loaded(tmp_path, asks + STUDY, one))
    assert claim.unmet


def test_value_must_be_valid_for_each_key(tmp_path: Path) -> None:
    problems = refused(tmp_path, TWO_KEYS.replace("[5, 10, 30]", "[5, 0]"))
    assert [each.message.split()[:3] for each in problems] == [["loops", "=", "0"], ["pool", "=", "0"]]
    assert [each.code for each in problems] == ["study.invalid_setting"] * 2
    assert len({each.where for each in problems}) == 1
    (problem,) = refused(tmp_path, TWO_KEYS.replace("[5, 10, 30]", "[5, [[1]]]"))
    assert problem.code == "study.invalid_point"
    assert "settings.pool and load.settings.loops" in problem.message
    ring = TWO_KEYS.replace('"load.settings.loops"]', '"settings.ring"]')
    assert places(refused(tmp_path, ring), "study.unknown_setting")
