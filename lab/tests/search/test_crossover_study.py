"""The studies of both stages: their contents, and refusals before anything runs."""

from __future__ import annotations

import math
import shlex
import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest
from made import refusals
from made.summaries.crossed import asked, both_stages, found_of, study_of
from made.summaries.swept import CATALOGUE

from thunderherd.engine import client as engine_client
from thunderherd.engine.catalogue import Catalogue, Counter, IntegerSetting, Workload
from thunderherd.engine.setting_rules import Agreement
from thunderherd.errors import Problem
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.search.crossover_study import coarse_study, dense_study
from thunderherd.search.request import CrossoverRequest
from thunderherd.study.loading import Study, load_study

MORE = "test_chunks"
"""A further primitive of the tests' catalogue."""


def coarse(tmp_path: Path, *overrides: str, catalogue: Catalogue = CATALOGUE, **changes: Any) -> Study:
    tables = coarse_study(asked(**changes), catalogue)
    return study_of(tables, tmp_path / "coarse.toml", *overrides, catalogue=catalogue)


def refused(catalogue: Catalogue = CATALOGUE, **changes: Any) -> Problem:
    (problem,) = refusals.refused(coarse_study, asked(**changes), catalogue)
    return problem


# The first stage --------------------------------------------------------------------------------------------


def test_crossover_study_has_one_sweep(tmp_path: Path) -> None:
    study = coarse(tmp_path)
    (sweep,) = study.sweeps
    assert study.main == () and study.name == "crossover-prefork-thread-per-client"
    assert (sweep.key, sweep.axis, sweep.metric) == (
        "load.settings.bytes",
        "logarithmic",
        "requests_per_second",
    )
    assert [point.number for point in sweep.points] == [64 * 4**place for place in range(9)]
    assert sweep.contenders == ("prefork", "thread_per_client")
    assert [(look.blocks, look.alpha) for look in study.looks] == [(12, 0.025)]
    assert len(study.comparisons) == 9
    assert all(each.load.settings["bytes"] == int(each.point or 0) for each in study.contenders)
    assert sweep.crossover is not None and (sweep.crossover.a, sweep.crossover.stage) == ("prefork", "coarse")


def test_server_limit_is_raised_with_a_note(tmp_path: Path) -> None:
    study = coarse(tmp_path)
    assert {each.settings["limit"] for each in study.contenders} == {4 * 2**20}
    note = study.sweeps[0].note or ""
    assert note.startswith("limit ") and " 4,194,304" in note and " bytes " in note
    small = coarse(tmp_path, over="bytes=1..1k")
    assert {each.settings["limit"] for each in small.contenders} == {16384}
    assert small.sweeps[0].note is None


def test_default_load_ends_by_time(tmp_path: Path) -> None:
    study = coarse(tmp_path, load=None)
    assert study.load.kind == "timed" and study.load.is_timed
    assert (study.load.settings["duration"], study.load.settings["warm_up"]) == (500_000_000, 100_000_000)
    longer = coarse(tmp_path, load=None, duration="2s")
    assert (longer.load.settings["duration"], longer.load.settings["warm_up"]) == (2_000_000_000, 400_000_000)
    assert study.load.settings["connections"] == "per_request"


@pytest.mark.parametrize(
    ("side", "server", "client"),
    [("server", MORE, "send_each"), ("client", "send_each", MORE), ("both", MORE, MORE)],
)
def test_primitives_apply_to_the_named_side(tmp_path: Path, side: str, server: str, client: str) -> None:
    study = coarse(tmp_path, a=MORE, b="send_each", side=side)
    first, second = study.contenders[:2]
    assert (first.base, first.design) == (MORE, "thread_per_client")
    assert (first.primitive, first.load.primitive) == (server, client)
    assert (second.primitive, second.load.primitive) == ("send_each", "send_each")
    assert study.load.settings["connections"] == "kept"
    other = coarse(tmp_path, a=MORE, b="send_each", side=side, design="prefork")
    assert {each.design for each in other.contenders} == {"prefork"}


def test_contender_may_be_given_by_its_settings(tmp_path: Path) -> None:
    study = coarse(
        tmp_path,
        a="design=prefork,pool=30,settings.nodelay=false,load.processes=2,lab.server_cpus=[0]",
        b=f"primitive={MORE},load.settings.children=3,name=moved",
        load="closed",
        over="bytes=1..1k",
        duration=None,
    )
    first, second = study.contenders[:2]
    assert first.base.startswith("prefork_pool_30_nodelay_false")
    assert (first.design, first.settings["pool"], first.settings["nodelay"]) == ("prefork", 30, False)
    assert (first.load.processes, first.lab.server_cpus) == (2, (0,))
    assert (second.base, second.design, second.primitive) == ("moved", "thread_per_client", MORE)
    assert second.load.settings["children"] == 3


