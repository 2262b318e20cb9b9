"""Overrides that no contender would have are refused with a suggestion."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made.refusals import refused as problems_of
from made.small_studies import SMALL_STUDY
from made.summaries.swept import STUDY, SWEEP, loaded, refused

from thunderherd.engine.client import catalogue
from thunderherd.study.checks.unused_overrides import NO_EFFECT
from thunderherd.study.loading import load_study

ADVICE = re.compile(r"--set '(.+)' \(")
"""What a hint says to type."""

ONLY_SWEEP = STUDY.replace("[sizes.quick]", '[sizes.quick]\nparts = ["pool_size"]')
TABLES = (
    ONLY_SWEEP[: ONLY_SWEEP.index("[[sweeps.paper]]")]
    .replace('key = "settings.pool"\n', "")
    .replace(
        "[5, 10, 30]",
        """[
    { name = "few", set = { "settings.pool" = 5, "load.processes" = 1 } },
    { name = "many", set = { "settings.pool" = 30, "load.processes" = 3 } },
]""",
    )
)


@pytest.mark.parametrize(
    ("text", "override", "typed"),
    [
        (ONLY_SWEEP, "load.settings.loops=7", "sweeps.pool_size.load.settings.loops=7"),
        (ONLY_SWEEP, "loops=7", "sweeps.pool_size.load.settings.loops=7"),
        (ONLY_SWEEP, "pool=7", "sweeps.pool_size.values=[7]"),
        (ONLY_SWEEP, "contenders.prefork.settings.pool=7", "sweeps.pool_size.values=[7]"),
        (
            TABLES,
            "load.processes=2",
            'sweeps.pool_size.values=[{ name = "2", set = { "settings.pool" = 5, "load.processes" = 2 } }]',
        ),
    ],
)
def test_override_without_effect_is_refused_with_a_suggestion(
    text: str, override: str, typed: str, tmp_path: Path
) -> None:
    (problem,) = refused(tmp_path, text, override)
    assert (problem.code, problem.where) == (NO_EFFECT, f"--set {override}")
    (advice,) = ADVICE.findall(problem.hint)
    assert advice == typed
    study = loaded(tmp_path, text, advice)
    assert [each for each in study.contenders if each.sweep == "pool_size"]


def test_an_override_of_one_contender_has_an_effect(tmp_path: Path) -> None:
    assert loaded(tmp_path, STUDY, "load.settings.loops=7").contender("iterative").load.settings["loops"] == 7
    # Of the sweep's two contenders, each owns a pool; and so does one of the main table.
    assert loaded(tmp_path, STUDY, "pool=7").contender("prefork").settings["pool"] == 7
    assert loaded(tmp_path, ONLY_SWEEP, "backlog=7").contender("prefork@pool_size=5").settings["backlog"] == 7
    assert (
        loaded(tmp_path, ONLY_SWEEP, "load.processes=3").contender("control@pool_size=5").load.processes == 3
    )


def test_an_override_of_a_sweep_that_the_size_leaves_out_is_refused(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, STUDY, "parts=['main']", "pool_size.values=[7]")
    assert (problem.code, problem.where, problem.hint) == (NO_EFFECT, "--set pool_size.values=[7]", "")


def test_an_override_of_a_study_without_sweeps_has_an_effect(tmp_path: Path) -> None:
    assert SWEEP not in SMALL_STUDY
    assert loaded(tmp_path, SMALL_STUDY, "load.settings.loops=7").load.settings["loops"] == 7


TIMED = SMALL_STUDY.replace('kind = "closed"', 'kind = "timed"').replace(
    "settings = { ", 'settings = { duration = "50ms", warm_up = "10ms", ', 1
)


def test_a_number_of_requests_is_refused_where_the_load_ends_by_time(tmp_path: Path) -> None:
    assert loaded(tmp_path, TIMED).load.is_timed
    (problem,) = refused(tmp_path, TIMED, "load.settings.loops=7")
    assert (problem.code, problem.where) == (NO_EFFECT, "--set load.settings.loops=7")
    advice = re.findall(r"--set (\S+=0)", problem.hint)
    assert advice == ["load.settings.duration=0", "load.settings.warm_up=0"]
    load = loaded(tmp_path, TIMED, "load.settings.loops=7", *advice).load
    assert load.settings["loops"] == 7 and not load.is_timed and "loops" in load.engine_settings
    # The same if the user overrides the time of a load that ends by its number.
    (problem,) = refused(tmp_path, SMALL_STUDY.replace('"closed"', '"timed"'), "loops=7", "duration=50ms")
    assert (problem.code, problem.where) == (NO_EFFECT, "--set loops=7")
    assert 'duration = "50ms"' in problem.message


def test_a_sweep_over_the_number_of_requests_ends_by_it(tmp_path: Path) -> None:
    text = STUDY.replace('kind = "closed"', 'kind = "timed"').replace(
        'set = { "load.settings.loops" = 20 }', 'set = { "load.settings.duration" = "50ms" }'
    )
    own = "[[sweeps.paper]]"
    text = text[: text.index(own)]
    loops = text.replace('key = "settings.pool"', 'key = "load.settings.loops"')
    assert loaded(tmp_path, text).contender("prefork@pool_size=5").load.is_timed
    (problem,) = refused(tmp_path, loops)
    assert problem.code == "study.no_effect" and problem.where.startswith("swept.toml:")
    assert "sweep pool_size" in problem.message and 'duration = "50ms"' in problem.message
    advice = ["load.settings.duration=0", "load.settings.warm_up=0"]
    assert re.findall(r"\S+=0", problem.hint) == advice
    counted = loaded(tmp_path, loops.replace('duration" = "50ms"', 'duration" = 0'))
    assert counted.contender("prefork@pool_size=5").load.requests_per_trial == 20, "2 x 2 clients, 5 each"


@pytest.mark.parametrize(
    ("override", "name", "buffers", "size"),
    [
        ("load.settings.buffers=20", "20", 20, 75),
        # No 7 pieces of one size are 1,500 bytes.
        ("load.settings.buffers=7", "6", 6, 250),
        ("load.settings.buffer_size=1500", "1500", 1, 1500),
        ("load.settings.buffer_size=1499", "1500", 1, 1500),
    ],
)
def test_the_buffers_of_css503_are_those_of_its_sweeps_and_make_an_iteration(
    use_engine: Path, override: str, name: str, buffers: int, size: int
) -> None:
    (problem,) = problems_of(load_study, "css503-p4", "quick", [override], catalogue())
    assert problem.code == NO_EFFECT
    (advice,) = re.findall(r"--set '(sweeps\.buffers\.values=.+?\}\])' \(", problem.hint)
    pieces = f'"load.settings.buffers" = {buffers}, "load.settings.buffer_size" = {size}'
    assert advice == f'sweeps.buffers.values=[{{ name = "{name}", set = {{ {pieces} }} }}]'
    study = load_study("css503-p4", "quick", [advice], catalogue())
    load = study.contender(f"writev@buffers={name}").load
    assert (load.settings["buffers"], load.settings["buffer_size"]) == (buffers, size)


@pytest.mark.parametrize(
    ("sweep", "size"), [("buffers", "quick"), ("nagle_off", "quick"), ("loopback", "full")]
)
def test_buffers_that_make_no_iteration_are_refused_before_the_first_trial(
    sweep: str, size: str, use_engine: Path
) -> None:
    """Of any part, alone or among others."""
    values = '[{ name = "7", set = { "load.settings.buffers" = 7, "load.settings.buffer_size" = 100 } }]'
    overrides = [f"sweeps.{sweep}.values={values}"]
    problems = problems_of(load_study, "css503-p4", size, overrides, catalogue())
    assert {problem.code for problem in problems} == {"blast.not_an_iteration"}
    for wanted in ("buffers = 7", "buffer_size = 100", "700", "1500", "buffers = 10", "buffer_size = 150"):
        assert all(wanted in str(problem) for problem in problems)
