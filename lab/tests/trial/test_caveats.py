"""Zero-copy that the kernel copied: counted in a trial, and reported next to every figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from made.shown.drawings import svg_texts
from made.small_studies import SMALL_STUDY
from made.summaries.trials import made_trial
from rich.console import Console

from thunderherd.engine.catalogue import Catalogue
from thunderherd.judge.summary.source_csv import text_of
from thunderherd.judge.summary.summarise import summarise
from thunderherd.metrics.table import metric, metric_names
from thunderherd.records.summary import Summary
from thunderherd.show.charts.main import clients_per_worker_chart, process_control_chart
from thunderherd.show.charts.sweeps import sweep_chart
from thunderherd.show.report.page import render
from thunderherd.show.tables.sweeps import why_none
from thunderherd.show.terminal.claims import print_claims
from thunderherd.show.terminal.study import print_study
from thunderherd.study.file.source_tables import SourceCsvTable
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.caveats import (
    MEANINGS,
    NO_COMPLETION,
    OF_LIFE,
    SOME_WITHOUT,
    ZERO_COPY_RECEIVES,
    ZERO_COPY_SENDS,
    copied_after_all,
)
from thunderherd.trial.trial import run_trial

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
SENT = f"the server's {ZERO_COPY_SENDS} were copied"
NOT_KNOWN = f"prefork: copied share of the server's sends unknown: {NO_COMPLETION}"
RECEIVED = f"the bytes of the clients' {ZERO_COPY_RECEIVES} were copied"


@pytest.fixture
def study(tmp_path: Path, some_catalogue: Catalogue) -> Study:
    (tmp_path / "small.toml").write_text(STUDY)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    return load_study(str(tmp_path / "small.toml"), "quick", [], some_catalogue)


@pytest.fixture
def summary(study: Study) -> Summary:
    """A pool with zero-copy sends and clients with zero-copy receives: all is copied, or 3/4 at one point."""
    shares = {"prefork": 1.0, "prefork@size=100": 1.0, "prefork@size=200": 0.75}
    trials = []
    for block in range(1, 12):
        for contender in study.contenders:
            made = made_trial(study, contender.name, block, cost=(20 + block) * 1e-6)
            more = {
                "server.copied_share": shares.get(contender.name),
                "server.completions": 9,
                "client.completions": 9,
                "client.not_copied_share": 0.5,
                "server.not_copied_share": 0.0,
            }
            trials.append(made.model_copy(update={"metrics": {**(made.metrics or {}), **more}}))
    return summarise(study, trials, {"kernel": "Linux"}, seed=1, started="now")


def test_trial_has_copied_shares_of_both_sides(
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
    assert metric("server.copied_share").words


def test_server_without_zero_copy_sends_has_a_reason_and_no_share(summary: Summary) -> None:
    fork = next(each for each in summary.contenders if each.name == "fork_per_client")
    assert "server.copied_share" not in fork.metrics
    assert why_none(summary, "server.copied_share", fork)


def test_copied_share_is_in_notes_and_remarks(summary: Summary) -> None:
    assert f"prefork: 75 % to 100 % of {SENT}" in summary.study.notes
    everybody = "iterative, fork_per_client, prefork"
    assert f"{everybody}: 50 % of {RECEIVED}" in summary.study.notes
    assert not any(f"the server's {ZERO_COPY_RECEIVES}" in note for note in summary.study.notes), (
        "it stores what it receives"
    )
    (sweep,) = summary.sweeps
    assert sweep.remarks == [
        f"fork_per_client, prefork: 50 % of {RECEIVED}",
        f"prefork: 75 % to 100 % of {SENT}",
    ]


def test_claims_and_answers_on_zero_copy_contenders_have_the_share(summary: Summary) -> None:
    about, not_about = summary.claims
    assert f"prefork: 100 % of {SENT}" in about.our_figure
    assert SENT not in not_about.our_figure
    assert RECEIVED in not_about.our_figure
    (answer,) = summary.questions
    assert f"prefork: 100 % of {SENT}" in (answer.note or "")


def test_printed_study_claims_and_report_show_the_copied_share(summary: Summary) -> None:
    for printed in (print_study, print_claims):
        out = io.StringIO()
        printed(summary, Console(file=out, width=100))
        assert SENT in " ".join(out.getvalue().split()), printed.__name__
    shown = " ".join(render(summary).replace("&#39;", "'").split())
    assert shown.count(SENT) >= 3


def test_contenders_without_zero_copy_have_no_note(small_study: Study) -> None:
    trials = [
        made_trial(small_study, each.name, block) for block in range(1, 11) for each in small_study.contenders
    ]
    found = summarise(small_study, trials, {}, seed=1, started="now")
    assert not any(
        words in note for note in found.study.notes for words in (ZERO_COPY_SENDS, ZERO_COPY_RECEIVES)
    )


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("name", [None, "server.copied_share"])
def test_chart_of_a_sweep_contains_the_remarks(summary: Summary, name: str | None, narrow: bool) -> None:
    (sweep,) = summary.sweeps
    texts = " ".join(svg_texts(sweep_chart(summary, sweep, name, narrow=narrow)))
    assert all(remark in texts for remark in sweep.remarks), texts


def test_notes_and_remarks_match_the_golden_file(
    summary: Summary, unknown: Summary, golden: Callable[[str, str], None]
) -> None:
    lines = [
        f"{what}: {line}"
        for each in (summary, unknown)
        for what, found in (("note", each.study.notes), ("remark", each.sweeps[0].remarks))
        for line in found
    ]
    golden("trial/caveats.txt", "\n".join([*lines, *MEANINGS.values()]) + "\n")


def test_report_has_contenders_by_name(summary: Summary) -> None:
    assert "fork_per_client, prefork: 50 %" in render(summary)


# Where few sends are in flight, completions are read when the connection ends: after the window -------------


def with_completions(study: Study, side: str = "server") -> Study:
    """The pool, or its clients, with a zero-copy send primitive."""
    changed = []
    for each in study.contenders:
        of_pool = each.base == "prefork"
        load = each.load.model_copy(update={"completes": of_pool and side == "client"})
        changed.append(each.model_copy(update={"completes": of_pool and side == "server", "load": load}))
    return study.model_copy(update={"contenders": tuple(changed)})


def summary_with(study: Study, told: Callable[[str, int], Mapping[str, float | None]]) -> Summary:
    """Trials with these additional metrics, by contender and block."""
    trials = []
    for block in range(1, 12):
        for contender in study.contenders:
            made = made_trial(study, contender.name, block, cost=(20 + block) * 1e-6)
            metrics = {**(made.metrics or {}), **told(contender.name, block)}
            trials.append(made.model_copy(update={"metrics": metrics}))
    return summarise(study, trials, {"kernel": "Linux"}, seed=1, started="now")


def silent(_name: str, _block: int) -> Mapping[str, float | None]:
    return {
        "server.send_calls": 200,
        "server.completions": 0,
        "server.copied_share": None,
        "client.send_calls": 100,
        "client.completions": 0,
        "client.copied_share": None,
    }


@pytest.fixture
def unknown(study: Study) -> Summary:
    """A pool with zero-copy sends of which no completion was ever read."""
    return summary_with(with_completions(study), silent)


def test_copied_share_without_completions_in_the_window_is_of_the_whole_life(
    fake_engine: Callable[..., Path], study: Study
) -> None:
    fake_engine("read_at_the_end")
    found = run_trial(study, study.contender("prefork"), block=1, position=1, seed=1)
    assert found.valid, found.invalid_reasons
    assert found.metrics is not None and found.summary is not None
    assert found.metrics["server.completions"] == 0
    assert found.summary.tally.completions > 100, "the warm-up's too"
    assert found.metrics["server.copied_share"] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    "completions", [[9.0, None, 9.0], [9.0, 0.0, 9.0], []], ids=["one late", "one without", "all late"]
)
def test_share_partly_of_the_whole_life_is_marked(study: Study, completions: list[float | None]) -> None:
    values = {
        "server.copied_share": {"prefork": [1.0, 1.0, 1.0]},
        "server.completions": {"prefork": completions} if completions else {},
    }
    (words,) = copied_after_all(study, values, {"prefork"})
    assert words.endswith(f"100 % of {SENT}{OF_LIFE}")
    of_window = {**values, "server.completions": {"prefork": [9.0, 9.0, 9.0]}}
    (words,) = copied_after_all(study, of_window, {"prefork"})
    assert words.endswith(f"100 % of {SENT}")


@pytest.mark.parametrize("narrow", [False, True])
def test_charts_of_the_main_table_show_the_copied_share(
    summary: Summary, unknown: Summary, narrow: bool
) -> None:
    texts = " ".join(svg_texts(process_control_chart(summary, narrow=narrow)))
    assert f"prefork: 100 % of {SENT}" in texts, "not the shares of the sweep's points"
    assert NOT_KNOWN in " ".join(svg_texts(process_control_chart(unknown, narrow=narrow)))
    assert NOT_KNOWN in " ".join(svg_texts(clients_per_worker_chart(unknown, narrow=narrow)))


def test_share_of_the_whole_life_is_marked(study: Study) -> None:
    found = summary_with(study, lambda name, block: {**silent(name, block), "server.copied_share": 1.0})
    (sweep,) = found.sweeps
    words = f"100 % of {SENT}{OF_LIFE}"
    assert sweep.remarks == [f"fork_per_client, prefork: {words}"]
    assert f"prefork: {words}" in found.claims[0].our_figure


def test_unknown_share_is_in_notes_remarks_and_charts(unknown: Summary) -> None:
    assert NOT_KNOWN in unknown.study.notes
    (sweep,) = unknown.sweeps
    assert sweep.remarks == [NOT_KNOWN]
    for narrow in (False, True):
        assert NOT_KNOWN in " ".join(svg_texts(sweep_chart(unknown, sweep, None, narrow=narrow)))


def test_unknown_share_is_in_claims_and_answers(unknown: Summary) -> None:
    about, not_about = unknown.claims
    assert NOT_KNOWN in about.our_figure
    assert "not known" not in not_about.our_figure
    (answer,) = unknown.questions
    assert NOT_KNOWN in (answer.note or "")


def test_printed_study_claims_and_report_show_the_unknown_share(unknown: Summary) -> None:
    for printed in (print_study, print_claims):
        out = io.StringIO()
        printed(unknown, Console(file=out, width=100))
        assert NOT_KNOWN in " ".join(out.getvalue().split()), printed.__name__
    shown = " ".join(render(unknown).replace("&#39;", "'").split())
    assert shown.count(NOT_KNOWN) >= 3
    designs = shown[shown.index('<h2 class="head">Designs</h2>') :]
    assert NOT_KNOWN in designs[: designs.index("<table")], "beside the table itself, too"


def test_empty_cell_of_an_unknown_share_has_a_reason(unknown: Summary) -> None:
    found = {each.name: each for each in unknown.contenders}
    why = why_none(unknown, "server.copied_share", found["prefork@size=100"])
    assert why.endswith(NO_COMPLETION)
    none_sent = why_none(unknown, "server.copied_share", found["iterative"])
    assert none_sent and NO_COMPLETION not in none_sent
    assert why_none(unknown, "client.copied_share", found["prefork"]) == none_sent


def test_source_csv_has_unknown_for_unknown_shares(study: Study, unknown: Summary) -> None:
    columns = {
        "who": {"names": {"prefork": "pool", "fork_per_client": "fork"}},
        "copied_share": {"metric": "server.copied_share"},
    }
    table = SourceCsvTable.model_validate({"file": "o.csv", "sweeps": ["size"], "columns": columns})
    text = text_of(study.model_copy(update={"source_csv": table}), unknown)
    assert text is not None
    assert sorted(csv.reader(text.splitlines()[1:])) == [
        ["fork", ""], ["fork", ""], ["pool", "unknown"], ["pool", "unknown"],
    ]  # fmt: skip


def test_remarks_separate_known_and_unknown_points(study: Study) -> None:
    def told(name: str, block: int) -> Mapping[str, float | None]:
        share = 1.0 if name in ("prefork", "prefork@size=100") else None
        return {**silent(name, block), "server.completions": 9 if share else 0, "server.copied_share": share}

    (sweep,) = summary_with(with_completions(study), told).sweeps
    assert sweep.remarks == [
        f"prefork: 100 % of {SENT}",
        NOT_KNOWN.replace("prefork", "prefork@size=200"),
    ]


def test_single_trial_without_completions_is_in_the_remark(study: Study) -> None:
    def told(name: str, block: int) -> Mapping[str, float | None]:
        share = 1.0 if block != 3 else None
        return {**silent(name, block), "server.completions": 9 if share else 0, "server.copied_share": share}

    (sweep,) = summary_with(with_completions(study), told).sweeps
    assert sweep.remarks == [NOT_KNOWN.replace(NO_COMPLETION, SOME_WITHOUT)]


def test_unknown_share_covers_clients_and_not_ends_without_sends(study: Study) -> None:
    (sweep,) = summary_with(with_completions(study, "client"), silent).sweeps
    assert sweep.remarks == [NOT_KNOWN.replace("the server's", "the clients'")]
    sent_nothing = summary_with(
        with_completions(study), lambda name, block: {**silent(name, block), "server.send_calls": 0}
    )
    assert not any("not known" in each for each in sent_nothing.study.notes)
    assert not any(each.unknown for each in sent_nothing.contenders)


def test_server_read_late_has_an_unknown_share(study: Study) -> None:
    """The number of sends of the server is then unknown; its clients have figures."""
    found = summary_with(with_completions(study), lambda _name, _block: {"latency_mean_seconds": 1.0})
    assert NOT_KNOWN in found.study.notes
