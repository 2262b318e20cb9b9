"""Settings that both ends of a workload must agree on: the engine's rules, and studies that break them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made.refusals import refused

from thunderherd.engine.catalogue import by_name, defaults
from thunderherd.engine.client import catalogue
from thunderherd.engine.setting_rules import Agreement, SettingValue
from thunderherd.study.file.names import bundled_studies
from thunderherd.study.loading import load_study

Values = dict[str, SettingValue]


@pytest.mark.parametrize(
    ("relation", "wanted", "allowed", "agree"),
    [
        ("at_most", 100, 100, True),
        ("at_most", 99, 100, True),
        ("at_most", 101, 100, False),
        ("at_most", False, True, True),
        ("at_most", True, False, False),
        ("equal", 64, 64, True),
        ("equal", 63, 64, False),
        ("equal", "long", "short", False),
        ("equal", "long", "long", True),
    ],
)
def test_settings_of_both_ends_agree_or_not(
    relation: str, wanted: SettingValue, allowed: SettingValue, agree: bool
) -> None:
    agreement = Agreement.model_validate({"client": "own", "relation": relation, "service": "other"})
    broken = agreement.broken({"own": wanted}, {"other": allowed})
    assert (broken is None) == agree
    if broken:
        message, hint = broken
        assert f"own = {json.dumps(wanted)}" in message and f"other = {json.dumps(allowed)}" in message
        assert hint


def test_largest_request_size_is_checked() -> None:
    agreement = Agreement(client="sizes", relation="at_most", service="limit")
    sizes = {"sizes": "uniform:64..128"}
    assert agreement.broken(sizes, {"limit": 128}, 128) is None
    assert "128" in (agreement.broken(sizes, {"limit": 127}, 128) or ("",))[0]
    assert agreement.broken({"sizes": "none"}, {"limit": 1}) is None
    assert agreement.broken({}, {"limit": 1}) is None


def test_defaults_agree(use_engine: Path) -> None:
    workloads = catalogue(use_engine).workloads
    assert {"bytes", "blast"} < {each.name for each in workloads if each.agreements}
    for workload in workloads:
        load, server = (
            defaults(by_name(each)) for each in (workload.client_settings, workload.service_settings)
        )
        assert [why for each in workload.agreements if (why := each.broken(load, server))] == []


@pytest.mark.parametrize(
    ("study", "override"),
    [
        ("erss-hw4", "load.settings.buckets=65536"),
        ("erss-hw4", "server.settings.delay_limit=0"),
        ("erss-hw4", "load.settings.keep_connections=true"),
        ("cse232-a2", "load.settings.form=long"),
    ],
)
def test_a_study_of_ends_that_contradict_each_other_is_refused(
    use_engine: Path, study: str, override: str
) -> None:
    offered = catalogue(use_engine)
    assert load_study(study, "quick", [], offered).name in bundled_studies()
    problems = refused(load_study, study, "quick", [override], offered)
    assert {each.code for each in problems} == {"study.contradicting_settings"}
    assert all(each.hint and override in str(each.where) for each in problems)
