"""Counted trials: their counts in the summary, and the explanations of `explain`."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from made.extra_trials import COUNTED, NAMES, CountedRig, MakeRig, make_rig
from made.refusals import codes_printed, refused
from made.small_studies import head
from made.summaries.trials import made_trial

import thunderherd
from thunderherd.cli.main import run_command
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import catalogue
from thunderherd.errors import UserError
from thunderherd.judge.why import pairs
from thunderherd.judge.why.counts import counting_summary
from thunderherd.judge.why.pairs import best_against_others, explained, place_of
from thunderherd.records.extra_trials import WHAT_EXPLAINS
from thunderherd.records.limits import MachineLimits
from thunderherd.records.summary import Summary
from thunderherd.run.counted import shortened
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.show.report.page import render
from thunderherd.show.terminal.study import print_study
from thunderherd.study.loading import Study, load_study
from thunderherd.text.layout import make_console

__all__ = ["make_rig"]

WHY = '<h2 class="head">Why</h2>'


@pytest.fixture
def rig(make_rig: MakeRig) -> CountedRig:
    """A study with two counted trials of each contender."""
    made: CountedRig = make_rig(CountedRig)
    return made


def test_counts_are_per_request_and_per_byte(rig: CountedRig) -> None:
    summary = rig.run()
    assert thunderherd.load(rig.directory).frame().height == 30
    assert "server_cpu_per_request" not in summary.contenders[0].metrics
    lines = (rig.directory / "counted.jsonl").read_text().splitlines()
    assert {json.loads(line)["kind"] for line in lines} == {"trial"}
    for file in ("unavailable.csv", "extrapolated.csv"):
        assert file in (rig.directory / "README.md").read_text() and (rig.directory / file).exists()
    for each in rig.of(summary).contenders:
        server = each.sides["server"]
        assert server.counts["system_calls.read"].per_request == 5
        assert server.counts["system_calls.read"].per_byte == 0.005
        assert "system_calls.clone" not in server.counts
        assert server.counts["bytes_copied"].per_request == 1010


def test_a_study_requests_counted_trials(small_study_file: Path, some_catalogue: Catalogue) -> None:
    def load(*overrides: str) -> Study:
        return load_study(str(small_study_file), "quick", overrides, some_catalogue)

    assert load().counting.contenders == []
    every = load("counting.trials=1").counting
    assert set(every.contenders) == NAMES and "system_calls" in every.counters
    one = load(
        "counting.trials=1", 'counting.contenders=["prefork"]', 'counting.counters=["wakeups", "r003c"]'
    ).counting
    assert one.contenders == ["prefork"]
    assert one.counters == [*WHAT_EXPLAINS, "r003c"], "what explains a difference, each once, and others"
    (problem,) = refused(load, "counting.trials=1", 'counting.counters=["wakeup"]')
    assert "'wakeups'" in str(problem)
    (problem,) = refused(load, "counting.trials=1", 'counting.contenders=["prefrok"]')
    assert problem.code == "study.unknown_contender" and "'prefork'" in problem.hint


def test_windows_of_very_many_requests_are_shortened(rig: CountedRig) -> None:
    contender = rig.study.contender("prefork")
    assert shortened(contender) == contender
    load = contender.load.model_copy(update={"settings": {**contender.load.settings, "loops": 3000}})
    long = contender.model_copy(update={"load": load})
    assert long.load.requests_per_trial == 12_000
    assert shortened(long).load.requests_per_trial == 2000
    assert shortened(long).load.settings["children"] == 2
    for kept in ({"trial": "whole_life"}, {"at_least": {"server_reads": 3000.0}}):
        assert shortened(long.model_copy(update=kept)).load.requests_per_trial == 12_000


@pytest.mark.parametrize(
    ("primitive", "share", "copied"),
    [("send_each", None, 1010), ("zero_copy", 0.25, 260), ("zero_copy", 1.0, 1010), ("lends", None, 10)],
)
def test_bytes_that_were_not_copied_are_not_counted(
    rig: CountedRig, primitive: str, share: float | None, copied: float
) -> None:
    contender = rig.study.contender("iterative").model_copy(update={"primitive": primitive})
    trial = made_trial(rig.study, "iterative", 1)
    metrics = {**(trial.metrics or {}), **COUNTED, "server.copied_share": share}
    table = rig.study.counting.model_copy(update={"contenders": ["iterative"]})
    told = counting_summary(table, [contender], [trial.model_copy(update={"metrics": metrics})], {"lends"})
    assert told.contenders[0].sides["server"].counts["bytes_copied"].per_request == copied


# explain ----------------------------------------------------------------------------------------------------


def test_explain_refuses_with_a_command_to_type(rig: CountedRig, capsys: pytest.CaptureFixture[str]) -> None:
    summary = rig.run()
    trials = thunderherd.load(rig.directory).trials

    def said(*words: str) -> str:
        assert run_command(["explain", str(rig.directory), *words]) == 2
        return capsys.readouterr().err

    wrong = said("prefrok", "iterative")
    assert codes_printed(wrong) == ["explain.unknown_contender"]
    assert '"prefrok"' in wrong and "'prefork'" in wrong
    twice = said("prefork", "prefork")
    assert codes_printed(twice) == ["explain.same_contender"] and " prefork " in twice
    assert codes_printed(said("prefork")) == ["explain.one_contender"]
    wrong = said("prefork", "iterative", "--per", "reqest")
    assert codes_printed(wrong) == ["explain.unknown_unit"] and '"reqest"' in wrong
    assert "explain.no_limits" in codes_printed(said())
    again = "--size quick --set counting.trials=2 --set measure.limits=3s`"
    assert again in " ".join(said("prefork", "iterative").split())
    limits = MachineLimits(cpus=[0], settings={}, figures=[])
    for case, code, typed in (
        ({"limits": limits, "counting": None}, "no_counted_trials", "--size quick --set counting.trials=1`"),
        ({"counting": None}, "no_limits", "--set measure.limits=3s --set counting.trials=1`"),
        ({"limits": limits}, "no_cpu_time", ""),
    ):
        changed = summary.model_copy(update=case)
        with pytest.raises(UserError) as refusal:
            explained(changed, trials, "prefork", "iterative", side="server", where="run")
        (problem,) = refusal.value.problems
        assert problem.code == f"explain.{code}" and typed in problem.hint
    uncounted = summary.model_copy(update={"counting": None})
    assert WHY in render(summary) and WHY not in render(uncounted)


def test_a_control_is_not_the_best_of_a_table(rig: CountedRig) -> None:
    summary = rig.run()
    first, *others = summary.contenders
    control = first.model_copy(update={"name": "control", "rank": None})
    ordered = [each.model_copy(update={"rank": rank}) for rank, each in enumerate([first, *others], start=1)]
    for contenders in ([control, *ordered], [*ordered, control]):
        assert [each.name for each in sorted(contenders, key=place_of)][-1] == "control"


STUDY = head(
    "reasons",
    measure='baseline = "iterative"\n',
    load="processes = 1\nwarm_up_connections = 20\n",
    settings="children = 1, loops = 150, bytes = 4000",
) + "".join(
    f'[[contenders]]\nname = "{name}"\ndesign = "{name}"\n'
    for name in ("iterative", "fork_per_client", "thread_per_client")
)


def test_fork_per_client_is_explained_by_processes(
    use_engine: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "reasons.toml"
    sizes = "[counting]\ntrials = 1\n[sizes.quick]\nrepetitions = 3\n[[contenders]]\n"
    path.write_text(STUDY.replace("[[contenders]]\n", sizes, 1))
    study = load_study(str(path), "quick", ["measure.limits=600ms"], catalogue())
    summary = run_study(study, tmp_path / "run", seed=1, show=PlainProgress(io.StringIO()))
    assert summary.counting is not None and summary.limits is not None
    fork = summary.counting.of("fork_per_client")
    assert fork is not None
    if "system_calls" not in fork.sides["server"].counts:
        assert fork.sides["server"].unavailable["system_calls"]
        pytest.skip(f"system calls: {fork.sides['server'].unavailable['system_calls']}")
    made = sum(
        each.per_request
        for name, each in fork.sides["server"].counts.items()
        if name in ("system_calls.clone", "system_calls.clone3", "system_calls.fork", "system_calls.vfork")
    )
    assert made == pytest.approx(1, abs=0.05)
    # Whatever else this machine does meanwhile: of prices the best round, which such bursts do not reach.
    # What is a difference of two has none.
    best = [
        each if each.best is None else each.model_copy(update={"value": each.best, "low": None, "high": None})
        for each in summary.limits.figures
    ]
    calm = summary.model_copy(update={"limits": summary.limits.model_copy(update={"figures": best})})
    every = best_against_others(calm, thunderherd.load(tmp_path / "run").trials)
    assert len(every) == len(summary.explanations) == 4
    found = [each for each in every if (each.b, each.side) == ("fork_per_client", "server")]
    assert [each.a for each in found] == ["iterative"]
    assert found[0].causes[0].cause == "processes", found[0]
    total = sum(each.amount.value for each in found[0].causes if each.amount)
    assert total == pytest.approx(found[0].difference.value)
    [threads] = [
        each for each in summary.explanations if (each.b, each.side) == ("thread_per_client", "server")
    ]
    by_cause = {each.cause: each for each in threads.causes}
    assert (by_cause["threads"].b, by_cause["processes"].b) == (pytest.approx(1, abs=0.05), 0)

    page = render(summary)
    assert WHY in page and "exit_group" in page
    console = make_console(io.StringIO())
    print_study(summary, console, tmp_path / "run")
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"Why thunderherd explain {tmp_path / 'run'}" in " ".join(printed.split())
    assert run_command(["explain", str(tmp_path / "run"), "fork_per_client", "iterative"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"\b1 .*process\b", told) and "exit_group" in told
    assert run_command(["explain", str(tmp_path / "run"), "--json"]) == 0
    assert {each["a"] for each in json.loads(capsys.readouterr().out)} == {"iterative"}

    told_of = pairs.explained

    def partly(summary: Summary, trials: Any, a: str, b: str, **words: Any) -> Any:
        if b == "fork_per_client":
            raise UserError("not this")
        return told_of(summary, trials, a, b, **words)

    monkeypatch.setattr(pairs, "explained", partly)
    assert run_command(["explain", str(tmp_path / "run")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "than thread_per_client" in told, "one pair that cannot be told keeps no other from it"
    assert "fork_per_client: not this" in told
