"""What counting the processor's events costs: pairs of trials in the run, and where the result is reported.

The trials are invented; a stand-in marks those that count as the engine does.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made.refusals import refused
from made.summaries.trials import made_trial

import thunderherd
from thunderherd.cli.main import run_command
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import catalogue
from thunderherd.engine.lines import Life, Multiplexing
from thunderherd.machine import description
from thunderherd.metrics.table import METRICS
from thunderherd.records.extra_trials import CostEstimate
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.run import runner
from thunderherd.run.counting_cost import FAILED_WITHOUT, FEW_SECONDS
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.show.report.page import render
from thunderherd.show.sentences.counting_cost import about_cpu_time, about_metrics, cost_lines
from thunderherd.show.sentences.tables import warnings
from thunderherd.show.tables.main import pairs_legend
from thunderherd.study.loading import Contender, Study, load_study

ASKED = 'measure.counters=["cpu/cycles/","r00c0","context_switches"]'
EVENTS = ["cpu/cycles/", "r00c0"]
BY_DECREE = "a stand-in for the processor's counters"


def life(counted: dict[str, bool]) -> Life:
    """A process that counted these events, on a counter of the processor or not."""
    told = {
        name: Multiplexing(counted=5, enabled_ns=100, running_ns=100) for name, own in counted.items() if own
    }
    return Life(
        user_ns=1, system_ns=1, voluntary_switches=0, involuntary_switches=0, minor_faults=0, major_faults=0,
        counters=dict.fromkeys(counted, 5), multiplexing=told, elapsed_ns=1, status=0,
    )  # fmt: skip


class Rig:
    """A study on invented trials: with counters, a request costs `factor` times as much."""

    def __init__(self, study: Study, directory: Path) -> None:
        self.study, self.directory = study, directory
        self.factor: Callable[[str], float] = lambda name: 1.5
        self.has_events = True
        self.seconds = 0.4
        self.stop_after = 10**9
        self.ran: list[tuple[str, int, bool]] = []
        self.judged = 0
        self.valid: Callable[[str, bool], bool] = lambda name, counts: True
        self.said = io.StringIO()

    def run_trial(self, study: Study, contender: Contender, **where: Any) -> TrialRecord:
        del where["engine"], where["site"], where["profiles"]
        name, block = contender.name, where["block"]
        counts = bool(study.measure.counters)
        last = self.judged >= 10 * len(self.study.contenders)
        if last:
            if len(self.ran) >= self.stop_after:
                raise KeyboardInterrupt
            self.ran.append((name, block, counts))
        else:
            self.judged += 1
        made = made_trial(study, name, **where, valid=not last or self.valid(name, counts))
        told = dict.fromkeys(study.measure.counters_asked, False)
        told |= {each: self.has_events for each in EVENTS if each in told}
        cost = 40e-6 * (1 + block / 100) * (self.factor(name) if counts else 1.0)
        return made.model_copy(
            update={
                "wall_seconds": self.seconds,
                "server_life": life(told),
                "metrics": {
                    **(made.metrics or {}),
                    "server_cpu_per_request": cost,
                    "server_cpu_per_connection": cost,
                    "client_cpu_per_request": 30e-6,
                },
            }
        )

    def run(self, **how: Any) -> Summary:
        return run_study(self.study, self.directory, seed=5, show=PlainProgress(self.said), **how)


@pytest.fixture
def make(
    small_study_file: Path,
    some_catalogue: Catalogue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake_engine: Callable[..., Path],
) -> Callable[..., Rig]:
    fake_engine()
    here = {"kernel": "Linux", "engine": {"sha256": "0"}, "cpu": {"model": "A CPU"}, "hypervisor": BY_DECREE}
    monkeypatch.setattr(description, "describe", lambda engine=None: here)

    def made(*overrides: str) -> Rig:
        study = load_study(str(small_study_file), "quick", [*overrides], some_catalogue)
        rig = Rig(study, tmp_path / "run")
        monkeypatch.setattr(runner, "run_trial", rig.run_trial)
        return rig

    return made


NAMES = ["iterative", "fork_per_client", "prefork"]


def test_pairs_run_after_all_other_trials_and_give_a_ratio(make: Callable[..., Rig]) -> None:
    rig = make(ASKED)
    summary = rig.run()
    assert summary.trials.valid == 30, "none of the pairs is judged"
    assert sorted(rig.ran) == sorted(
        (name, number, counts) for name in NAMES for number in range(1, 7) for counts in (True, False)
    )
    assert {name for name, _, _ in rig.ran[:6]} == {*NAMES}, "a pair of each before another of any"
    firsts = [rig.ran[place][2] for place in range(0, 36, 2)]
    assert firsts.count(True) == firsts.count(False), "which of a pair is first alternates"
    cost = summary.counting_cost
    assert cost is not None and cost.events == EVENTS
    assert cost.counters == [*EVENTS, "context_switches"]
    for each in cost.contenders:
        server, client = (each.ratio(f"{side}_cpu_per_request") for side in ("server", "client"))
        assert server is not None and client is not None and server.pairs == 6
        assert math.isclose(server.value, 1.5) and server.low is not None and server.confidence >= 0.95
        assert math.isclose(client.value, 1.0)
    readme = (rig.directory / "README.md").read_text()
    for file in ("with_counters.jsonl", "without_counters.jsonl"):
        assert file in readme and len((rig.directory / file).read_text().splitlines()) == 18


def test_the_cost_is_noted_with_every_figure_verdict_and_explanation(
    make: Callable[..., Rig], capsys: pytest.CaptureFixture[str]
) -> None:
    rig = make(ASKED)
    summary = rig.run()
    (line,) = cost_lines(summary)
    assert "1.50" in line and "iterative (1.50 to 1.50)" in line and "6 pairs" in line
    assert "hypervisor" in line
    assert line in warnings(summary) and line in about_cpu_time(summary)
    (verdict,) = about_metrics(summary, ["server_cpu_per_connection"])
    assert METRICS["server_cpu_per_connection"].words in verdict and "3 %" in verdict
    assert verdict in pairs_legend(summary)
    (of_counter,) = about_metrics(summary, ["server.cpu/cycles/_per_request"])
    assert METRICS["server_cpu_per_request"].words in of_counter, "trials without counters have no cycles"
    assert "1.50" in of_counter
    assert about_metrics(summary, ["client.cpu/cycles/_per_request"]) == []
    assert about_metrics(summary, ["connections_per_second"]) == []
    page = render(summary)
    assert page.count("iterative (1.50 to 1.50)") >= 2
    assert run_command(["table", str(rig.directory), "--counters"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "iterative (1.50 to 1.50)" in shown


def test_insignificant_counting_cost_is_no_warning(make: Callable[..., Rig]) -> None:
    rig = make(ASKED)
    rig.factor = lambda name: 1.01
    summary = rig.run()
    (line,) = cost_lines(summary)
    assert "1.01" in line and "iterative" in line and "3 %" in line
    assert about_metrics(summary, ["server_cpu_per_connection"]) == [] == about_cpu_time(summary)


@pytest.mark.parametrize(
    ("overrides", "has_events"),
    [
        ([ASKED, "counting_cost.trials=0"], True),
        ([ASKED], False),
        ([], True),
        (['measure.counters=["context_switches"]'], True),
    ],
    ids=["not wanted", "the machine has no such events", "no counters", "no events of the processor"],
)
def test_no_pairs_run_if_there_is_nothing_to_compare(
    overrides: list[str], has_events: bool, make: Callable[..., Rig]
) -> None:
    rig = make(*overrides)
    rig.has_events = has_events
    summary = rig.run()
    assert rig.ran == [] and summary.counting_cost is None and cost_lines(summary) == []
    assert not (rig.directory / "with_counters.jsonl").exists()


def test_a_resumed_run_runs_the_missing_pairs(make: Callable[..., Rig]) -> None:
    rig = make(ASKED, 'counting_cost.contenders=["prefork"]')
    rig.stop_after = 1
    with pytest.raises(KeyboardInterrupt):
        rig.run()
    told = thunderherd.load(rig.directory).summary
    assert told is not None and told.counting_cost is None and cost_lines(told) == []
    rig.stop_after = 10**9
    cost = rig.run(resume=True).counting_cost
    assert len(rig.ran) == 12 == len(set(rig.ran))
    assert cost is not None and [each.contender for each in cost.contenders] == ["prefork"]
    assert rig.run(resume=True).counting_cost == cost and len(rig.ran) == 12


def test_pairs_keep_to_their_time_limit(make: Callable[..., Rig]) -> None:
    rig = make(ASKED)
    rig.seconds = FEW_SECONDS / 2
    cost = rig.run().counting_cost
    # A tenth of thirty such trials is as long as three of them, which is more than the few seconds.
    assert len(rig.ran) == 6, "a pair of each, and no further one"
    assert cost is not None
    (ratio,) = [each for each in cost.contenders[0].ratios if each.metric == "server_cpu_per_request"]
    assert (ratio.pairs, ratio.low, ratio.high) == (1, None, None)
    assert run_again(rig) == 6, "nor when the run is gone on with"


def run_again(rig: Rig) -> int:
    rig.run(resume=True)
    return len(rig.ran)


def test_a_contender_without_a_pair_has_its_reason(make: Callable[..., Rig]) -> None:
    rig = make(ASKED)
    rig.valid = lambda name, counts: counts or name != "prefork"
    cost = rig.run().counting_cost
    assert cost is not None
    assert {each.contender: each.why for each in cost.contenders} == {
        "iterative": None, "fork_per_client": None, "prefork": "load: errors: 2 refused",
    }  # fmt: skip
    assert f"prefork {FAILED_WITHOUT}: load: errors: 2 refused" in rig.said.getvalue()


def test_study_names_the_contenders_of_the_pairs(small_study_file: Path, some_catalogue: Catalogue) -> None:
    def load(*overrides: str) -> Study:
        return load_study(str(small_study_file), "quick", [*overrides], some_catalogue)

    assert load().counting_cost.contenders == [], "it asks for no counter"
    assert load(ASKED).counting_cost.contenders == NAMES
    assert load(ASKED, 'counting_cost.contenders=["prefork"]').counting_cost.contenders == ["prefork"]
    (problem,) = refused(load, ASKED, 'counting_cost.contenders=["preforc"]')
    assert problem.code == "study.unknown_contender" and "'prefork'" in problem.hint


def test_bundled_studies_have_a_few_and_no_control(use_engine: Path) -> None:
    for name in ("cse232-a2", "cse638-pa02"):
        study = load_study(name, "quick", [], catalogue())
        assert 1 <= len(study.counting_cost.contenders) <= 3
        assert all(study.contender(each).control_of is None for each in study.counting_cost.contenders)


def test_ratio_is_beyond_only_if_its_whole_interval_is() -> None:
    def ratio(low: float | None, high: float | None, least: float, most: float) -> CostEstimate:
        return CostEstimate(
            metric="m", value=1.1, low=low, high=high, confidence=0.95, least=least, most=most, pairs=6
        )

    assert ratio(1.04, 1.2, 0.9, 1.3).is_beyond(3)
    assert not ratio(1.02, 1.2, 1.1, 1.3).is_beyond(3)
    assert ratio(0.5, 0.96, 0.5, 0.99).is_beyond(3)
    assert ratio(None, None, 1.05, 1.2).is_beyond(3)
    assert not ratio(None, None, 1.0, 1.2).is_beyond(3)