def test_a_setting_that_one_contender_has_is_swept_for_it_alone(tmp_path: Path) -> None:
    study = coarse(tmp_path, over="pool=1..64")
    assert [point.name for point in study.sweeps[0].points] == ["1", "3", "8", "23", "64"]
    pools = {each.name: each.settings.get("pool") for each in study.contenders}
    assert pools["prefork@coarse=23"] == 23 and pools["thread_per_client@coarse=23"] is None


def test_processes_are_a_setting_too(tmp_path: Path) -> None:
    study = coarse(tmp_path, over="load.processes=1..4")
    assert [each.load.processes for each in study.contenders] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_both_ends_take_a_value_that_must_be_equal(tmp_path: Path) -> None:
    same = IntegerSetting(name="field", help="", kind="integer", minimum=1, maximum=10**6, default=1)
    agreement = Agreement(client="field", relation="equal", service="field")
    fields = Workload(
        name="fields", summary="", service_settings=(same,), client_settings=(same,), agreements=(agreement,)
    )
    catalogue = CATALOGUE.model_copy(update={"workloads": (*CATALOGUE.workloads, fields)})
    study = coarse(tmp_path, over="field=1..1k", catalogue=catalogue)
    assert study.contenders[0].workload == "fields"
    assert all(
        each.settings["field"] == each.load.settings["field"] == int(each.point or 0)
        for each in study.contenders
    )
    assert study.sweeps[0].key == ("load.settings.field", "settings.field")
    nothing = dict.fromkeys(CrossoverSummary.model_fields)
    found = CrossoverSummary.model_construct(**nothing | {"points": [], "blocks": 12})
    tables = tomllib.loads((tmp_path / "coarse.toml").read_text())
    dense = study_of(dense_study(tables, [4, 8], found, (1, 1)), tmp_path / "dense.toml", catalogue=catalogue)
    assert dense.sweeps[0].key == study.sweeps[0].key
    assert [(each.settings["field"], each.load.settings["field"]) for each in dense.contenders[::2]] == [
        (4, 4), (8, 8)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sender", "side", "keys"),
    [
        ("service", None, ["settings.field"]),
        ("client", None, ["load.settings.field"]),
        ("service", "client", ["load.settings.field"]),
        ("client", "server", ["settings.field"]),
        ("client", "both", ["load.settings.field", "settings.field"]),
    ],
)
def test_a_setting_of_both_ends_is_that_of_the_end_that_sends(
    tmp_path: Path, sender: Literal["service", "client"], side: str | None, keys: list[str]
) -> None:
    own = IntegerSetting(name="field", help="", kind="integer", minimum=1, maximum=10**6, default=1)
    flow = Workload(name="flow", summary="", service_settings=(own,), client_settings=(own,), sender=sender)
    catalogue = CATALOGUE.model_copy(update={"workloads": (*CATALOGUE.workloads, flow)})
    study = coarse(tmp_path, a=MORE, b="send_each", over="field=1..1k", side=side, catalogue=catalogue)
    swept = {
        key
        for key, values in {
            "settings.field": {each.settings["field"] for each in study.contenders},
            "load.settings.field": {each.load.settings["field"] for each in study.contenders},
        }.items()
        if len(values) > 1
    }
    assert swept == set(keys)
    moved = {
        "settings.field": study.contenders[0].primitive,
        "load.settings.field": study.contenders[0].load.primitive,
    }
    assert {key for key, primitive in moved.items() if primitive == MORE} == set(keys)
    typed = coarse_study(asked(over="settings.field=1..1k", workload="flow"), catalogue)
    assert typed["sweeps"][0]["key"] == "settings.field"


def test_receive_primitive_applies_to_the_receiving_end(tmp_path: Path) -> None:
    study = coarse(tmp_path, a="test_discard", b="recv", load="timed")
    first, second = study.contenders[:2]
    assert (first.load.receive, first.receive) == ("test_discard", "recv")
    assert (second.load.receive, second.receive) == ("recv", "recv")


def test_metric_follows_the_workload(tmp_path: Path) -> None:
    flow = CATALOGUE.workloads[0].model_copy(update={"name": "flow", "measured_by": "bytes_to_server"})
    catalogue = CATALOGUE.model_copy(update={"workloads": (*CATALOGUE.workloads, flow)})
    assert coarse(tmp_path, catalogue=catalogue).measure.metric == "requests_per_second"
    assert coarse(tmp_path, workload="flow", catalogue=catalogue).measure.metric == "gigabits_per_second"


