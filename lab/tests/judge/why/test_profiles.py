"""Profiled trials: what the engine wrote, the files of the run, and the results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from made.extra_trials import NAMES, MakeRig, ProfiledRig, make_rig, profile_lines, write_lines
from made.refusals import refused

import thunderherd
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import EngineError
from thunderherd.judge.why.pairs import network_part
from thunderherd.judge.why.profile_files import file_name
from thunderherd.judge.why.profiles import differential_pairs
from thunderherd.records.explanation import Difference, Explanation, Range
from thunderherd.records.extra_trials import ContenderProfile, ProfilingSummary, Share, SideProfile
from thunderherd.records.profiled_trial import SideSamples, read_profile
from thunderherd.show.report.page import render
from thunderherd.show.report.profiles import copying_sentences
from thunderherd.show.sentences.left_out import where_drawn
from thunderherd.study.loading import Study, load_study

__all__ = ["make_rig"]


# The engine's lines


def test_a_side_is_cut_to_its_window(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "server.jsonl", profile_lines())
    found = SideSamples.of([file], (500, 1300))
    assert sorted(at for each in found.stacks for at in each.at_ns) == [
        0, 100, 200, 300, 400, 500, 600, 700,
    ]  # fmt: skip
    assert (found.outside, found.taken, found.cpu_ns, found.lost) == (4, 12, 12_000_000, 3)
    later = SideSamples.of([file], (500 - 300, 1300 - 300), lambda _: 300)
    assert later == found, "a clock that is ahead gives the same times in the window"
    whole = SideSamples.of([file, file], None)
    assert sum(len(each.at_ns) for each in whole.stacks) == 24 and whole.outside == 0
    assert {each.process for each in whole.stacks} == {0, 1}
    assert len(whole.functions) == len({tuple(each) for each in whole.functions})
    kept = SideSamples.model_validate_json(found.model_dump_json())
    assert kept.read() == found.read() and kept.read()[0].frames[0].symbol == "main"


def test_the_kernels_functions_may_have_no_names(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "server.jsonl", profile_lines(kernel_symbols="kptr_restrict is 2"))
    found = SideSamples.of([file], None)
    assert (found.kernel_symbols, found.why_no_kernel_symbols) == (False, "kptr_restrict is 2")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("{}\n", "line 1 "),
        ("nonsense\n", "line 1 "),
        (json.dumps(profile_lines()[0]) + '\n{"line": "other"}\n', "line 2 "),
        (json.dumps(profile_lines()[0]) + '\n{"line": "stack", "frames": 3}\n', "line 2 "),
    ],
)
def test_a_damaged_profile_is_reported_with_its_line(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "server.jsonl"
    file.write_text(text)
    with pytest.raises(EngineError, match=rf"{line}.*server\.jsonl"):
        read_profile(file)
    with pytest.raises(EngineError, match=r"missing.*No such file"):
        read_profile(tmp_path / "missing")


# Extra trials


@pytest.fixture
def rig(make_rig: MakeRig) -> ProfiledRig:
    """A study with two profiled trials of each contender."""
    made: ProfiledRig = make_rig(ProfiledRig)
    return made


def test_shares_of_samples_are_those_of_both_trials(rig: ProfiledRig) -> None:
    told = rig.of(rig.run())
    assert len(thunderherd.load(rig.directory).profiled()) == 6
    for each in told.contenders:
        assert set(each.sides) == {"server"}
        side = each.sides["server"]
        assert (side.event, side.samples, side.lost) == ("cpu-clock", 22, 6)
        assert side.copying is not None and side.copying.value == pytest.approx(6 / 22)
        assert 0 < side.copying.low < 6 / 22 < side.copying.high < 1
        assert side.copying_by_kind == {
            "across": pytest.approx(4 / 22), "kernel": 0, "program": pytest.approx(2 / 22),
        }  # fmt: skip
        assert side.network is not None and side.network.value == pytest.approx(4 / 22), "no copying"
        assert side.interrupts_off == pytest.approx(4 / 22)
        assert side.of_sampling == pytest.approx(2 / 24)
        assert side.unnamed == pytest.approx(2 / 22)
        assert side.covered == pytest.approx(1)
        assert [found.symbol for found in side.top][:3] == [
            "main",
            "rep_movs_alternative",
            "sock_def_readable",
        ]
    assert "profiles/" in (rig.directory / "README.md").read_text()


def test_the_folded_stacks_are_all_samples_that_count(rig: ProfiledRig) -> None:
    rig.run()
    lines = (rig.directory / "profiles" / "prefork.folded").read_text().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 22
    frames = ("thunderherd-engine", "main", "send", "tcp_sendmsg_[k]", "sock_def_readable_[k] 4")
    assert ";".join(frames) in lines
    assert not any("_raw_spin_unlock" in line or "perf_event" in line for line in lines)


def test_cycles_profile_has_no_interrupts_off_share(rig: ProfiledRig) -> None:
    rig.lines = profile_lines(event="cycles")
    side = rig.of(rig.run()).contenders[0].sides["server"]
    assert side.interrupts_off is None
    assert "_raw_spin_unlock_irqrestore" in {each.symbol for each in side.top}


def test_a_profile_that_cannot_be_read_makes_its_trial_invalid(rig: ProfiledRig) -> None:
    rig.lines = [{"line": "profile"}]
    for each in rig.of(rig.run()).contenders:
        assert each.trials == 0 and each.why is not None
        assert re.match(r"line 1 .*server\.jsonl.*: ", each.why)


def test_flame_graphs_that_cannot_be_drawn_are_a_note(rig: ProfiledRig) -> None:
    """The stand-in engine draws none."""
    summary = rig.run()
    assert where_drawn(summary, rig.directory) == ""
    notes = [note for note in summary.study.notes if note.startswith("no flame graph")]
    assert (
        len(notes) == 1
        and all(f"server of {each}" in notes[0] for each in ("iterative", "prefork"))
        and "`flame` failed" in notes[0]
    )
    assert rig.of(summary).differentials == []
    assert {each.sides["server"].flame_graph for each in rig.of(summary).contenders} == {None}


def test_a_report_shows_what_the_profiles_lack(rig: ProfiledRig) -> None:
    rig.lines[0]["system_ns"] = 40_000_000
    page = render(rig.run(), rig.directory)
    assert "30 % " in page and "18 samples lost" in page
    for reason in ("perf_event_paranoid is 2", "there is no PMU"):
        assert f": {reason}" in page


# A study that requests profiles


def test_a_study_requests_profiles(small_study_file: Path, some_catalogue: Catalogue) -> None:
    def load(*overrides: str) -> Study:
        return load_study(str(small_study_file), "quick", overrides, some_catalogue)

    assert not load().profiling.is_asked_for
    assert set(load("profiling.trials=1").profiling.contenders) == NAMES
    one = load("profiling.trials=1", 'profiling.contenders=["prefork"]', "profiling.frequency=97").profiling
    assert (one.contenders, one.frequency) == (["prefork"], 97)
    (problem,) = refused(load, "profiling.trials=1", 'profiling.contenders=["prefrok"]')
    assert '"prefrok"' in problem.message and "'prefork'" in str(problem)
    (problem,) = refused(load, 'profiling.event="instructions"')
    assert "profiling.event" in str(problem) and "instructions" in problem.message


def test_pairs_are_the_best_and_the_second_and_the_best_and_the_baseline(rig: ProfiledRig) -> None:
    contenders = rig.run().contenders
    names = [each.name for each in contenders]
    first, second, third = names
    assert differential_pairs(contenders, names, None) == [(first, second)]
    assert differential_pairs(contenders, names, third) == [(first, second), (first, third)]
    assert differential_pairs(contenders, names, second) == [(first, second)]
    assert differential_pairs(contenders, [first, third], None) == [(first, third)]
    assert differential_pairs(contenders, [first], None) == []


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "", ".hidden", "a.clients", "a-against-b", "x" * 300, "na\nme", "--output"]
)
def test_files_have_names_that_no_other_file_has(name: str) -> None:
    found = file_name(name)
    assert "/" not in found and not found.startswith((".", "-"))
    assert found != name and len(found) < 100 and found.isprintable()


def test_a_contenders_name_is_that_of_its_file_where_it_may_be() -> None:
    for name in ("prefork", "prefork@sizes=1024", "thread_per_client+x"):
        assert file_name(name) == name


# Their results


def test_network_code_is_a_share_of_cpu_time_of_judged_trials(rig: ProfiledRig) -> None:
    summary = rig.run()
    a, b = "prefork", "iterative"
    microseconds = {a: 80.0, b: 36.0}
    trials = [
        each.model_copy(
            update={
                "metrics": {
                    **(each.metrics or {}),
                    "server_cpu_per_request": microseconds.get(each.contender, 1.0) * 1e-6,
                }
            }
        )
        for each in thunderherd.load(rig.directory).trials
    ]
    between = Difference(a=8e-5, b=3.6e-5, value=4.4e-5, low=4e-5, high=5e-5, confidence=0.95, blocks=10)
    told = Explanation(a=a, b=b, side="server", per="request", difference=between, causes=[], trials=(1, 1))

    def part(side: str = "server", **changes: Any) -> Range | None:
        """Return the summary with these changes to the first contender's server profile."""
        profiles = rig.of(summary)
        changed = [
            each.model_copy(update={"sides": {"server": each.sides["server"].model_copy(update=changes)}})
            if each.contender == a
            else each
            for each in profiles.contenders
        ]
        update = {"profiles": profiles.model_copy(update={"contenders": changed})}
        return network_part(summary.model_copy(update=update), trials, told.model_copy(update={"side": side}))

    alike = part()
    assert alike is not None
    assert alike.value == pytest.approx(44e-6 * 4 / 22)
    assert alike.low < 0 < alike.value < alike.high, "22 samples tell little"
    half = part(network=Share(value=0.5, low=0.5, high=0.6, confidence=0.95))
    assert half is not None and half.value == pytest.approx(40e-6 - 36e-6 * 4 / 22)
    assert half.high - half.value > 8e-6
    few = told.model_copy(
        update={"difference": between.model_copy(update={"low": None, "high": None, "confidence": 1.0})}
    )
    found = network_part(summary, trials, few)
    assert found is not None and found.value == alike.value, "too few blocks for an interval"
    assert part(network=None) is None
    assert part("both") is None, "the clients were not sampled"
    assert part(covered=0.5) is None, "those that live shortly were missed"
    assert part(covered=0.5, why_not_cpus=None) is not None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"why_not_cpus": "it is 1", "covered": 0.14}, " 14 % "),
        ({"why_not_cpus": "it is 1", "covered": 0.95}, None),
        ({"kernel_symbols": False}, " kernel "),
    ],
)
def test_a_share_of_copying_has_its_limits(changes: dict[str, Any], words: str | None) -> None:
    side = SideProfile(
        event="cycles", why_not_cycles=None, frequency_hertz=997, samples=111, covered=1.0, why_not_cpus=None,
        of_sampling=0.0, lost=0, throttled=0, kernel_symbols=True, copying_by_kind={}, unnamed=0.0,
        copying=Share(value=0.1, low=0.05, high=0.2, confidence=0.95), interrupts_off=None, top=[],
        folded="", flame_graph=None,
    )  # fmt: skip
    told = ContenderProfile(
        contender="a", trials=1, requests=1, sides={"server": side.model_copy(update=changes)}
    )
    summary = ProfilingSummary(trials=1, frequency_hertz=997, contenders=[told])
    (sentence,) = copying_sentences(summary, ["a"])
    assert (words or "20.0).") in sentence
    assert sentence.endswith("20.0).") == (words is None)
