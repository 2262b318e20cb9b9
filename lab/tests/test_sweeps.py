"""A sweep's points are contenders of their own: what a sweep becomes, what is refused, and what a trial of
one tells."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SMALL_STUDY, TESTS

from thunderherd import engine, trial
from thunderherd.analysis import summarise
from thunderherd.catalogue import Catalogue, ChoiceSetting, Counter, IntegerSetting, Setting
from thunderherd.errors import UserError
from thunderherd.records import Summary, TrialRecord
from thunderherd.runner import run_study
from thunderherd.study import Study, load_study

Fake = Callable[..., Path]


def integer(name: str, default: int) -> Setting:
    return IntegerSetting(name=name, help="", kind="integer", minimum=0, maximum=10**9, default=default)


def offered() -> Catalogue:
    """The catalogue of the tests, with a load that may end by time and with counters that may be asked
    for."""
    found = Catalogue.model_validate_json((TESTS / "data" / "catalogue.json").read_text())
    (closed,) = found.loads
    kept = ChoiceSetting(
        name="connections", help="", kind="choice", choices=("per_request", "kept"), default="per_request"
    )
    own = (*closed.settings, integer("milliseconds", 0), integer("warm_up_milliseconds", 0), kept)
    timed = closed.model_copy(update={"name": "timed", "settings": own, "duration": "milliseconds"})
    counters = (
        Counter(name="task_clock", summary="", unit="nanoseconds", available=True, countable=True),
        Counter(name="voluntary_switches", summary="", available=True, countable=True),
        Counter(name="listen_drops", summary="", available=True),
    )
    return found.model_copy(update={"loads": (closed, timed), "counters": counters})


CATALOGUE = offered()

SWEEP = """
[[sweeps]]
name = "pool_size"
title = "CPU over the number of children"
key = "settings.pool"
values = [5, 10, 30]
contenders = ["prefork", "control"]
set = { "load.settings.loops" = 20 }
axis = "logarithmic"
x_label = "children"
metrics = ["voluntary_switches_per_connection"]
[sweeps.paper]
file = "paper.csv"
point = "children"
columns = { prefork = "row2" }
note = "its own machine"
"""

STUDY = (
    SMALL_STUDY.replace('looks = [10]\n', 'looks = [12]\n').replace("looks = [10, 12, 16]", "looks = [14, 16]")
    .replace("[0.3, 0.3, 0.4]", "[0.5, 0.5]")
    + '[[contenders]]\nname = "control"\ncontrol_of = "prefork"\nsettings = { nodelay = false }\n'
    + SWEEP
)  # fmt: skip

PAPER = "children,row2,other\n5,1.5,\n15,1.8,\n30,3.5,9\n"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr("thunderherd.noise.local_ports", lambda: 20_000)


def loaded(directory: Path, text: str = STUDY, *overrides: str, size: str = "quick") -> Study:
    (directory / "paper.csv").write_text(PAPER)
    path = directory / "swept.toml"
    path.write_text(text)
    return load_study(str(path), size, overrides, CATALOGUE)


def refused(directory: Path, text: str = STUDY, *overrides: str) -> list[str]:
    with pytest.raises(UserError) as caught:
        loaded(directory, text, *overrides)
    return [line.replace(f"{directory}/", "") for line in str(caught.value).splitlines()]


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
    assert [(each.base, each.point, each.value, each.note) for each in sweep.paper] == [
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
    rate = loaded(tmp_path, STUDY.replace("axis =", 'metric = "requests_per_second"\naxis ='))
    assert {pair.better for pair in rate.comparisons if pair.sweep} == {"more"}
    assert {pair.better for pair in rate.comparisons if not pair.sweep} == {"less"}
    assert rate.contender("prefork@pool_size=5").better == "more"
    less = loaded(
        tmp_path, STUDY.replace("axis =", 'metric = "requests_per_second"\nbetter = "less"\naxis =')
    )
    assert less.sweeps[0].better == "less"


def test_values_may_be_tables_and_contenders_a_sweeps_own(tmp_path: Path) -> None:
    tables = """values = [
  { name = "small", set = { load.settings.bytes = 10, "settings.nodelay" = true } },
  { name = "large", set = { "load.settings.bytes" = 9000, "lab.server_cpus" = [0] } },
]"""
    text = STUDY.replace('key = "settings.pool"\n', "").replace("values = [5, 10, 30]", tables)
    text = text.replace('contenders = ["prefork", "control"]\n', "").replace(
        'columns = { prefork = "row2" }', ""
    )
    text = text[: text.index("[sweeps.paper]")] + (
        '[[sweeps.contenders]]\nname = "queue"\ndesign = "prethread_queue"\nsettings = { pool = 9 }\n'
        'trial = "whole_life"\nlab = { placement = "apart" }\n'
        '[[sweeps.contenders]]\nname = "varied"\ncontrol_of = "prefork"\nload = { clients = 1 }\n'
    )
    study = loaded(tmp_path, text)
    small, large = (study.contender(f"queue@pool_size={name}") for name in ("small", "large"))
    assert (small.load.settings["bytes"], large.load.settings["bytes"]) == (10, 9000)
    assert small.settings["nodelay"] is True
    assert (small.settings["pool"], small.trial) == (9, "whole_life")
    assert (small.lab.server_cpus, small.lab.client_cpus) == ((0,), (1,))
    assert large.lab.server_cpus == (0,)
    varied = study.contender("varied@pool_size=small")
    assert (varied.design, varied.settings["pool"], varied.load.clients, varied.trial) == (
        "prefork",
        3,
        1,
        "window",
    )
    assert [point.number for point in study.sweeps[0].points] == [None, None]


def test_a_sweep_of_cpus_stands_on_an_axis_of_numbers(tmp_path: Path) -> None:
    text = STUDY.replace("settings.pool", "lab.server_cpus").replace("[5, 10, 30]", "[[0], [0, 1]]")
    text = text[: text.index("[sweeps.paper]")]
    study = loaded(tmp_path, text)
    assert [(point.name, point.number) for point in study.sweeps[0].points] == [("0", 1), ("0+1", 2)]
    assert study.contender("prefork@pool_size=0+1").lab.server_cpus == (0, 1)


def test_parts_and_repetitions(tmp_path: Path) -> None:
    text = STUDY.replace("alpha_split = [1.0]", 'alpha_split = [1.0]\nparts = ["pool_size"]')
    study = loaded(tmp_path, text)
    assert study.main == ()
    assert study.absent["iterative"] == "not part of size quick"
    assert len(study.comparisons) == 3
    assert len(loaded(tmp_path, text, size="full").contenders) == 10
    repeated = loaded(tmp_path, STUDY, "repetitions=3")
    assert (repeated.repetitions, repeated.comparisons) == (3, ())
    assert [(look.blocks, look.alpha) for look in repeated.looks] == [(3, 0.0)]
    back = loaded(tmp_path, STUDY.replace("looks = [12]\nalpha_split = [1.0]", "repetitions = 2"), "looks=[12]",
                  "alpha_split=[1.0]")  # fmt: skip
    assert (back.repetitions, back.looks[0].blocks) == (None, 12)


def test_a_study_may_be_of_sweeps_alone(tmp_path: Path) -> None:
    start, end = STUDY.index("[[contenders]]"), STUDY.index("\n[[sweeps]]")
    text = STUDY[:start] + STUDY[end : STUDY.index("[sweeps.paper]")]
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
    cpus = cpus[: cpus.index("[sweeps.paper]")]
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
    study = loaded(tmp_path, STUDY, "loops=9", "clients=1", "pool=8", "parts=['pool_size']")
    point = study.contender("prefork@pool_size=30")
    assert (point.load.settings["loops"], point.load.clients, point.settings["pool"]) == (20, 1, 30)
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
    ('key = "settings.pool"', 'key = "load.client"', "load.client", "did you mean 'load.clients'?"),
    ('key = "settings.pool"', 'key = "settings.ring"', "values = [5", 'design "prefork" has no setting "ring"'),
    ('key = "settings.pool"', 'key = "load.clients"\n#', "values = [5", "load.clients = 100"),
    ("[5, 10, 30]", "[5, 10, 5]", "values = [5", "the point 5 is there twice"),
    ("[5, 10, 30]", "[5, 99999]", "values = [5", "pool = 99999; allowed: a whole number from 1 to 4096"),
    ("[5, 10, 30]", '[5, "x"]', "values = [5", 'pool = "x"; allowed'),
    ("[5, 10, 30]", "[5, [[1]]]", "values = [5", "is no value of settings.pool"),
    ("[5, 10, 30]", "[]", "values = []", "must not be empty"),
    ("[5, 10, 30]", "[{ name = 5 }]", "values = [{", "name = 5: it must be a text in quotes"),
    ("[5, 10, 30]", '[{ name = "a b", set = {} }]', "values = [{", "it must match"),
    ("[5, 10, 30]", '[{ name = "a", set = { "settings.ring" = 1 } }]', "values = [{", "no contender of sweep"),
    ("[5, 10, 30]", '[{ name = "a", sett = {} }]', "values = [{", "did you mean 'set'?"),
    ('["prefork", "control"]', '["preforc"]', "preforc", "did you mean 'prefork'?"),
    ('["prefork", "control"]', '["prefork", "prefork"]', '"prefork"]', '"prefork" is named twice'),
    ('["prefork", "control"]', "[3]", "contenders = [3]", "it must be a text in quotes"),
    ('["prefork", "control"]', '[{ name = "x" }]', "contenders = [{", "neither design nor control_of"),
    ('["prefork", "control"]', '[{ name = "x", desing = "prefork" }]', "contenders = [{", "did you mean 'design'?"),
    (
        '["prefork", "control"]',
        '[{ name = "prefork", design = "prefork" }]',
        "contenders = [{",
        'the name "prefork" is taken by the contender at',
    ),
    ('"load.settings.loops" = 20', '"load.settings.lops" = 20', "lops", 'load "closed" has no setting "lops"'),
    ('"load.settings.loops" = 20', '"load.settings.loops" = 0', "loops\" = 0", "loops = 0; allowed"),
    ('"load.settings.loops" = 20', '"load.loops" = 20', "load.loops", "no such key of contenders"),
    ('"load.settings.loops" = 20', '"load.clients" = 65', "load.clients", "load.clients = 65: it must be at most 64"),
    ('"load.settings.loops" = 20', '"load.kind" = "opened"', "opened", 'no such load "opened"'),
    ('"load.settings.loops" = 20', '"lab.placement" = "appart"', "appart", "did you mean 'apart'?"),
    ('"load.settings.loops" = 20', '"primitive" = "sent"', "sent", 'no such primitive "sent"'),
    ('"load.settings.loops" = 20', '"load.settings.loops" = 3000', "3000", "20 warm-up"),
    ('["voluntary_switches_per_connection"]', '["voluntary_switches"]', "metrics", "did you mean 'voluntary_sw"),
    (
        '["voluntary_switches_per_connection"]',
        '["server.user_seconds"]',
        "metrics",
        'known of a whole life only: give trial = "whole_life"',
    ),
    ('["voluntary_switches_per_connection"]', '["latency_p99_seconds"]', "metrics", "of one load process"),
    ('axis = "logarithmic"', 'axis = "log"', "axis", "allowed: linear, logarithmic"),
    ('axis = "logarithmic"', 'compare = "all"', "compare", "allowed: pairs, none"),
    ('file = "paper.csv"', 'file = "papr.csv"', "papr", "cannot be read"),
    ('point = "children"', 'point = "child"', "file =", 'no column "child"'),
    ('columns = { prefork = "row2" }', 'columns = { preforc = "row2" }', "preforc", "did you mean 'prefork'?"),
    ('columns = { prefork = "row2" }', 'columns = { prefork = "row3" }', "file =", 'no column "row3"'),
    ('columns = { prefork = "row2" }', "", "[sweeps.paper]", "give columns"),
    ("alpha_split = [1.0]", 'alpha_split = [1.0]\nparts = ["man"]', "parts", 'no such part "man"'),
    ("alpha_split = [1.0]", "alpha_split = [1.0]\nrepetitions = 2", "looks = [12]", "looks and repetitions"),
    ("looks = [12]\nalpha_split = [1.0]", "", "[sizes.quick]", "neither looks nor repetitions"),
    ("looks = [12]", "looks = [8]", "looks = [8]", "7 comparisons at alpha 0.05 need at least"),
    ("normalise_connections = 5000", 'counters = ["task"]', "counters", "did you mean 'task_clock'?"),
    ("normalise_connections = 5000", 'counters = ["listen_drops"]', "counters", "no such counter"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "marked", "complaint"), REFUSED)
def test_mistakes_in_sweeps_are_refused_with_their_line(
    old: str, new: str, marked: str, complaint: str, tmp_path: Path
) -> None:
    assert old in STUDY
    text = STUDY.replace(old, new)
    if 'load.clients"\n#' in new:
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


# Trials of all forms ----------------------------------------------------------------------------------------

FORMS = STUDY.replace(
    "normalise_connections = 5000", "normalise_connections = 5000\ncounters = ['task_clock']"
)


def tried(study: Study, name: str) -> TrialRecord:
    return trial.run_trial(study, study.contender(name), block=1, position=1, seed=1)


def test_a_trial_of_a_point_has_its_own_load(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    found = tried(loaded(tmp_path, FORMS), "prefork@pool_size=10")
    assert found.invalid_reasons == []
    assert found.ready is not None
    assert found.ready.settings["pool"] == "10"
    metrics = found.metrics
    assert metrics is not None
    assert metrics["requests"] == 2 * 2 * 20
    assert metrics["latency_p50_seconds"] is None  # two load processes
    assert metrics["latency_mean_seconds"] == pytest.approx(0.002)
    assert metrics["server.task_clock"] == pytest.approx(3 * 80 / 1e9)
    assert metrics["client.task_clock_per_request"] == pytest.approx(5 / 1e9)
    assert metrics["client.user_seconds"] == pytest.approx(0.002)


TIMED = FORMS.replace('set = { "load.settings.loops" = 20 }', 'set = { "load.settings.loops" = 20, "load.kind" = "timed",'
                      ' "load.settings.milliseconds" = 500, "load.clients" = 1 }')  # fmt: skip


def test_a_load_that_ends_by_time_is_measured_between_its_marks(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    study = loaded(tmp_path, TIMED)
    assert study.contender("prefork@pool_size=5").load.requests_per_trial is None
    found = tried(study, "prefork@pool_size=5")
    assert found.invalid_reasons == []
    assert [mark.mark for mark in found.marks] == ["window_started", "window_ended"]
    assert found.before is not None
    assert found.rest_before is not None
    assert found.before.tally.requests - found.rest_before.tally.requests == 20
    metrics = found.metrics
    assert metrics is not None
    assert (metrics["requests"], metrics["connections"]) == (300, 300)
    assert metrics["server_cpu_per_request"] == pytest.approx(40e-6)
    assert metrics["server_cpu_seconds"] == pytest.approx(300 * 40e-6)
    assert metrics["client_cpu_per_request"] == pytest.approx(0.003 / 325)
    assert metrics["latency_p50_seconds"] == pytest.approx(0.0015)
    assert metrics["latency_p99_seconds"] is None
    assert metrics["requests_per_second"] == pytest.approx(300 / float(metrics["elapsed_seconds"] or 0))


def test_of_kept_connections_requests_tell(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    text = TIMED.replace('"load.clients" = 1', '"load.clients" = 1, "load.settings.connections" = "kept"')
    study = loaded(tmp_path, text)
    assert study.contender("prefork@pool_size=5").load.connections_per_trial == 1
    found = tried(study, "prefork@pool_size=5")
    assert found.invalid_reasons == []
    metrics = found.metrics
    assert metrics is not None
    assert metrics["connections"] == 0
    per_connection = [
        value for name, value in metrics.items() if name.endswith(("per_connection", "ons_per_second"))
    ]
    assert per_connection == [None] * len(per_connection)
    assert metrics["server_cpu_per_request"] == pytest.approx(40e-6)
    assert metrics["requests"] == 300


def test_a_timed_load_without_marks_is_invalid(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine("no_marks")
    found = tried(loaded(tmp_path, TIMED), "prefork@pool_size=5")
    assert found.invalid_reasons == ["load: it ends by time and told no window"]
    assert found.metrics is None


WHOLE = FORMS.replace('axis = "log', 'trial = "whole_life"\naxis = "log').replace(
    '["voluntary_switches_per_connection"]', '["server.user_seconds", "client.minor_faults"]'
)


def test_a_whole_life_is_counted_from_exec_to_exit(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    found = tried(loaded(tmp_path, WHOLE), "prefork@pool_size=5")
    assert found.invalid_reasons == []
    assert (found.before, found.after, found.warm_up) == (None, None, [])
    assert (found.trial, found.cpu_scope, found.warnings) == ("whole_life", "whole_life", [])
    metrics = found.metrics
    assert metrics is not None
    assert (metrics["connections"], metrics["requests"]) == (80, 80)
    assert metrics["server_cpu_seconds"] == pytest.approx(0.04)
    assert metrics["server.user_seconds"] == pytest.approx(0.03)
    assert metrics["server.elapsed_seconds"] == metrics["client.elapsed_seconds"] == pytest.approx(2)
    assert metrics["client.minor_faults"] == 2 * 700
    assert metrics["server.task_clock"] == pytest.approx(1e-6)
    assert TrialRecord.model_validate_json(found.model_dump_json(by_alias=True)) == found


@pytest.mark.parametrize("text", [TIMED, WHOLE], ids=["timed", "whole life"])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("account_fault", "server: its books do not balance: a bucket is short"),
        ("wrong_account", "account: busy: the server has"),
        ("server_error", "server: errors: 3 reset"),
        ("tally_short", "server counted"),
    ],
)
def test_the_books_of_both_ends_must_agree(
    fake_engine: Fake, tmp_path: Path, text: str, fault: str, reason: str
) -> None:
    fake_engine(fault)
    found = tried(loaded(tmp_path, text.replace("warm_up_connections = 10", "warm_up_connections = 0")),
                  "prefork@pool_size=5")  # fmt: skip
    assert any(reason in each for each in found.invalid_reasons), found.invalid_reasons


def test_a_counter_that_is_not_to_be_had_is_said(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine("task_clock")
    for text, why in ((FORMS, "no such thing here"), (WHOLE, "not here")):
        found = tried(loaded(tmp_path, text), "prefork@pool_size=5")
        assert found.valid
        assert found.warnings == [f"counter task_clock is not available: {why}"]
        assert found.metrics is not None
        assert found.metrics["server.task_clock"] is None
        assert found.metrics["client.task_clock"] is None


def test_switches_are_those_of_the_window_where_a_pools_are_counted(
    fake_engine: Fake, tmp_path: Path
) -> None:
    fake_engine()
    study = loaded(tmp_path, FORMS.replace("task_clock", "voluntary_switches"))
    pool, none = tried(study, "prefork"), tried(study, "iterative")
    assert pool.metrics is not None
    assert none.metrics is not None
    assert pool.metrics["voluntary_switches_per_connection"] == pytest.approx(3)
    assert none.metrics["voluntary_switches_per_connection"] == pytest.approx(2)  # of the whole life


# Whole runs -------------------------------------------------------------------------------------------------


def run(study: Study, directory: Path) -> Summary:
    return run_study(study, directory, seed=5, command=["thunderherd", "run", "swept"])


def test_a_run_of_repetitions_shows_every_run(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    summary = run(loaded(tmp_path, STUDY, "repetitions=2", "parts=['pool_size']"), tmp_path / "run")
    assert (summary.study.repetitions, summary.study.complete, summary.pairs) == (2, True, [])
    assert [each.name for each in summary.contenders][:2] == ["prefork@pool_size=5", "control@pool_size=5"]
    for each in summary.contenders:
        assert each.blocks == len(each.runs) == 2
        assert each.runs[0]["requests"] == 80
        assert each.metrics["requests"].value == 80
        assert (each.load or {})["settings"]["loops"] == 20
    (sweep,) = summary.sweeps
    assert (sweep.unit, sweep.better, sweep.contenders) == ("s", "less", ["prefork", "control"])
    assert [point.number for point in sweep.points] == [5, 10, 30]


def test_a_run_with_a_sweep_is_judged_with_it(fake_engine: Fake, tmp_path: Path) -> None:
    fake_engine()
    summary = run(loaded(tmp_path, STUDY, "pool_size.values=[4]"), tmp_path / "run")
    assert summary.study.family_size == 5
    pair = next(pair for pair in summary.pairs if pair.sweep)
    assert (pair.sweep, pair.point, pair.metric) == ("pool_size", "4", "server_cpu_per_connection")
    assert pair.verdict == "equivalent"
    assert {each.rank for each in summary.contenders if each.sweep} == {None}
    main = [each for each in summary.contenders if not each.sweep]
    assert sorted(each.rank for each in main if each.rank) == [1, 2, 3]


REAL = """\
name = "real-sweep"
title = "A sweep over the pool, on the engine itself"
question = "Does it run?"
[measure]
metric = "server_cpu_per_connection"
[server]
workload = "bytes"
primitive = "send"
[load]
kind = "closed"
clients = 1
warm_up_connections = 10
settings = { children = 2, loops = 25, bytes = 4000 }
[noise]
steal_percent = 100
foreign_percent = 100
[sizes.quick]
repetitions = 2
[[sweeps]]
name = "pool_size"
title = "The pool"
key = "settings.pool"
values = [2, 4]
[[sweeps.contenders]]
name = "prefork"
design = "prefork"
[[sweeps.contenders]]
name = "threads"
design = "prethread"
"""


def test_a_sweep_runs_on_the_engine(
    use_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(use_engine))
    path = tmp_path / "real.toml"
    path.write_text(REAL)
    summary = run(load_study(str(path), "quick", [], engine.catalogue()), tmp_path / "run")
    assert summary.trials.invalid_reasons == {}
    assert [each.name for each in summary.contenders] == [
        "prefork@pool_size=2", "threads@pool_size=2", "prefork@pool_size=4", "threads@pool_size=4",
    ]  # fmt: skip
    for each in summary.contenders:
        assert [run["requests"] for run in each.runs] == [50, 50]
        assert each.clients_per_worker is not None
        assert len(each.worker_connections or []) == int(each.point or 0)