@pytest.mark.parametrize(("points", "sizes"), [(2, [1, 1000]), (4, [1, 10, 100, 1000])])
def test_number_of_sizes_can_be_set(tmp_path: Path, points: int, sizes: list[int]) -> None:
    study = coarse(tmp_path, over="bytes=1..1k", points=points)
    assert [point.number for point in study.sweeps[0].points] == sizes


def test_fixed_settings_and_the_laboratory(tmp_path: Path) -> None:
    study = coarse(tmp_path, "load.settings.nodelay=false", lab=("apart",))
    assert study.load.settings["nodelay"] is False
    assert tomllib.loads((tmp_path / "coarse.toml").read_text())["lab"] == {"placement": "apart"}
    study = coarse(tmp_path, lab=("server_cpus=[0]", "lab.client_cpus=[0]"))
    assert study.lab.server_cpus == study.lab.client_cpus == (0,)


def test_swept_number_of_requests_ends_the_load(tmp_path: Path) -> None:
    study = coarse(tmp_path, over="loops=1..100", load=None)
    assert study.load.kind == "timed"
    assert all(
        not each.load.is_timed and each.load.engine_settings["loops"] == int(each.point or 0)
        for each in study.contenders
    )
    set_by_user = ("load.settings.duration=50ms",)
    (problem,) = refusals.refused(coarse, tmp_path, *set_by_user, over="loops=1..100", load=None)
    assert "loops" in problem.message and "duration" in str(problem)
    assert coarse(tmp_path, over="duration=10ms..100ms", load=None).load.is_timed


# Another study's --------------------------------------------------------------------------------------------


def test_contenders_of_a_study_keep_their_settings(tmp_path: Path) -> None:
    # The study requests these counters, which the catalogue lacks.
    names = ("context_switches", "involuntary_switches", "page_faults", "system_calls", "wakeups")
    counters = [
        Counter(name=name, summary="", unit="times", available=True, countable=True) for name in names
    ]
    catalogue = CATALOGUE.model_copy(update={"counters": (*CATALOGUE.counters, *counters)})
    request = CrossoverRequest(
        a="prefork_modern", b="fork_per_client", over="bytes=64..16k", study="unp-ch30"
    )
    study = study_of(coarse_study(request, catalogue), tmp_path / "coarse.toml", catalogue=catalogue)
    whole = load_study("unp-ch30", "quick", [], catalogue)
    first = study.contender("prefork_modern@coarse=64")
    own = whole.contender("prefork_modern")
    assert (first.design, first.settings) == (own.design, own.settings)
    assert first.load.settings | {"bytes": 4000} == whole.load.settings
    assert study.measure.metric == whole.measure.metric and study.measure.baseline is None
    assert study.noise == whole.noise


@pytest.mark.parametrize(
    ("changes", "code", "facts"),
    [
        ({"workload": "bytes"}, "crossover.option_contradicts_study", ["--workload bytes", "unp-ch30"]),
        ({"load": "closed"}, "crossover.option_contradicts_study", ["--load closed", "unp-ch30"]),
        ({"duration": "5ms"}, "crossover.option_contradicts_study", ["--duration 5ms", "unp-ch30"]),
        ({"a": "prefork_modem"}, "contender.unknown", ['"prefork_modem"', "'prefork_modern'?"]),
        ({"study": "unp-ch3"}, "study.unknown_study", ['"unp-ch3"', "'unp-ch30'?"]),
        ({"study": "erss-hw4", "over": "pool=1..64"}, "crossover.study_is_scaled", ["--study erss-hw4"]),
    ],
)
def test_mistakes_with_a_study(changes: dict[str, Any], code: str, facts: list[str]) -> None:
    problem = refused(**{"load": None, "study": "unp-ch30", **changes})
    assert problem.code == code
    assert [fact for fact in facts if fact not in str(problem)] == []


# Mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code", "facts"),
    [
        ({"a": "prefrk"}, "contender.unknown", ['"prefrk"', "'prefork'?"]),
        ({"a": "send_ech", "b": MORE}, "contender.unknown", ["'send_each'?"]),
        ({"a": "prefork", "b": "prefork"}, "crossover.same_contender", ["prefork and prefork"]),
        ({"a": "prefork", "b": "design=prefork"}, "crossover.same_contender", ["prefork and design=prefork"]),
        ({"over": "byte=1..9"}, "crossover.over_unknown", ["workload bytes", "load timed", "'bytes'?"]),
        ({"over": "load.settings.pool=1..9"}, "crossover.over_unknown", ["pool is settings.pool"]),
        ({"over": "check=1..9"}, "crossover.over_is_no_number", ['"pattern", "count"', "numbers: "]),
        ({"over": "nodelay=1..9"}, "crossover.over_is_no_number", ["true or false", "numbers: "]),
        ({"over": "settings.nodelay=1..9"}, "crossover.over_is_no_number", ["true or false", "numbers: "]),
        ({"over": "bytes=1..4GiB"}, "crossover.over_exceeds_setting", ["1 to 1GiB"]),
        ({"over": "bytes=2..4GiB"}, "crossover.over_exceeds_setting", ["--over bytes=2..1GiB"]),
        ({"over": "pool=1..20000"}, "crossover.over_exceeds_setting", ["1 to 4096 workers"]),
        ({"over": "bytes=9..1"}, "quantity.reversed_range", ["--over", "9", "--over bytes=1..9"]),
        ({"over": "bytes=1..many"}, "quantity.not_a_number", ["'many'"]),
        ({"over": "message_size"}, "quantity.not_a_range", ["LOW..HIGH", "--over message_size=64..4MiB"]),
        ({"over": "settings.pool=5"}, "quantity.not_a_range", ["LOW..HIGH", "--over settings.pool=1..64"]),
        (
            {"a": MORE, "b": "recv"},
            "crossover.sender_against_receiver",
            [f"{MORE} sends and recv receives", f"`crossover {MORE} send_each`"],
        ),
        (
            {"a": "recv", "b": f"primitive={MORE}", "side": "both"},
            "crossover.sender_against_receiver",
            [f"`crossover primitive={MORE} primitive="],
        ),
        ({"workload": "byte"}, "crossover.unknown_workload", ["--workload byte", "known: bytes", "'bytes'?"]),
        ({"load": "close"}, "crossover.unknown_load", ["--load close", "'closed'?"]),
        ({"design": "thread"}, "crossover.unknown_design", ["--design thread"]),
        ({"metric": "gigabits"}, "crossover.unknown_metric", ["--metric gigabits", "known: "]),
        ({"show": ("latency",)}, "crossover.unknown_metric", ["--show latency"]),
        ({"side": "serve"}, "crossover.unknown_side", ["server, client, both", "'server'?"]),
        ({"blocks": 5}, "crossover.too_few_blocks", ["--blocks 5", "9 sizes at alpha 0.025", "at least 10"]),
        ({"lab": ("appart",)}, "lab.unknown_kind", ["--lab appart", "'apart'?"]),
        ({"lab": ("vethh",)}, "lab.unknown_kind", ["--lab vethh", "'veth'?"]),
        ({"lab": ("placment=apart",)}, "lab.unknown_key", ["--lab placment=apart", "'placement'?"]),
        (
            {"over": "loops=1..9", "duration": "50ms", "load": None},
            "crossover.duration_contradicts_over",
            ["--duration 50ms", "--over loops"],
        ),
        (
            {"load": "closed", "duration": "100ms"},
            "crossover.load_without_time",
            ["--duration 100ms", "load closed", "--set load.settings.loops="],
        ),
        ({"a": "design=prefork,pol=3"}, "contender.unknown_key", ['"pol"', "known: design, prim", "'pool'?"]),
        ({"a": "design=prefork,pool"}, "contender.no_key_value", ['"pool"', "pool=30, load.processes=2"]),
        ({"a": "prefork,pool"}, "contender.no_key_value", ['"pool"']),
        ({"a": ",pool=3"}, "contender.no_key_value", ['""']),
        ({"a": "design="}, "contender.no_key_value", ['"design="']),
        ({"a": "design=prefork,,pool=3"}, "contender.no_key_value", ['""']),
        ({"a": "design=prefork,pool={"}, "set.invalid_value", ["design=prefork,pool={", "'{'"]),
        ({"a": "design=prefork,pool=3,pool=4"}, "contender.key_repeated", ["pool=3,pool=4"]),
        (
            {"a": "design=prefork,nodelay=true"},
            "contender.ambiguous_key",
            ["settings.nodelay or load.settings.nodelay"],
        ),
    ],
)
def test_mistakes_are_refused_with_what_is_allowed(
    changes: dict[str, Any], code: str, facts: list[str]
) -> None:
    problem = refused(**changes)
    assert problem.code == code
    assert str(problem).startswith("crossover: ")
    assert [fact for fact in facts if fact not in str(problem)] == []


