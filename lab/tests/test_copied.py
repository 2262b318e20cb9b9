"""What was copied although it was not to be: counted in a trial, and said beside every figure of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SMALL_STUDY, made_trial
from rich.console import Console
from test_plots import svg_texts

from thunderherd.analysis import summarise
from thunderherd.catalogue import Catalogue
from thunderherd.matrices import why_none
from thunderherd.metrics import metric, metric_names
from thunderherd.records import Summary
from thunderherd.report import render
from thunderherd.study import Study, load_study
from thunderherd.sweep_plots import sweep_chart
from thunderherd.tables import print_claims, print_study
from thunderherd.trial import run_trial

STUDY = (
    SMALL_STUDY.replace('kind = "closed"\n', 'kind = "closed"\nreceive = "test_discard"\n')
    .replace('name = "small"\n', 'name = "small"\nclaims = "claims.toml"\n', 1)
    .replace("looks = [10", "looks = [11")
    .replace("[11, 12, 16]", "[11, 12, 16]")
    + """
[[sweeps]]
name = "size"
title = "Replies of two sizes"
key = "load.settings.bytes"
values = [100, 200]
contenders = ["fork_per_client", "prefork"]
metrics = ["server.copied_share"]
"""
)
CLAIMS = """
study = "small"
source = "an example"
[[claims]]
id = "C1"
statement = "A child for each client costs more than a pool"
paper_figure = "none"
paper_data_supports = "yes"
metric = "server_cpu_per_connection"
tests = [{ label = "fork minus pool", weights = { fork_per_client = 1, prefork = -1 } }]
[[claims]]
id = "C2"
statement = "A child for each client costs more than none"
paper_figure = "none"
paper_data_supports = "yes"
metric = "server_cpu_per_connection"
tests = [{ label = "fork minus iterative", weights = { fork_per_client = 1, iterative = -1 } }]
[[questions]]
id = "Q1"
text = "What does a pool cost?"
metric = "server_cpu_per_connection"
answer = ["{cost}."]
[questions.figures]
cost = { weights = { prefork = 1 } }
"""
SENT = "the server's sends that were not to copy were copied after all"
RECEIVED = "the bytes that the clients' end was to receive without copying were copied after all"


@pytest.fixture
def study(tmp_path: Path, some_catalogue: Catalogue) -> Study:
    (tmp_path / "small.toml").write_text(STUDY)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    return load_study(str(tmp_path / "small.toml"), "quick", [], some_catalogue)


@pytest.fixture
def summary(study: Study) -> Summary:
    """Of a pool that sends without copying, as its clients receive: all is copied, or 3/4 at one point."""
    shares = {"prefork": 1.0, "prefork@size=100": 1.0, "prefork@size=200": 0.75}
    trials = []
    for block in range(1, 12):
        for contender in study.contenders:
            made = made_trial(study, contender.name, block, cost=(20 + block) * 1e-6)
            more = {
                "server.copied_share": shares.get(contender.name),
                "client.not_copied_share": 0.5,
                "server.not_copied_share": 0.0,
            }
            trials.append(made.model_copy(update={"metrics": {**(made.metrics or {}), **more}}))
    return summarise(study, trials, {"kernel": "Linux"}, seed=1, started="now")


def test_a_trial_counts_it_on_both_sides(
    fake_engine: Callable[..., Path], study: Study, some_catalogue: Catalogue
) -> None:
    fake_engine("zero_copy")
    found = run_trial(study, study.contender("prefork"), block=1, position=1, seed=1)
    assert found.valid, found.invalid_reasons
    assert found.metrics is not None
    assert found.metrics["server.copied_share"] == pytest.approx(0.25)
    assert found.metrics["server.completions"] == 100
    assert found.metrics["client.copied_share"] is None, "the clients sent nothing without copying"
    assert found.metrics["client.not_copied_share"] == pytest.approx(0.25)
    assert found.metrics["server.not_copied_share"] == 0
    assert {"server.copied_share", "client.not_copied_share"} <= set(metric_names())
    assert metric("server.copied_share").words == "copied share of the server"


def test_who_sent_nothing_so_has_no_share_and_says_why(summary: Summary) -> None:
    fork = next(each for each in summary.contenders if each.name == "fork_per_client")
    assert "server.copied_share" not in fork.metrics
    assert why_none("server.copied_share", fork) == "nothing was sent without copying"


def test_the_share_stands_with_the_notes_and_in_the_captions(summary: Summary) -> None:
    assert f"prefork: 75 % to 100 % of {SENT}" in summary.study.notes
    everybody = "iterative, fork_per_client, prefork"
    assert f"{everybody}: 50 % of {RECEIVED}" in summary.study.notes
    assert not any("the server's end" in note for note in summary.study.notes), "it stores what it receives"
    (sweep,) = summary.sweeps
    assert sweep.remarks == [
        f"fork_per_client, prefork: 50 % of {RECEIVED}",
        f"prefork: 75 % to 100 % of {SENT}",
    ]


def test_claims_and_answers_have_it_where_they_are_about_such_a_contender(summary: Summary) -> None:
    about, not_about = summary.claims
    assert f"prefork: 100 % of {SENT}" in about.our_figure
    assert SENT not in not_about.our_figure
    assert RECEIVED in not_about.our_figure
    (answer,) = summary.questions
    assert f"prefork: 100 % of {SENT}" in (answer.note or "")


def test_it_is_shown_wherever_figures_are(summary: Summary) -> None:
    for printed in (print_study, print_claims):
        out = io.StringIO()
        printed(summary, Console(file=out, width=100))
        assert SENT in " ".join(out.getvalue().split()), printed.__name__
    shown = " ".join(render(summary).replace("&#39;", "'").split())
    assert shown.count(SENT) >= 3


def test_of_whoever_copies_by_right_nothing_is_said(small_study: Study) -> None:
    trials = [
        made_trial(small_study, each.name, block) for block in range(1, 11) for each in small_study.contenders
    ]
    found = summarise(small_study, trials, {}, seed=1, started="now")
    assert not any("copied after all" in note for note in found.study.notes)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("name", [None, "server.copied_share"])
def test_a_chart_that_is_taken_out_of_its_report_has_it(
    summary: Summary, name: str | None, narrow: bool
) -> None:
    (sweep,) = summary.sweeps
    texts = " ".join(svg_texts(sweep_chart(summary, sweep, name, narrow=narrow)))
    assert all(remark in texts for remark in sweep.remarks), texts


def test_the_report_has_the_names_of_contenders_as_they_are(summary: Summary) -> None:
    assert "Beside each figure: fork_per_client, prefork: 50 % of" in render(summary)
