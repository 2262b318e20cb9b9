"""Sweeps: each point of a sweep has its own contenders."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.refusals import places
from made.summaries.swept import STUDY, loaded, refused
from made.written_study import machine

from thunderherd.judge.summary.summarise import summarise
from thunderherd.study.resolver import OTHER_VALUES, outside_size

__all__ = ["machine"]

# What a sweep becomes ---------------------------------------------------------------------------------------


def test_each_point_is_a_contender(tmp_path: Path) -> None:
    study = loaded(tmp_path)
    names = [each.name for each in study.contenders]
    assert names[:4] == ["iterative", "fork_per_client", "prefork", "control"]
    assert names[4:] == [
        f"{base}@pool_size={pool}" for pool in (5, 10, 30) for base in ("prefork", "control")
    ]
    assert [each.name for each in study.main] == names[:4]
    point = study.contender("control@pool_size=10")
    assert (point.base, point.sweep, point.point, point.control_of) == ("control", "pool_size", "10", None)
    assert (point.settings["pool"], point.settings["nodelay"]) == (10, False)
    assert point.label and point.label.endswith(" 10")
    assert point.load.settings["loops"] == 20
    assert study.load.settings["loops"] == study.contender("prefork").load.settings["loops"] == 25
    (sweep,) = study.sweeps
    assert [(each.name, each.number) for each in sweep.points] == [("5", 5), ("10", 10), ("30", 30)]
    assert (sweep.contenders, sweep.x_label, sweep.axis) == (
        ("prefork", "control"),
        "children",
        "logarithmic",
    )
    assert sweep.metrics == ("server_cpu_per_connection", "voluntary_switches_per_connection")
    assert [(each.base, each.point, each.value, each.note) for each in study.paper] == [
        ("prefork", "5", 1.5, "its own machine"),
        ("prefork", "30", 3.5, "its own machine"),
    ]


def test_the_pairs_of_each_point_join_the_family(tmp_path: Path) -> None:
    study = loaded(tmp_path)
    swept = [pair for pair in study.comparisons if pair.sweep]
    assert [(pair.a, pair.b, pair.point) for pair in swept] == [
        (f"prefork@pool_size={pool}", f"control@pool_size={pool}", str(pool)) for pool in (5, 10, 30)
    ]
    assert len(study.comparisons) == 4 + 3
    alone = loaded(tmp_path, STUDY.replace('axis = "log', 'compare = "none"\naxis = "log'))
    assert [pair for pair in alone.comparisons if pair.sweep] == []


def test_a_metric_has_its_direction(tmp_path: Path) -> None:
    text = STUDY[: STUDY.index("[[sweeps.paper]]")]
    rate = loaded(tmp_path, text.replace("axis =", 'metric = "requests_per_second"\naxis ='))
    assert {pair.better for pair in rate.comparisons if pair.sweep} == {"more"}
    assert {pair.better for pair in rate.comparisons if not pair.sweep} == {"less"}
    assert rate.contender("prefork@pool_size=5").better == "more"


def test_sweep_may_have_tables_of_values_and_own_contenders(tmp_path: Path) -> None:
    tables = """values = [
  { name = "small", set = { load.settings.bytes = 10, "settings.nodelay" = true } },
  { name = "large", set = { "load.settings.bytes" = 9000, "lab.server_cpus" = [0] } },
]"""
    text = STUDY.replace('key = "settings.pool"\n', "").replace("values = [5, 10, 30]", tables)
    text = text.replace('contenders = ["prefork", "control"]\n', "").replace(
        'columns = { prefork = "row2" }', ""
    )
    text = text[: text.index("[[sweeps.paper]]")] + (
        '[[sweeps.contenders]]\nname = "queue"\ndesign = "prethread_queue"\nsettings = { pool = 9 }\n'
        'trial = "whole_life"\nlab = { placement = "apart" }\n'
        '[[sweeps.contenders]]\nname = "varied"\ncontrol_of = "prefork"\nload = { processes = 1 }\n'
    )
    study = loaded(tmp_path, text)
    small, large = (study.contender(f"queue@pool_size={name}") for name in ("small", "large"))
    assert (small.load.settings["bytes"], large.load.settings["bytes"]) == (10, 9000)
    assert small.settings["nodelay"] is True
    assert (small.settings["pool"], small.trial) == (9, "whole_life")
    assert (small.lab.server_cpus, small.lab.client_cpus) == ((0,), (1,))
    assert large.lab.server_cpus == (0,)
    varied = study.contender("varied@pool_size=small")
    assert (varied.design, varied.settings["pool"], varied.load.processes, varied.trial) == (
        "prefork",
        3,
        1,
        "window",
    )
    assert [point.number for point in study.sweeps[0].points] == [None, None]


def test_sweep_of_cpus_has_a_numeric_axis(tmp_path: Path) -> None:
    text = STUDY.replace("settings.pool", "lab.server_cpus").replace("[5, 10, 30]", "[[0], [0, 1]]")
    text = text[: text.index("[[sweeps.paper]]")]
    study = loaded(tmp_path, text)
    assert [(point.name, point.number) for point in study.sweeps[0].points] == [("0", 1), ("0+1", 2)]
    assert study.contender("prefork@pool_size=0+1").lab.server_cpus == (0, 1)
    ranges = loaded(tmp_path, text.replace("[[0], [0, 1]]", '["0", "0-1"]'))
    assert [(each.name, each.number) for each in ranges.sweeps[0].points] == [("0", 1), ("0-1", 2)]
    assert ranges.contender("prefork@pool_size=0-1").lab.server_cpus == (0, 1)


def test_a_sweep_that_is_not_well_formed_is_still_a_part(tmp_path: Path) -> None:
    said = f'{QUICK}\nparts = ["pool_size"]\n[sizes.quick.points]\npool_size = [5, 30]'
    text = STUDY.replace(QUICK, said, 1)
    keyless = text[: text.index("[[sweeps.paper]]")].replace('key = "settings.pool"\n', "")
    assert {problem.code for problem in refused(tmp_path, keyless)} == {"study.value_without_key"}


def test_parts_and_repetitions(tmp_path: Path) -> None:
    text = STUDY.replace("alpha_split = [1.0]", 'alpha_split = [1.0]\nparts = ["pool_size"]')
    study = loaded(tmp_path, text)
    assert study.main == ()
    assert study.absent["iterative"] == outside_size("quick", "full")
    assert len(study.comparisons) == 3
    assert len(loaded(tmp_path, text, size="full").contenders) == 10
    given = loaded(tmp_path, text, 'parts=["main"]', size="full")
    assert "prefork@pool_size=5" in given.absent
    repeated = loaded(tmp_path, STUDY, "repetitions=3")
    assert (repeated.repetitions, repeated.comparisons) == (3, ())
    assert [(look.blocks, look.alpha) for look in repeated.looks] == [(3, 0.0)]
    text = STUDY.replace("looks = [12]\nalpha_split = [1.0]", "repetitions = 2")
    back = loaded(tmp_path, text, "looks=[12]", "alpha_split=[1.0]")
    assert (back.repetitions, back.looks[0].blocks) == (None, 12)


QUICK = "alpha_split = [1.0]"


def test_a_size_may_run_some_points_only(tmp_path: Path) -> None:
    lacks_it_too = "[sizes.third]\nrepetitions = 1\npoints = { pool_size = [5] }"
    of_quick = "[sizes.quick.points]\npool_size = [5, 30]"
    text = STUDY.replace(QUICK, f"{QUICK}\n{of_quick}\n{lacks_it_too}", 1)
    study = loaded(tmp_path, text)
    (sweep,) = study.sweeps
    assert [point.name for point in sweep.points] == ["5", "30"]
    assert [figure.point for figure in study.paper] == ["5", "30"]
    assert study.absent["prefork@pool_size=10"] == outside_size("quick", "full")
    assert sweep.absent == {}, "it could run here"
    assert len(loaded(tmp_path, text, size="full").sweeps[0].points) == 3
    other = loaded(tmp_path, text, "pool_size.values=[5, 7]")
    assert [point.name for point in other.sweeps[0].points] == ["5", "7"], "whoever says values means those"
    assert other.absent["prefork@pool_size=30"] == OTHER_VALUES


def test_any_undoes_a_list_of_cpus(tmp_path: Path) -> None:
    text = STUDY.replace("[noise]", "[lab]\nserver_cpus = [0]\nclient_cpus = [1]\n[noise]")
    text = text.replace('"load.settings.loops" = 20', '"lab.server_cpus" = "any", "lab.client_cpus" = "any"')
    study = loaded(tmp_path, text)
    places = {each.sweep: (each.lab.server_cpus, each.lab.client_cpus) for each in study.contenders}
    assert places == {None: ((0,), (1,)), "pool_size": (None, None)}


def test_a_study_may_be_of_sweeps_alone(tmp_path: Path) -> None:
    start, end = STUDY.index("[[contenders]]"), STUDY.index("\n[[sweeps]]")
    text = STUDY[:start] + STUDY[end : STUDY.index("[[sweeps.paper]]")]
    text = text.replace('baseline = "iterative"\n', "").replace(
        'contenders = ["prefork", "control"]', 'contenders = [{ name = "one", design = "prefork" }]'
    )
    study = loaded(tmp_path, text)
    assert study.main == ()
    assert study.measure.baseline is None
    assert [each.name for each in study.contenders] == [f"one@pool_size={pool}" for pool in (5, 10, 30)]
    summary = summarise(study, [], {}, seed=1)
    assert [each.name for each in summary.sweeps] == ["pool_size"]


def test_overrides_reach_sweeps(tmp_path: Path) -> None:
    study = loaded(
        tmp_path, STUDY, "sweeps.pool_size.values=[4]", "pool_size.loops=7", "load.settings.bytes=77"
    )
    assert [each.name for each in study.contenders if each.sweep] == [
        "prefork@pool_size=4",
        "control@pool_size=4",
    ]
    point = study.contender("prefork@pool_size=4")
    assert (point.load.settings["loops"], point.load.settings["bytes"]) == (7, 77)
    assert study.load.settings["loops"] == 25


def test_keys_of_the_study_reach_the_points_unless_the_sweep_sets_them(tmp_path: Path) -> None:
    study = loaded(tmp_path, STUDY, "loops=9", "processes=1", "pool=8")
    point = study.contender("prefork@pool_size=30")
    assert (point.load.settings["loops"], point.load.processes, point.settings["pool"]) == (20, 1, 30)
    assert study.load.settings["loops"] == 9


@pytest.mark.parametrize(
    ("override", "code", "near"),
    [
        ("sweeps.pool_siz.values=[5]", "set.unknown_key", "sweeps.pool_size.values"),
        ("pool_size.value=[5]", "set.unknown_key", "sweeps.pool_size.values"),
        ("pool_size.values=5", "study.invalid_value", None),
        ("pool_size.values=[]", "study.invalid_value", None),
        ("pool_size.values=[0]", "study.invalid_setting", None),
        ("parts=['mian']", "study.unknown_part", "main"),
        ("pool_size.metric=x", "study.unknown_metric", None),
        ("pool_size.logarithmic=['cpu']", "study.metric_not_shown", None),
        ("repetitions=0", "study.invalid_value", None),
    ],
)
def test_overrides_of_sweeps_that_are_refused(
    override: str, code: str, near: str | None, tmp_path: Path
) -> None:
    problems = refused(tmp_path, STUDY, override)
    assert f"--set {override}" in places(problems, code)
    assert problems[0].where == f"--set {override}"
    assert near is None or f"'{near}'" in problems[0].hint


# Contenders of sweeps ---------------------------------------------------------------------------------------


def test_a_key_of_a_sweep_is_for_all_of_its_contenders(tmp_path: Path) -> None:
    """A contender that the sweep declares has its own keys, which are not affected."""
    own = STUDY.replace('"control"]', '{ name = "own", design = "prethread" }]')
    study = loaded(tmp_path, own, "sweeps.pool_size.loops=7")
    assert {each.load.settings["loops"] for each in study.contenders if each.sweep} == {7}


def test_sweep_may_use_contenders_of_another(tmp_path: Path) -> None:
    own = STUDY.replace('"control"]', '{ name = "own", design = "prethread" }]')
    more = """
[[sweeps]]
name = "again"
title = "Another one"
key = "load.settings.loops"
values = [5, 10]
contenders = ["own"]
"""
    study = loaded(tmp_path, own + more)
    assert [each.name for each in study.contenders if each.sweep == "again"] == [
        "own@again=5",
        "own@again=10",
    ]
    (problem,) = refused(tmp_path, own + more.replace('["own"]', '["owm"]'))
    assert problem.code == "study.unknown_contender" and "'own'" in problem.hint
