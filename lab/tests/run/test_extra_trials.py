"""Extra trials of a run, counted or profiled: separate from the judged ones, resumed, and invalid ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from made.extra_trials import NAMES, CountedRig, ExtraRig, MakeRig, ProfiledRig, make_rig

import thunderherd
from thunderherd.errors import Refusal
from thunderherd.show.report.page import render
from thunderherd.study.loading import Contender

__all__ = ["make_rig"]


@pytest.fixture(params=[CountedRig, ProfiledRig])
def rig(request: pytest.FixtureRequest, make_rig: MakeRig) -> ExtraRig:
    """A study with two extra trials of each contender, of either kind."""
    made: ExtraRig = make_rig(request.param)
    return made


def test_extra_trials_run_after_judged_ones_into_their_own_file(rig: ExtraRig) -> None:
    summary = rig.run()
    assert rig.judged == 30 and summary.trials.valid == 30
    assert sorted(rig.ran) == sorted((name, number, 1) for name in NAMES for number in (1, 2))
    assert len(thunderherd.load(rig.directory).trials) == 30
    assert len((rig.directory / rig.file).read_text().splitlines()) == 6
    assert rig.file in (rig.directory / "README.md").read_text()
    found = rig.of(summary)
    assert found.trials == 2 and {each.contender for each in found.contenders} == NAMES
    assert {(each.trials, each.requests, each.why) for each in found.contenders} == {(2, 200, None)}


def test_a_resumed_run_runs_the_missing_extra_trials(rig: ExtraRig) -> None:
    rig.stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    begun = thunderherd.load(rig.directory).summary
    assert begun is not None
    assert sorted(each.trials for each in rig.of(begun).contenders) == [0, 1, 1]
    assert [bool(each.why) for each in rig.of(begun).contenders] == [
        not each.trials for each in rig.of(begun).contenders
    ]
    path = rig.directory / rig.file
    path.write_text(path.read_text() + '{"schema": 4, "kind": "tri')
    rig.stop_after, first = 10**9, list(rig.ran)
    summary = rig.run(resume=True)
    assert rig.judged == 30
    assert len(rig.ran) == 6 and len(set(rig.ran)) == 6 and rig.ran[:2] == first
    assert {each.trials for each in rig.of(summary).contenders} == {2}
    again = rig.run(resume=True)
    assert len(rig.ran) == 6 and rig.of(again).contenders == rig.of(summary).contenders


def test_invalid_extra_trial_is_repeated_once_then_has_a_reason(rig: ExtraRig) -> None:
    def outcome(contender: Contender, block: int, attempt: int) -> dict[str, Any]:
        bad = contender.name == "prefork" or (contender.name == "iterative" and attempt == 1)
        return {"valid": not bad}

    rig.outcome = outcome
    summary = rig.run()
    assert sorted(each for each in rig.ran if each[0] == "prefork") == [
        ("prefork", block, attempt) for block in (1, 2) for attempt in (1, 2)
    ]
    assert rig.ran.count(("iterative", 1, 2)) == 1
    prefork = rig.of(summary).of("prefork")
    assert prefork is not None and (prefork.trials, prefork.sides) == (0, {})
    assert prefork.why and prefork.why.startswith("load: ")
    for page in (rig.said.getvalue(), render(summary, rig.directory)):
        assert re.search(rf"prefork [a-z ]+: {re.escape(prefork.why)}", page)


def test_a_refusal_of_an_extra_trial_ends_no_run(rig: ExtraRig) -> None:
    rig.refusal = Refusal("perf_event_open: Permission denied")
    summary = rig.run()
    assert summary.trials.valid == 30
    assert {each.why for each in rig.of(summary).contenders} == {str(rig.refusal)}
    assert str(rig.refusal) in render(summary, rig.directory)
