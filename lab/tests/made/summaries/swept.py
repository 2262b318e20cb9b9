"""A study with a sweep, small enough for a test, and a catalogue that it fits."""

from __future__ import annotations

from pathlib import Path

from made import refusals
from made.paths import DATA
from made.refusals import below
from made.small_studies import SMALL_STUDY
from thunderherd.engine.catalogue import Catalogue, ChoiceSetting, Counter, IntegerSetting, Setting
from thunderherd.errors import Problem
from thunderherd.study.loading import Study, load_study


def time(name: str) -> Setting:
    return IntegerSetting(
        name=name, help="", kind="integer", unit="ns", resolution=10**6, minimum=0, maximum=10**13, default=0
    )


def offered() -> Catalogue:
    """The catalogue of the tests, with a load that may end by time and with counters that may be asked
    for."""
    found = Catalogue.model_validate_json((DATA / "catalogue.json").read_text())
    (closed,) = found.loads
    kept = ChoiceSetting(
        name="connections", help="", kind="choice", choices=("per_request", "kept"), default="per_request"
    )
    own = (*closed.settings, time("duration"), time("warm_up"), kept)
    ends = {"duration": "duration", "warm_up": "warm_up"}
    timed = closed.model_copy(update={"name": "timed", "settings": own, **ends})
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
[[sweeps.paper]]
file = "paper.csv"
metric = "server_cpu_per_connection"
point = "children"
columns = { prefork = "row2" }
note = "its own machine"
"""

CONTROL = """
[[contenders]]
name = "control"
control_of = "prefork"
settings = { nodelay = false }
"""

LONGER = {
    "looks = [10]": "looks = [12]",
    "looks = [10, 12, 16]": "looks = [14, 16]",
    "alpha_split = [0.3, 0.3, 0.4]": "alpha_split = [0.5, 0.5]",
}
"""More comparisons take more blocks."""


def _longer(text: str) -> str:
    for old, new in LONGER.items():
        text = text.replace(old, new)
    return text


STUDY = _longer(SMALL_STUDY) + CONTROL + SWEEP

ONE_KEY = 'key = "settings.pool"'
BOTH_KEYS = 'key = ["settings.pool", "load.settings.loops"]'
TWO_KEYS = STUDY.replace(ONE_KEY, BOTH_KEYS).replace('set = { "load.settings.loops" = 20 }\n', "")
"""The same with two keys that have the same value at each point."""

PAPER = "children,row2,other\n5,1.5,\n15,1.8,\n30,3.5,9\n"


def loaded(directory: Path, text: str = STUDY, *overrides: str, size: str = "quick") -> Study:
    (directory / "paper.csv").write_text(PAPER)
    path = directory / "swept.toml"
    path.write_text(text)
    return load_study(str(path), size, overrides, CATALOGUE)


def refused(directory: Path, text: str = STUDY, *overrides: str) -> tuple[Problem, ...]:
    """Return the problems of a study, with paths relative to the directory."""
    return below(directory, refusals.refused(loaded, directory, text, *overrides))