def test_sizes_that_a_product_forbids_are_refused_with_alternatives(use_engine: Path) -> None:
    """The command in the hint compares both contenders at sizes that exist."""
    offered = engine_client.catalogue()
    for name, other, sizes in (
        ("buffers", "buffer_size", [15, 20, 25, 30, 50, 60, 75, 100]),
        ("buffer_size", "buffers", [15, 20, 25, 30, 50, 60, 75, 100]),
    ):
        both = {"a": "writev", "b": "single_write", "over": f"{name}=15..100"}
        problem = refused(offered, **both, study="css503-p4", workload=None, load=None)
        assert problem.code == "crossover.over_has_gaps"
        assert f": {', '.join(map(str, sizes))};" in problem.hint
        words = shlex.split(problem.hint.rpartition(": thunderherd run ")[2])
        assert words[0] == "css503-p4"
        advised = load_study("css503-p4", "quick", words[2::2], offered)
        loads = {each.point: each.load.settings for each in advised.contenders if each.base == "writev"}
        assert {int(point or 0): load[name] for point, load in loads.items()} == {
            each: each for each in sizes
        }
        assert all(int(load[name]) * int(load[other]) == 1500 for load in loads.values())
    blast = {"a": "writev", "b": "write_once", "workload": "blast", "load": None}
    hint = refused(offered, **blast, over="buffers=15..20").hint
    assert hint.endswith('"load.settings.buffers" = 20, "load.settings.buffer_size" = 75 } }]')
    hint = refused(offered, **blast, over="buffers=16..19").hint
    assert ": none" in hint and "15 and 20" in hint
    assert '"load.settings.buffers" = 15, "load.settings.buffer_size" = 100' in hint
    problem = refused(offered, a="writev", b="write_once", over="mesage_bytes=64..100", load=None)
    assert "'message_size'? " in problem.hint
    problem = refused(offered, over="bytes=1..1MiB", workload="echo", load=None)
    assert problem.hint == "type --over bytes=1..64KiB" and "1 to 64KiB" in problem.message


@pytest.mark.parametrize(
    ("changes", "overrides", "code", "fact"),
    [
        ({"a": "design=prefrk"}, (), "study.unknown_design", '"prefrk"'),
        ({"a": "design=prefork,pool=0"}, (), "study.invalid_setting", "1 to 4096 workers"),
        ({"metric": "request_per_second"}, (), "crossover.unknown_metric", '"request_per_second"'),
        ({"show": ("latency",)}, (), "crossover.unknown_metric", '"latency"'),
        ({}, ("load.settings.byte=3",), "set.unknown_key", "--set load.settings.byte=3"),
    ],
)
def test_mistakes_found_in_the_study_are_refused(
    tmp_path: Path, changes: dict[str, Any], overrides: tuple[str, ...], code: str, fact: str
) -> None:
    problems = refusals.refused(coarse, tmp_path, *overrides, **changes)
    assert [each.code for each in problems if fact in str(each)] == [code]


# The second stage -------------------------------------------------------------------------------------------


def test_second_stage_has_its_own_sizes_and_the_first_stages_findings(tmp_path: Path) -> None:
    first, second = both_stages(tmp_path, lambda size: -0.1 * math.log2(size / 9000))
    found = found_of(first)
    study = load_study(str(tmp_path / "dense.toml"), "quick", [], CATALOGUE)
    (sweep,) = study.sweeps
    assert [point.number for point in sweep.points] == found.next_sizes
    assert sweep.crossover is not None
    assert [point.size for point in sweep.crossover.coarse] == [point.size for point in found.points]
    assert {each.settings["limit"] for each in study.contenders} == {4 * 2**20}
    assert second.study.name == first.study.name and second.study.digest != first.study.digest


def test_second_stage_accepts_tables_of_values(tmp_path: Path) -> None:
    both_stages(tmp_path, lambda size: -0.3 * math.log2(size / 20), over="pool=1..64")
    study = load_study(str(tmp_path / "dense.toml"), "quick", [], CATALOGUE)
    sizes = [int(point.number or 0) for point in study.sweeps[0].points]
    pools = [each.settings["pool"] for each in study.contenders if each.base == "prefork"]
    assert pools == sizes


# Crossovers in sweeps of any study --------------------------------------------------------------------------


def test_a_lab_is_named_by_its_kind_alone(tmp_path: Path) -> None:
    study = coarse(tmp_path, lab=("unix", "apart"))
    lab = study.contenders[0].lab
    assert (lab.kind, lab.server_cpus is not None) == ("unix", True)
