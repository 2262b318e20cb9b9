"""What `--set` gives another value reaches a contender, or is refused with what to type instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made.small_studies import SMALL_STUDY
from made.summaries.swept import STUDY, SWEEP, loaded, refused

from thunderherd.engine.client import catalogue
from thunderherd.study.loading import load_study

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
def test_a_value_that_nothing_would_have_is_refused_with_what_to_type(
    text: str, override: str, typed: str, tmp_path: Path
) -> None:
    (line,) = refused(tmp_path, text, override)
    assert line.startswith(f"--set {override}: it would have no effect, as everything that size quick runs")
    assert f"(--set '{typed}')" in line, line
    (advice,) = re.findall(r"--set '(.+)'\)$", line)
    study = loaded(tmp_path, text, advice)
    assert [each for each in study.contenders if each.sweep == "pool_size"]


def test_what_one_contender_at_least_has_is_set(tmp_path: Path) -> None:
    assert loaded(tmp_path, STUDY, "load.settings.loops=7").contender("iterative").load.settings["loops"] == 7
    # Of the sweep's two contenders, each owns a pool; and so does one of the main table.
    assert loaded(tmp_path, STUDY, "pool=7").contender("prefork").settings["pool"] == 7
    assert loaded(tmp_path, ONLY_SWEEP, "backlog=7").contender("prefork@pool_size=5").settings["backlog"] == 7
    assert (
        loaded(tmp_path, ONLY_SWEEP, "load.processes=3").contender("control@pool_size=5").load.processes == 3
    )


def test_what_the_size_does_not_run_cannot_be_set(tmp_path: Path) -> None:
    (line,) = refused(tmp_path, STUDY, "parts=['main']", "pool_size.values=[7]")
    said = "--set pool_size.values=[7]: it would have no effect: nothing that size quick runs has it"
    assert line == said


def test_a_study_without_sweeps_is_set_as_before(tmp_path: Path) -> None:
    assert SWEEP not in SMALL_STUDY
    assert loaded(tmp_path, SMALL_STUDY, "load.settings.loops=7").load.settings["loops"] == 7


TIMED = SMALL_STUDY.replace('kind = "closed"', 'kind = "timed"').replace(
    "settings = { ", "settings = { milliseconds = 50, warm_up_milliseconds = 10, ", 1
)


def test_a_number_of_requests_is_refused_where_the_load_ends_by_time(tmp_path: Path) -> None:
    assert loaded(tmp_path, TIMED).load.is_timed
    (line,) = refused(tmp_path, TIMED, "load.settings.loops=7")
    assert line.startswith("--set load.settings.loops=7: it would have no effect: the load ends by time ")
    advice = re.findall(r"--set (\S+=0)", line)
    assert advice == ["load.settings.milliseconds=0", "load.settings.warm_up_milliseconds=0"]
    load = loaded(tmp_path, TIMED, "load.settings.loops=7", *advice).load
    assert load.settings["loops"] == 7 and not load.is_timed and "loops" in load.told
    # And the other way round: time is given to a load that ended by its number.
    (line,) = refused(tmp_path, SMALL_STUDY.replace('"closed"', '"timed"'), "loops=7", "milliseconds=50")
    assert line.startswith(
        "--set loops=7: it would have no effect: the load ends by time (milliseconds = 50)"
    )


def test_a_sweep_over_the_number_of_requests_ends_by_it(tmp_path: Path) -> None:
    text = STUDY.replace('kind = "closed"', 'kind = "timed"').replace(
        'set = { "load.settings.loops" = 20 }', 'set = { "load.settings.milliseconds" = 50 }'
    )
    own = "[[sweeps.paper]]"
    text = text[: text.index(own)]
    loops = text.replace('key = "settings.pool"', 'key = "load.settings.loops"')
    assert loaded(tmp_path, text).contender("prefork@pool_size=5").load.is_timed
    (line,) = refused(tmp_path, loops)
    assert "sweep pool_size: loops would have no effect: the load ends by time (milliseconds = 50)" in line
    assert line.startswith("swept.toml:")
    assert line.endswith("give load.settings.milliseconds=0 and load.settings.warm_up_milliseconds=0")
    counted = loaded(tmp_path, loops.replace('milliseconds" = 50', 'milliseconds" = 0'))
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
    with pytest.raises(Exception, match="no effect") as refusal:
        load_study("css503-p4", "quick", [override], catalogue())
    (advice,) = re.findall(r"--set '(sweeps\.buffers\.values=.+?\}\])'\)", str(refusal.value))
    pieces = f'"load.settings.buffers" = {buffers}, "load.settings.buffer_size" = {size}'
    assert advice == f'sweeps.buffers.values=[{{ name = "{name}", set = {{ {pieces} }} }}]'
    study = load_study("css503-p4", "quick", [advice], catalogue())
    load = study.contender(f"writev@buffers={name}").load
    assert (load.settings["buffers"], load.settings["buffer_size"]) == (buffers, size)


@pytest.mark.parametrize(
    ("sweep", "size"), [("buffers", "quick"), ("nagle_off", "quick"), ("loopback", "full")]
)
def test_pieces_that_are_no_iteration_are_refused_before_the_first_trial(
    sweep: str, size: str, use_engine: Path
) -> None:
    """Of any part, alone or among others."""
    values = '[{ name = "7", set = { "load.settings.buffers" = 7, "load.settings.buffer_size" = 100 } }]'
    with pytest.raises(Exception, match="700") as refusal:
        load_study("css503-p4", size, [f"sweeps.{sweep}.values={values}"], catalogue())
    said = str(refusal.value)
    assert "buffers = 7 and buffer_size = 100, whose product is 700; it must be 1500" in said
    assert "the nearest that fit are buffers = 10 and buffer_size = 150" in said
