"""The points of sweeps that are counted, the command for others, and counters that describe one moment."""

from __future__ import annotations

import html
import io
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from made.refusals import refused
from made.shown.tables import heads
from made.small_studies import head
from made.summaries.trials import made_trial

from thunderherd.cli.main import run_command
from thunderherd.engine import client as engine
from thunderherd.engine.catalogue import Catalogue
from thunderherd.judge.why.counts import NOT_REPORTED, counting_summary
from thunderherd.judge.why.pairs import explained, is_first
from thunderherd.machine import description
from thunderherd.records.extra_trials import WHAT_EXPLAINS
from thunderherd.records.limits import MachineLimits
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.run import runner
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.show.report.page import render
from thunderherd.show.report.why import why_section
from thunderherd.show.sentences.explanation import elsewhere, why_lines
from thunderherd.show.terminal.study import print_study
from thunderherd.study.file.names import bundled_studies
from thunderherd.study.loading import Contender, Study, load_study
from thunderherd.text.layout import make_console

COUNTED = {
    **{
        f"{side}.{name}_per_request": 5.0
        for side in ("server", "client", "both")
        for name in ("system_calls",)
    },
    "server_cpu_per_request": 1e-4,
}
POINTS = ["1", "2", "5"]
STUDY = (
    head("points", measure='baseline = "iterative"\n')
    + "[counting]\ntrials = 1\n[sizes.quick]\nrepetitions = 1\n"
    + "".join(f'[[contenders]]\nname = "{name}"\ndesign = "{name}"\n' for name in ("iterative", "prefork"))
    + '[[sweeps]]\nname = "clients"\ntitle = "Over clients"\n'
    + 'key = "load.settings.children"\nvalues = [1, 2, 5]\n'
    + 'contenders = ["iterative", "prefork"]\n'
)


@pytest.fixture
def study(tmp_path: Path, some_catalogue: Catalogue) -> Study:
    path = tmp_path / "points.toml"
    path.write_text(STUDY)
    return load_study(str(path), "quick", ["measure.limits=0"], some_catalogue)


@pytest.fixture
def summary(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_engine: Callable[..., Path]
) -> Summary:
    """A run of trials that never happened."""
    fake_engine()
    here = {"kernel": "Linux", "engine": {"sha256": "0"}, "cpu": {"model": "A CPU"}}
    monkeypatch.setattr(description, "describe", lambda engine=None: here)

    def run_trial(of: Study, contender: Contender, **where: Any) -> TrialRecord:
        for each in ("engine", "site", "profiles"):
            del where[each]
        made = made_trial(of, contender.name, **where)
        return made.model_copy(update={"metrics": {**(made.metrics or {}), **COUNTED}})

    monkeypatch.setattr(runner, "run_trial", run_trial)
    return run_study(study, tmp_path / "run", seed=5, show=PlainProgress(io.StringIO()))


def test_the_main_table_and_both_ends_of_each_sweep_are_counted(study: Study) -> None:
    assert study.counting.contenders == [
        "iterative", "prefork", "iterative@clients=1", "prefork@clients=1", "iterative@clients=5",
        "prefork@clients=5",
    ]  # fmt: skip
    assert study.profiling.contenders == [], "what is sampled is asked for by itself"


def test_sweep_names_counted_points_and_the_command_for_others(
    summary: Summary, capsys: pytest.CaptureFixture[str]
) -> None:
    (sweep,) = summary.sweeps
    assert (sweep.counted_points, sweep.uncounted_points) == (["1", "5"], ["2"])
    words = elsewhere(summary, sweep)
    assert words is not None
    command = words.split("`")[1]
    assert shlex.split(command)[-1] == 'counting.contenders=["iterative@clients=2", "prefork@clients=2"]'
    first, second = why_lines(summary, sweep)
    assert "`thunderherd explain DIR iterative@clients=5 prefork@clients=5`" in first
    assert words in second
    page = html.unescape(render(summary))
    assert words.split("`")[0] in page and "explain DIR iterative@clients=5" in page
    print_study(summary, make_console())
    text = " ".join(capsys.readouterr().out.split())
    assert "Why, at 1, 5:" in text and words.split("`")[0].strip() in text


def test_suggested_command_counts_the_other_points(summary: Summary, some_catalogue: Catalogue) -> None:
    (sweep,) = summary.sweeps
    words = elsewhere(summary, sweep)
    assert words is not None
    _, _, path, _, size, *sets = shlex.split(words.split("`")[1])
    overrides = [word for word in sets if word != "--set"]
    again = load_study(path, size, overrides, some_catalogue)
    assert again.counting.contenders == ["iterative@clients=2", "prefork@clients=2"]
    assert again.counting.trials == 1 and again.measure.limits == 3_000_000_000, "prices are needed too"


