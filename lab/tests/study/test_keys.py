"""Several keys of a sweep that take each value together: they are one axis, and each is checked as one alone
is."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.summaries.swept import STUDY, loaded, refused
from made.summaries.trials import made_trial

from thunderherd.judge.claims.claim_file import load_claims
from thunderherd.judge.summary.summarise import summarise
from thunderherd.study.file.contenders import x_label
from thunderherd.study.file.tables import SweepTable

ONE = 'key = "settings.pool"'
BOTH = 'key = ["settings.pool", "load.settings.loops"]'
TWO = STUDY.replace(ONE, BOTH).replace('set = { "load.settings.loops" = 20 }\n', "")
TABLES = TWO.replace(BOTH + "\n", "").replace(
    "[5, 10, 30]",
    str(
        [
            f'{{ name = "{each}", set = {{ "settings.pool" = {each}, "load.settings.loops" = {each} }} }}'
            for each in (5, 10, 30)
        ]
    ).replace("'", ""),
)


def test_each_key_has_each_value(tmp_path: Path) -> None:
    study = loaded(tmp_path, TWO)
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


def test_they_are_what_tables_of_the_same_values_are(tmp_path: Path) -> None:
    short, long = (loaded(tmp_path, text).model_dump(exclude={"digest"}) for text in (TWO, TABLES))
    assert [sweep.pop("key") for sweep in (*short["sweeps"], *long["sweeps"])] == [
        ("settings.pool", "load.settings.loops"),
        None,
    ]
    assert short == long


def test_a_summary_names_a_key_that_is_one(tmp_path: Path) -> None:
    """Of several it has none, as where the points are tables."""
    for text, key in ((STUDY, "settings.pool"), (TWO, None), (TABLES, None)):
        study = loaded(tmp_path, text)
        trials = [made_trial(study, each.name, block) for block in (1, 2) for each in study.contenders]
        (sweep,) = summarise(study, trials, {}, seed=1, command=[], started="", notes=[]).sweeps
        assert (sweep.key, [point.name for point in sweep.points]) == (key, ["5", "10", "30"])


def test_a_list_of_one_key_is_that_key(tmp_path: Path) -> None:
    study = loaded(tmp_path, STUDY.replace(ONE, 'key = ["settings.pool"]'))
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


def test_another_list_of_values_goes_for_all_of_them(tmp_path: Path) -> None:
    study = loaded(tmp_path, TWO, "sweeps.pool_size.values=[7]")
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


def test_what_a_sweep_varies_is_no_condition_of_its_points(tmp_path: Path) -> None:
    """Also where it has one point only, which does not show what varies."""
    (tmp_path / "claims.toml").write_text(CLAIMS.replace('"small"', f'"{loaded(tmp_path).name}"'))
    asks = 'claims = "claims.toml"\n'
    one = "sweeps.pool_size.values=[30]"
    (claim,) = load_claims(loaded(tmp_path, asks + TWO, one))
    assert not claim.unmet
    (claim,) = load_claims(loaded(tmp_path, asks + STUDY, one))
    assert claim.unmet


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('["settings.pool", "setings.pool"]', 'no such key of contenders "setings.pool"'),
        ('["settings.pool", "load.process"]', "did you mean 'load.processes'?"),
        ('["settings.pool", "settings.pool"]', 'key: "settings.pool" is named twice'),
        ('["settings.pool", 3]', "sweeps.pool_size.key[1] = 3: it must be a text in quotes"),
        ("[]", "sweeps.pool_size.key = []: it must not be empty"),
        ("3", "sweeps.pool_size.key = 3: it must be a text in quotes"),
    ],
)
def test_mistakes_in_keys_have_their_line(tmp_path: Path, keys: str, said: str) -> None:
    text = TWO.replace(BOTH, f"key = {keys}")
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith("key ="))
    told = refused(tmp_path, text)
    assert any(each.startswith(f"swept.toml:{line}: ") and said in each for each in told), told


def test_a_value_must_suit_each_of_them(tmp_path: Path) -> None:
    told = refused(tmp_path, TWO.replace("[5, 10, 30]", "[5, 0]"))
    assert [line.split("; ")[0].split(": ")[1] for line in told] == ["loops = 0", "pool = 0"]
    assert len({line.split(": ")[0] for line in told}) == 1
    assert "values: [[1]] is no value of settings.pool and load.settings.loops" in " ".join(
        refused(tmp_path, TWO.replace("[5, 10, 30]", "[5, [[1]]]"))
    )
    told = refused(tmp_path, TWO.replace('"load.settings.loops"]', '"settings.ring"]'))
    assert 'design "prefork" has no setting "ring"' in told[0] and told[0].startswith("swept.toml:")
