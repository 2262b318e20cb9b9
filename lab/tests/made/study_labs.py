"""A small study with a lab, and catalogues of engines that support labs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made.refusals import below
from made.refusals import refused as problems_of
from made.small_studies import SMALL_STUDY
from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import Problem
from thunderherd.study.loading import Study, load_study

NODELAY = {"name": "nodelay", "help": "", "kind": "boolean", "default": True}
CONGESTION = {"name": "congestion", "help": "", "kind": "text", "longest": 15, "default": "default"}
NETEM = "this kernel has no netem"


def whole(
    name: str, minimum: int, maximum: int, default: int, unit: str | None = None, resolution: int = 1
) -> dict[str, Any]:
    return {
        "name": name, "help": "", "kind": "integer", "unit": unit, "resolution": resolution,
        "minimum": minimum, "maximum": maximum, "default": default,
    }  # fmt: skip


PAIR = {
    "settings": [
        whole("mtu", 68, 65_535, 1500),
        whole("rate", 0, 10**12, 0, "bit/s"),
        whole("delay", 0, 10**10, 0, "ns", 1000),
        whole("loss", 0, 10**6, 0, "ppm"),
    ],
    "local_ports": [1024, 65_535],
    "least": {"rate": 8000},
    "available": True,
    "unavailable_settings": {"delay": NETEM, "loss": NETEM},
}


def with_labs(some_catalogue: Catalogue, **changes: Any) -> Catalogue:
    """What an engine may offer that knows labs."""
    known = some_catalogue.model_dump(mode="json", by_alias=True)
    of_tcp = [NODELAY, CONGESTION]
    for key in ("server_settings", "load_settings"):
        known[key] = [*(each for each in known[key] if each["name"] != "nodelay"), *of_tcp]
    known["designs"][0]["tcp_only"] = "it shares a port"
    offered = {
        "tcp_settings": ["nodelay", "congestion"],
        "congestion_controls": {
            "default": "bbr",
            "available": ["reno", "bbr", "cubic"],
            "allowed": ["reno", "bbr"],
        },
        "namespace": PAIR,
    }
    return Catalogue.model_validate({**known, **offered, **changes})


@pytest.fixture
def catalogue(some_catalogue: Catalogue) -> Catalogue:
    return with_labs(some_catalogue)


STUDY = SMALL_STUDY.replace('design = "iterative"', 'design = "prethread"')
"""Its first contender is of a design that does without TCP."""

OF_UNIX = '[lab]\nkind = "unix"\n'


def loaded(folder: Path, catalogue: Catalogue, more: str = "", overrides: tuple[str, ...] = ()) -> Study:
    path = folder / "small.toml"
    path.write_text(STUDY + more)
    return load_study(str(path), "quick", overrides, catalogue)


def refused(
    folder: Path, catalogue: Catalogue, more: str = "", overrides: tuple[str, ...] = ()
) -> tuple[Problem, ...]:
    return below(folder, problems_of(loaded, folder, catalogue, more, overrides))
