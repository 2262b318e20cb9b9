"""What the two ends of a workload must agree on, as the engine says it and as a study is refused by it."""

from __future__ import annotations

import re
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
    ("relation", "of_load", "of_server", "values"),
    [
        ("at_most", 100, 100, None),
        ("at_most", 99, 100, None),
        ("at_most", 101, 100, r"own\b.* 101\b.*other\b.* 100\b"),
        ("at_most", False, True, None),
        ("at_most", True, False, r"\bown\b.*\bother\b"),
        ("equal", 64, 64, None),
        ("equal", 63, 64, "own = 63, .*other = 64"),
        ("equal", "long", "short", 'own = "long", .*other = "short"'),
        ("equal", "long", "long", None),
    ],
)
def test_a_broken_agreement_is_reported_with_both_settings(
    relation: str, of_load: SettingValue, of_server: SettingValue, values: str | None
) -> None:
    agreement = Agreement.model_validate({"client": "own", "relation": relation, "service": "other"})
    found = agreement.broken({"own": of_load}, {"other": of_server})
    assert (found is None) == (values is None)
    assert values is None or re.search(values, found or "")


def test_the_largest_of_sizes_counts() -> None:
    agreement = Agreement(client="sizes", relation="at_most", service="limit")
    sizes = {"sizes": "uniform:64..128"}
    assert agreement.broken(sizes, {"limit": 128}, 128) is None
    assert "128" in (agreement.broken(sizes, {"limit": 127}, 128) or "")
    assert agreement.broken({"sizes": "none"}, {"limit": 1}) is None
    assert agreement.broken({}, {"limit": 1}) is None


def test_default_settings_of_both_ends_agree(use_engine: Path) -> None:
    workloads = catalogue(use_engine).workloads
    assert {"bytes", "blast"} < {each.name for each in workloads if each.agreements}
    for workload in workloads:
        load, server = (
            defaults(by_name(each)) for each in (workload.client_settings, workload.service_settings)
        )
        assert [why for each in workload.agreements if (why := each.broken(load, server))] == []


@pytest.mark.parametrize(
    ("study", "override", "values"),
    [
        ("erss-hw4", "load.settings.buckets=65536", r"\bbuckets\b.*\b65536\b"),
        ("erss-hw4", "server.settings.delay_limit=0", r"\bdelay_limit\b.*\b0\b"),
        ("erss-hw4", "load.settings.keep_connections=true", r"\bkeep_connections\b"),
        ("cse232-a2", "load.settings.form=long", 'form = "long", .*form = "short"'),
    ],
)
def test_a_study_whose_ends_contradict_each_other_is_refused(
    use_engine: Path, study: str, override: str, values: str
) -> None:
    offered = catalogue(use_engine)
    assert load_study(study, "quick", [], offered).name in bundled_studies()
    problems = refused(load_study, study, "quick", [override], offered)
    assert {each.code for each in problems} == {"study.contradicting_settings"}
    assert all(re.search(values, str(each)) for each in problems), problems