def test_explain_suggests_a_command_for_an_uncounted_point(
    summary: Summary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    priced = summary.model_copy(update={"limits": MachineLimits(cpus=[0], settings={}, figures=[])})
    trials: list[TrialRecord] = []
    pair = ("iterative@clients=2", "prefork@clients=2")
    (problem,) = refused(explained, priced, trials, *pair, side="server")
    assert problem.code == "explain.not_counted" and ": 1, 5)" in problem.message
    assert f'counting.contenders=["{pair[0]}", "{pair[1]}"]' in problem.hint
    assert run_command(["explain", str(tmp_path / "run"), "iterative@clients=2", "prefork@clients=2"]) == 2
    assert "measure.limits=3s" in capsys.readouterr().err


def test_contenders_of_the_main_table_come_first(summary: Summary) -> None:
    assert is_first(summary, "prefork") and not is_first(summary, "prefork@clients=5")
    alone = summary.model_copy(update={"contenders": [each for each in summary.contenders if each.sweep]})
    assert is_first(alone, "prefork@clients=5") and not is_first(alone, "prefork@clients=1")


def test_counts_of_each_point_have_a_table_of_their_own(summary: Summary) -> None:
    view = why_section(summary)
    assert view is not None
    captions = [each.caption.partition(":")[0] for each in view.counted if "Clients" not in each.caption]
    assert all(caption.endswith("Server") for caption in captions)
    assert [re.findall(r"clients .*(\d)", caption) for caption in captions] == [[], ["1"], ["5"]]
    assert all(len(heads(each)) == 2 for each in view.counted)


# Counters of one moment -------------------------------------------------------------------------------------

UNITS = {
    "tcp_info": "connections", "tcp_info.retransmits": "segments",
    "tcp_info.rtt": "nanoseconds", "memory": "bytes",
}  # fmt: skip


def with_states(summary: Summary, study: Study, *told: Mapping[str, float | None]) -> Summary:
    table = study.counting.model_copy(update={"contenders": ["iterative"]})
    trials = []
    for each in told:
        made = made_trial(study, "iterative", 1)
        trials.append(made.model_copy(update={"metrics": {**(made.metrics or {}), **each}}))
    counting = counting_summary(table, study.contenders, trials, (), UNITS)
    return summary.model_copy(update={"counting": counting})


def test_states_have_units_and_are_never_per_request(summary: Summary, study: Study) -> None:
    one = {
        "server.tcp_info.retransmits": 3,
        "server.tcp_info.rtt": 2e-5,
        "server.memory_per_connection": 90_000.0,
    }
    changed = with_states(summary, study, one, {**one, "server.tcp_info.retransmits": 5})
    assert changed.counting is not None
    server = changed.counting.contenders[0].sides["server"]
    sent_again = server.states["tcp_info.retransmits"]
    assert (sent_again.value, sent_again.least, sent_again.most, sent_again.unit) == (4, 3, 5, "segments")
    assert server.states["tcp_info.rtt"].unit == "seconds"
    assert server.states["memory_per_connection"].unit == "bytes"
    assert (
        server.unavailable["memory"] == NOT_REPORTED
        and not changed.counting.contenders[0].sides["both"].states
    )
    assert "tcp_info" not in server.unavailable, "its parts are told, and it has no figure of its own"
    without = with_states(summary, study, {}).counting
    assert without is not None
    assert {*without.contenders[0].sides["server"].unavailable} == {"tcp_info", "memory"}, (
        "none of it is told"
    )
    page = render(changed)
    for text in (
        "tcp info, retransmits (segments)",
        "tcp info, rtt (µs)",
        "memory per connection (KiB)",
        f"{90_000 / 1024:.1f}",
    ):
        assert text in page, text


@pytest.mark.parametrize(("name", "counter"), [("cse638-pa02", "tcp_info"), ("erss-hw4", "memory")])
def test_bundled_studies_count_states_only_in_counted_trials(name: str, counter: str) -> None:
    study = load_study(name, "quick", [], engine.catalogue())
    assert study.counting.counters == [*WHAT_EXPLAINS, counter], "besides what explains a difference"
    assert counter not in study.measure.counters_asked
    counted = set(study.counting.contenders)
    assert all(each.load.is_timed for each in study.contenders if each.name in counted), (
        "windows that end by time"
    )


@pytest.mark.parametrize("name", sorted(bundled_studies()))
def test_counting_is_a_small_part_of_a_bundled_run(name: str) -> None:
    study = load_study(name, "quick", [], engine.catalogue())
    judged = len(study.contenders) * max(look.blocks for look in study.looks)
    assert len(study.counting.contenders) * study.counting.trials <= 0.2 * judged
