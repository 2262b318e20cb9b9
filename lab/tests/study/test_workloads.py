"""A contender may have another workload than the others of its study, at both ends, with its own settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.refusals import places, refused

from thunderherd.engine import client
from thunderherd.study.loading import Study, load_study

TWO = """
name = "two"
title = "Two protocols"
question = "Which one?"
[measure]
metric = "gigabits_per_second"
[server]
workload = "blast"
settings = { repetition_limit = 5000 }
[load]
kind = "closed"
processes = 1
settings = { children = 1, loops = 1, repetitions = 4000 }
[sizes.quick]
repetitions = 2
[[contenders]]
name = "pieces"
design = "thread_per_client"
load = { primitive = "writev" }
[[contenders]]
name = "bulk"
design = "thread_per_client"
workload = "stream"
load = { settings = { stream_size = 6000000 } }
"""


def loaded(directory: Path, text: str = TWO, *overrides: str) -> Study:
    path = directory / "two.toml"
    path.write_text(text)
    return load_study(str(path), "quick", overrides, client.catalogue())


def test_each_contender_has_the_settings_of_its_own_protocol(tmp_path: Path, use_engine: Path) -> None:
    study = loaded(tmp_path)
    pieces, bulk = study.contender("pieces"), study.contender("bulk")
    assert (pieces.workload, pieces.load.workload) == ("blast", "blast")
    assert (bulk.workload, bulk.load.workload) == ("stream", "stream")
    assert (pieces.settings["repetition_limit"], pieces.load.settings["repetitions"]) == (5000, 4000)
    assert bulk.load.settings["stream_size"] == 6_000_000
    # Settings of the study's workload do not apply to the other one.
    assert not {"repetition_limit", "repetitions"} & {*bulk.settings, *bulk.load.settings}
    assert bulk.load.requests_per_trial == 1


def test_an_override_reaches_the_contender_that_has_the_setting(tmp_path: Path, use_engine: Path) -> None:
    study = loaded(tmp_path, TWO, "bulk.receive_size=4096", "load.settings.repetitions=100")
    assert study.contender("bulk").settings["receive_size"] == 4096
    assert study.contender("pieces").load.settings["repetitions"] == 100
    other = loaded(tmp_path, TWO, "contenders.pieces.workload=fields")
    assert (other.contender("pieces").workload, other.contender("bulk").workload) == ("fields", "stream")


@pytest.mark.parametrize(
    ("before", "after", "line", "code"),
    [
        ('workload = "stream"', 'workload = "steam"', 23, "study.unknown_workload"),
        ("stream_size = 6000000", "buffers = 15", 24, "study.unknown_setting"),
        ("repetitions = 4000", "repetitions = 6000", 13, "study.contradicting_settings"),
    ],
)
def test_mistakes_are_those_of_the_contenders_protocol(
    before: str, after: str, line: int, code: str, tmp_path: Path, use_engine: Path
) -> None:
    problems = refused(loaded, tmp_path, TWO.replace(before, after))
    assert f"{tmp_path / 'two.toml'}:{line}" in places(problems, code)
