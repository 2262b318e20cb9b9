"""What the two ends of a workload must agree on, as the engine says it and as a study is refused by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from thunderherd.engine.catalogue import by_name, defaults
from thunderherd.engine.client import catalogue
from thunderherd.engine.setting_rules import Agreement, SettingValue
from thunderherd.errors import UserError
from thunderherd.study.file.names import bundled_studies
from thunderherd.study.loading import load_study

Values = dict[str, SettingValue]


@pytest.mark.parametrize(
    ("relation", "asked", "given", "says"),
    [
        ("at_most", 100, 100, None),
        ("at_most", 99, 100, None),
        ("at_most", 101, 100, "lower own of the load or raise other of the server"),
        ("at_most", False, True, None),
        ("at_most", True, False, "turn it on for both"),
        ("equal", 64, 64, None),
        ("equal", 63, 64, "the load has own = 63, the server other = 64"),
        ("equal", "long", "short", 'own = "long", the server other = "short"'),
        ("equal", "long", "long", None),
    ],
)
def test_what_breaks_an_agreement(
    relation: str, asked: SettingValue, given: SettingValue, says: str | None
) -> None:
    agreement = Agreement.model_validate({"client": "own", "relation": relation, "service": "other"})
    found = agreement.broken({"own": asked}, {"other": given})
    assert (found is None) == (says is None)
    assert says is None or says in (found or "")


def test_the_largest_of_sizes_counts() -> None:
    agreement = Agreement(client="sizes", relation="at_most", service="limit")
    sizes = {"sizes": "uniform:64..128"}
    assert agreement.broken(sizes, {"limit": 128}, 128) is None
    assert "128" in (agreement.broken(sizes, {"limit": 127}, 128) or "")
    assert agreement.broken({"sizes": "none"}, {"limit": 1}) is None
    assert agreement.broken({}, {"limit": 1}) is None


def test_whoever_says_nothing_has_ends_that_agree(use_engine: Path) -> None:
    workloads = catalogue(use_engine).workloads
    assert {"bytes", "blast"} < {each.name for each in workloads if each.agreements}
    for workload in workloads:
        load, server = (
            defaults(by_name(each)) for each in (workload.client_settings, workload.service_settings)
        )
        assert [why for each in workload.agreements if (why := each.broken(load, server))] == []


@pytest.mark.parametrize(
    ("study", "override", "says"),
    [
        (
            "erss-hw4",
            "load.settings.buckets=65536",
            "lower buckets of the load or raise buckets of the server",
        ),
        ("erss-hw4", "server.settings.delay_limit=0", "which is less"),
        ("erss-hw4", "load.settings.keep_connections=true", "turn it on for both, or off for the load"),
        ("cse232-a2", "load.settings.form=long", 'the load has form = "long", the server form = "short"'),
    ],
)
def test_a_study_of_ends_that_contradict_each_other_is_refused(
    use_engine: Path, study: str, override: str, says: str
) -> None:
    offered = catalogue(use_engine)
    assert load_study(study, "quick", [], offered).name in bundled_studies()
    with pytest.raises(UserError) as refused:
        load_study(study, "quick", [override], offered)
    assert says in str(refused.value)
