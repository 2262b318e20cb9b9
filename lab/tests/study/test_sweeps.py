"""A sweep's points are contenders of their own: what a sweep becomes, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from made.summaries.swept import CATALOGUE, PAPER, STUDY, loaded, refused

from thunderherd.errors import UserError
from thunderherd.judge.summary.summarise import summarise
from thunderherd.study.loading import load_study


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr("thunderherd.machine.noise.local_ports", lambda: 20_000)


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
    assert point.label == "prefork; nodelay false; children 10"
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


def test_values_may_be_tables_and_contenders_a_sweeps_own(tmp_path: Path) -> None:
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


def test_a_sweep_of_cpus_stands_on_an_axis_of_numbers(tmp_path: Path) -> None:
    text = STUDY.replace("settings.pool", "lab.server_cpus").replace("[5, 10, 30]", "[[0], [0, 1]]")
    text = text[: text.index("[[sweeps.paper]]")]
    study = loaded(tmp_path, text)
    assert [(point.name, point.number) for point in study.sweeps[0].points] == [("0", 1), ("0+1", 2)]
    assert study.contender("prefork@pool_size=0+1").lab.server_cpus == (0, 1)


def test_a_sweep_that_is_not_well_formed_is_still_a_part(tmp_path: Path) -> None:
    said = f'{QUICK}\nparts = ["pool_size"]\n[sizes.quick.points]\npool_size = [5, 30]'
    text = STUDY.replace(QUICK, said, 1)
    keyless = text[: text.index("[[sweeps.paper]]")].replace('key = "settings.pool"\n', "")
    lines = refused(tmp_path, keyless)
    assert lines and all("values: what is" in line for line in lines), lines


def test_parts_and_repetitions(tmp_path: Path) -> None:
    text = STUDY.replace("alpha_split = [1.0]", 'alpha_split = [1.0]\nparts = ["pool_size"]')
    study = loaded(tmp_path, text)
    assert study.main == ()
    assert study.absent["iterative"] == "not part of size quick, but of full"
    assert len(study.comparisons) == 3
    assert len(loaded(tmp_path, text, size="full").contenders) == 10
    given = loaded(tmp_path, text, 'parts=["main"]', size="full")
    assert given.absent["prefork@pool_size=5"] == (
        "pool_size is not among the parts that this run was given: main"
    )
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
    assert study.absent["prefork@pool_size=10"] == "not part of size quick, but of full"
    assert sweep.absent == {}, "it could run here"
    assert len(loaded(tmp_path, text, size="full").sweeps[0].points) == 3
    other = loaded(tmp_path, text, "pool_size.values=[5, 7]")
    assert [point.name for point in other.sweeps[0].points] == ["5", "7"], "whoever says values means those"
    assert other.absent["prefork@pool_size=30"] == "this run has other values of its sweep"


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


def test_what_this_machine_lacks_may_be_left_out(tmp_path: Path) -> None:
    cpus = STUDY.replace("settings.pool", "lab.server_cpus").replace("[5, 10, 30]", "[[0], [0, 3]]")
    cpus = cpus[: cpus.index("[[sweeps.paper]]")]
    (told,) = refused(tmp_path, cpus)
    assert "server_cpus = [0, 3] names CPU 3, which is not there; allowed: 0, 1" in told
    study = loaded(tmp_path, cpus + "skip_unavailable = true\n")
    assert [each.name for each in study.contenders if each.sweep] == [
        "prefork@pool_size=0",
        "control@pool_size=0",
    ]
    assert (
        set(study.sweeps[0].absent) == set(study.absent) == {"prefork@pool_size=0+3", "control@pool_size=0+3"}
    )
    assert any(note.startswith("left out: prefork@pool_size=0+3, control@") for note in study.notes)
    assert len(study.comparisons) == 4 + 1


def test_a_design_that_cannot_run_here(tmp_path: Path) -> None:
    lacking = [
        each.model_copy(update={"available": False, "reason": "the kernel forbids it"})
        if each.name == "prefork"
        else each
        for each in CATALOGUE.designs
    ]
    catalogue = CATALOGUE.model_copy(update={"designs": tuple(lacking)})
    (tmp_path / "paper.csv").write_text(PAPER)
    path = tmp_path / "swept.toml"
    path.write_text(STUDY)
    with pytest.raises(
        UserError, match=r'swept\.toml:\d+: design "prefork" cannot run here: the kernel forbids it'
    ):
        load_study(str(path), "quick", [], catalogue)


# Overrides --------------------------------------------------------------------------------------------------


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
    ("override", "complaint"),
    [
        ("sweeps.pool_siz.values=[5]", "did you mean 'sweeps.pool_size.values'?"),
        ("pool_size.value=[5]", "did you mean"),
        ("pool_size.values=5", "sweeps.pool_size.values = 5: it must be a list"),
        ("pool_size.values=[]", "it must not be empty"),
        ("pool_size.values=[0]", "pool = 0; allowed: a whole number from 1"),
        ("parts=['mian']", "no such part \"mian\"; known: main, pool_size; did you mean 'main'?"),
        ("pool_size.metric=x", 'no such metric "x"'),
        ("pool_size.logarithmic=['cpu']", '"cpu" is not shown here; shown are '),
        ("repetitions=0", "it must be at least 1"),
    ],
)
def test_overrides_of_sweeps_that_are_refused(override: str, complaint: str, tmp_path: Path) -> None:
    told = refused(tmp_path, STUDY, override)
    assert any(complaint in line for line in told), told
    assert told[0].startswith(f"--set {override}")


# What is refused --------------------------------------------------------------------------------------------

REFUSED = [
    # part of the study, its replacement, what is marked by the line, what is said
    ('name = "pool_size"', 'name = "main"', '"main"', 'the name "main" is taken by the main table'),
    ('name = "pool_size"', 'name = "Pool"', '"Pool"', "it must match"),
    ('key = "settings.pool"', "", "values = [5", "what is 5 the value of? Give key"),
    ('key = "settings.pool"', 'key = "setings.pool"', "setings", "no such key of contenders"),
    ('key = "settings.pool"', 'key = "load.process"', "load.process", "did you mean 'load.processes'?"),
    (
        'key = "settings.pool"',
        'key = "settings.ring"',
        "values = [5",
        'design "prefork" has no setting "ring"',
    ),
    ('key = "settings.pool"', 'key = "load.processes"\n#', "values = [5", "load.processes = 100"),
    ("[5, 10, 30]", "[5, 10, 5]", "values = [5", "the point 5 is there twice"),
    ("[5, 10, 30]", "[5, 99999]", "values = [5", "pool = 99999; allowed: a whole number from 1 to 4096"),
    ("[5, 10, 30]", '[5, "x"]', "values = [5", 'pool = "x"; allowed'),
    ("[5, 10, 30]", "[5, [[1]]]", "values = [5", "is no value of settings.pool"),
    ("[5, 10, 30]", "[]", "values = []", "must not be empty"),
    ("[5, 10, 30]", "[{ name = 5 }]", "values = [{", "name = 5: it must be a text in quotes"),
    ("[5, 10, 30]", '[{ name = "a b", set = {} }]', "values = [{", "it must match"),
    (
        "[5, 10, 30]",
        '[{ name = "a", set = { "settings.ring" = 1 } }]',
        "values = [{",
        "no contender of sweep",
    ),
    ("[5, 10, 30]", '[{ name = "a", sett = {} }]', "values = [{", "did you mean 'set'?"),
    ('["prefork", "control"]', '["preforc"]', "preforc", "did you mean 'prefork'?"),
    ('["prefork", "control"]', '["prefork", "prefork"]', '"prefork"]', '"prefork" is named twice'),
    ('["prefork", "control"]', "[3]", "contenders = [3]", "it must be a text in quotes"),
    ('["prefork", "control"]', '[{ name = "x" }]', "contenders = [{", "neither design nor control_of"),
    (
        '["prefork", "control"]',
        '[{ name = "x", desing = "prefork" }]',
        "contenders = [{",
        "did you mean 'design'?",
    ),
    (
        '["prefork", "control"]',
        '[{ name = "prefork", design = "prefork" }]',
        "contenders = [{",
        'the name "prefork" is taken by the contender at',
    ),
    (
        '"load.settings.loops" = 20',
        '"load.settings.lops" = 20',
        "lops",
        'load "closed" has no setting "lops"',
    ),
    ('"load.settings.loops" = 20', '"load.settings.loops" = 0', 'loops" = 0', "loops = 0; allowed"),
    ('"load.settings.loops" = 20', '"load.loops" = 20', "load.loops", "no such key of contenders"),
    (
        '"load.settings.loops" = 20',
        '"load.processes" = 65',
        "load.processes",
        "load.processes = 65: it must be at most 64",
    ),
    ('"load.settings.loops" = 20', '"load.kind" = "opened"', "opened", 'no such load "opened"'),
    ('"load.settings.loops" = 20', '"lab.placement" = "appart"', "appart", "did you mean 'apart'?"),
    ('"load.settings.loops" = 20', '"primitive" = "sent"', "sent", 'no such primitive "sent"'),
    ('"load.settings.loops" = 20', '"load.settings.loops" = 3000', "3000", "20 warm-up"),
    (
        '["voluntary_switches_per_connection"]',
        '["voluntary_switches"]',
        "metrics",
        "did you mean 'voluntary_sw",
    ),
    (
        '["voluntary_switches_per_connection"]',
        '["server.user_seconds"]',
        "metrics",
        'known of a whole life only: give trial = "whole_life"',
    ),
    ('axis = "logarithmic"', 'axis = "log"', "axis", "allowed: linear, logarithmic"),
    ('axis = "logarithmic"', 'compare = "all"', "compare", "allowed: pairs, none"),
    ('file = "paper.csv"', 'file = "papr.csv"', "papr", "cannot be read"),
    ('point = "children"', 'point = "child"', "file =", "did you mean 'children'?"),
    ('point = "children"', "", "[[sweeps.paper]]", "give point, the column that has the points"),
    (
        'metric = "server_cpu_per_connection"\npoint',
        'metric = "server_cpu_per_conection"\npoint',
        "conection",
        "did you mean 'server_cpu_per_connection'?",
    ),
    (
        'metric = "server_cpu_per_connection"\npoint',
        'metric = "requests_per_second"\npoint',
        'metric = "requests_per_second"',
        "no such metric that sweep pool_size shows",
    ),
    (
        'columns = { prefork = "row2" }',
        'contender = "other"\nnames = { prefork = "8" }\nvalue = "row2"',
        "names",
        'no such other in paper.csv "8"',
    ),
    (
        'columns = { prefork = "row2" }',
        'columns = { preforc = "row2" }',
        "preforc",
        "did you mean 'prefork'?",
    ),
    ('columns = { prefork = "row2" }', 'columns = { prefork = "row3" }', "file =", 'no column "row3"'),
    ('columns = { prefork = "row2" }', "", "[[sweeps.paper]]", "give columns"),
    ("alpha_split = [1.0]", 'alpha_split = [1.0]\nparts = ["man"]', "parts", 'no such part "man"'),
    (QUICK, f"{QUICK}\npoints = {{ pool_size = [6] }}", "points", 'no such point of sweep pool_size "6"'),
    (QUICK, f"{QUICK}\npoints = {{ pol_size = [5] }}", "points", "did you mean 'pool_size'?"),
    (QUICK, f"{QUICK}\npoints = {{ pool_size = [] }}", "points", "points of pool_size: none at all"),
    ("alpha_split = [1.0]", "alpha_split = [1.0]\nrepetitions = 2", "looks = [12]", "looks and repetitions"),
    ("looks = [12]\nalpha_split = [1.0]", "", "[sizes.quick]", "neither looks nor repetitions"),
    ("looks = [12]", "looks = [8]", "looks = [8]", "7 comparisons at alpha 0.05 need at least"),
    ("normalise_connections = 5000", 'counters = ["task"]', "counters", "did you mean 'task_clock'?"),
    ("normalise_connections = 5000", 'counters = ["listen_drops"]', "counters", "no such counter"),
]


@pytest.mark.parametrize(("old", "new", "marked", "complaint"), REFUSED)
def test_mistakes_in_sweeps_are_refused_with_their_line(
    old: str, new: str, marked: str, complaint: str, tmp_path: Path
) -> None:
    assert old in STUDY
    text = STUDY.replace(old, new)
    if 'load.processes"\n#' in new:
        text = text.replace("[5, 10, 30]", "[5, 10, 100]")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if marked in line]
    told = refused(tmp_path, text)
    assert any(
        line.startswith(f"swept.toml:{number}:") and complaint.replace("20 warm-up", "10 warm-up") in line
        for line in told
        for number in lines
    ), (lines, told)


JUNK = ["0", "-1", "1.5", "true", '""', '"x"', "[]", "[1]", "[[]]", "{}", "{ x = 1 }", '[{ name = "a" }]']


@pytest.mark.parametrize("junk", JUNK)
def test_junk_in_any_place_of_a_sweep_is_a_users_mistake(junk: str, tmp_path: Path) -> None:
    start = STUDY.splitlines().index("[[sweeps]]")
    for number, line in enumerate(STUDY.splitlines()):
        if " = " not in line or number < start:
            continue
        lines = STUDY.splitlines()
        lines[number] = f"{line.split(' = ')[0]} = {junk}"
        try:
            loaded(tmp_path, "\n".join(lines))
        except UserError as error:
            assert "swept.toml:" in str(error)


def test_a_key_of_a_sweep_is_for_all_of_its_contenders(tmp_path: Path) -> None:
    """One that it declares itself has keys of its own, which are not meant."""
    own = STUDY.replace('"control"]', '{ name = "own", design = "prethread" }]')
    study = loaded(tmp_path, own, "sweeps.pool_size.loops=7")
    assert {each.load.settings["loops"] for each in study.contenders if each.sweep} == {7}


def test_a_sweep_may_name_what_another_declares(tmp_path: Path) -> None:
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
    with pytest.raises(UserError, match="did you mean 'own'"):
        loaded(tmp_path, own + more.replace('["own"]', '["owm"]'))
