"""The study of a crossover over a lab setting: each of its sizes is a lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made.refusals import refused
from made.summaries.crossed import asked, study_of
from made.summaries.swept import CATALOGUE

from thunderherd.engine.catalogue import IntegerSetting, Namespace
from thunderherd.records.crossover import CrossoverSummary
from thunderherd.search.crossover_study import coarse_study, dense_study


def whole(
    name: str, minimum: int, maximum: int, unit: str | None = None, resolution: int = 1
) -> IntegerSetting:
    return IntegerSetting(
        name=name, help="", kind="integer", unit=unit, resolution=resolution,
        minimum=minimum, maximum=maximum, default=max(0, minimum),
    )  # fmt: skip


PAIR = Namespace(
    settings=(
        whole("mtu", 68, 65_535),
        whole("rate", 0, 10**12, "bit/s"),
        whole("delay", 0, 10**10, "ns", 1000),
        whole("loss", 0, 10**6, "ppm"),
    ),
    local_ports=(1024, 65_535),
    least={"rate": 8000},
    available=True,
)
WITH_VETH = CATALOGUE.model_copy(update={"namespace": PAIR})


@pytest.mark.parametrize(
    ("over", "setting", "of_unit", "sizes"),
    [
        ("mtu=1500..6000", "mtu", 1, [1500, 3000, 6000]),
        ("lab.mtu=1500..6000", "mtu", 1, [1500, 3000, 6000]),
        ("rate=100mbit..10gbit", "rate", 1, [10**8, 10**9, 10**10]),
        ("delay=1ms..100ms", "delay", 1000, [1000, 10_000, 100_000]),
        ("loss=0.1%..10%", "loss", 10**4, [0.1, 1, 10]),
    ],
)
def test_sweep_over_a_lab_setting_gives_each_point_its_own_lab(
    tmp_path: Path, over: str, setting: str, of_unit: int, sizes: list[float]
) -> None:
    coarse = coarse_study(asked(over=over, points=3, lab=("veth",)), WITH_VETH)
    study = study_of(coarse, tmp_path / "coarse.toml", catalogue=WITH_VETH)
    assert [point.number for point in study.sweeps[0].points] == sizes
    values = [size * of_unit for size in sizes]
    assert [each.lab.settings[setting] for each in study.contenders[::2]] == values
    assert len({each.lab.network for each in study.contenders}) == 3
    assert study.notes == ("lab: veth",), "and no word of an MTU that only some have"
    nothing = dict.fromkeys(CrossoverSummary.model_fields)
    found = CrossoverSummary.model_construct(**nothing | {"points": [], "blocks": 12})
    tables = dense_study(coarse, sizes[1:], found, (1, 1))
    dense = study_of(tables, tmp_path / "dense.toml", catalogue=WITH_VETH)
    assert [each.lab.settings[setting] for each in dense.contenders[::2]] == values[1:]


NETEM = {"delay": "this kernel has no netem"}


EXCEEDS, UNKNOWN = "crossover.over_exceeds_setting", "crossover.over_unknown"


@pytest.mark.parametrize(
    ("changes", "code", "facts"),
    [
        ({"over": "mtu=1500..9000"}, "crossover.over_of_other_lab", ["lab loopback", "--lab veth"]),
        (
            {"over": "lab.rate=1gbit..2gbit", "lab": ("unix",)},
            "crossover.over_of_other_lab",
            ["lab unix has no rate", "--lab veth"],
        ),
        ({"over": "mtu=9..9000", "lab": ("veth",)}, EXCEEDS, ["68 to 65535", "--over mtu=68..9000"]),
        ({"over": "rate=1gbit..9000gbit", "lab": ("veth",)}, EXCEEDS, ["--over rate=1gbit..1000gbit"]),
        (
            {"over": "rate=1bit..1gbit", "lab": ("veth",)},
            EXCEEDS,
            ["8kbit to 1000gbit", "--over rate=8kbit..1gbit"],
        ),
        ({"over": "rate=0bit..1gbit", "lab": ("veth",)}, EXCEEDS, ["--over rate=8kbit..1gbit"]),
        ({"over": "delay=0us..1ms", "lab": ("veth",)}, "crossover.over_unavailable", [*NETEM.values()]),
        (
            {"over": "loss=0%..1%", "lab": ("veth",)},
            EXCEEDS,
            ["0.0001% to 100%", "--over loss=0.0001%..1%"],
        ),
        ({"over": "rate=1..9", "lab": ("veth",)}, "quantity.no_unit", ["1gbit or 1mbit"]),
        ({"over": "delay=1ms..9ms", "lab": ("veth",)}, "crossover.over_unavailable", [*NETEM.values()]),
        (
            {"over": "mtu=1500..9000", "lab": ("veth", "mtu=9000")},
            "crossover.over_is_fixed",
            ["--over mtu", "leave --lab mtu=9000 out"],
        ),
        ({"over": "rte=1gbit..2gbit", "lab": ("veth",)}, UNKNOWN, ['"rte"', "'rate'?"]),
        ({"over": "lab.rte=1gbit..2gbit"}, UNKNOWN, ['"rte"', "'rate'?"]),
        ({"over": "zzzz=1gbit..2gbit"}, UNKNOWN, ['"zzzz"', "known: "]),
        ({"over": "lab.mut=68..9000", "lab": ("veth",)}, UNKNOWN, ["'mtu'?"]),
        (
            {"lab": ("veth,mtu=9000",)},
            "lab.several_values",
            ["--lab veth,mtu=9000", "--lab veth --lab mtu=9000"],
        ),
    ],
)
def test_key_that_the_lab_lacks_is_refused_with_a_suggestion(
    changes: dict[str, Any], code: str, facts: list[str]
) -> None:
    pair = PAIR.model_copy(update={"unavailable_settings": NETEM})
    catalogue = CATALOGUE.model_copy(update={"namespace": pair})
    (problem,) = refused(coarse_study, asked(**changes), catalogue)
    assert problem.code == code
    assert [fact for fact in facts if fact not in str(problem)] == []
