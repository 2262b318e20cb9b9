"""The machine's noise during trials: soft interrupts, steal, retransmitted segments, or why not."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars
import pytest
from made.shown.tables import cells, rows
from made.summaries.trials import made_trial
from rich.console import Console

from thunderherd.judge.summary.noise import NO_TCP, NOT_READ, NOT_RECORDED, noise_summary
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.directory import RunInfo, SavedRun
from thunderherd.records.noise import RETRANSMITTED, SOFTIRQ_RATES, NoiseSummary
from thunderherd.records.summary import Noise, Summary, TrialRecord
from thunderherd.show.report.page import render
from thunderherd.show.tables.noise import CPUS_SHOWN, HOW, ONE_SIDED, noise_table
from thunderherd.show.terminal.tables import print_table
from thunderherd.study.loading import Study


def heard(trial: TrialRecord, softirq: list[float], again: int | None, *, steal: float = 0.0) -> TrialRecord:
    """Return the trial with these seconds in soft interrupts by CPU, in two seconds."""
    noise = Noise(
        steal_share=steal, foreign_share=0.1, wall_seconds=2.0, machine_busy_seconds=1.0, throttled=0,
        softirq_seconds=softirq, retransmitted=again,
    )  # fmt: skip
    return trial.model_copy(update={"noise": noise})


def trials_of(study: Study, *, recorded: bool = True) -> list[TrialRecord]:
    """Return three blocks, each with more of everything than the one before."""
    return [
        heard(
            made_trial(study, each.name, block, position=position),
            [0.1 * block, 0.0] if recorded else [],
            block if recorded else None,
            steal=0.01 * block,
        )
        for block in (1, 2, 3)
        for position, each in enumerate(study.contenders, start=1)
    ]


def summary_of(study: Study, **how: bool) -> Summary:
    return summarise(study, trials_of(study, **how), {}, seed=1)


def test_medians_over_trials(small_study: Study) -> None:
    found = noise_summary(trials_of(small_study), over_tcp=True)
    assert found is not None
    assert found.softirq_milliseconds_per_second == [100, 0]
    assert (found.steal_share, found.foreign_share, found.retransmitted) == (0.02, 0.1, 2)
    assert (found.trials, found.why) == (9, {})
    assert {SOFTIRQ_RATES, RETRANSMITTED} <= set(NoiseSummary.model_fields)


def test_missing_noise_figures_have_reasons(small_study: Study) -> None:
    found = noise_summary(trials_of(small_study, recorded=False), over_tcp=True)
    assert found is not None
    assert (found.softirq_milliseconds_per_second, found.retransmitted) == ([], None)
    assert found.why == {SOFTIRQ_RATES: NOT_RECORDED, RETRANSMITTED: NOT_READ}
    over_unix = noise_summary(trials_of(small_study), over_tcp=False)
    assert over_unix is not None
    assert over_unix.retransmitted is None, "of other sockets of this machine"
    assert over_unix.why == {RETRANSMITTED: NO_TCP}
    assert (
        noise_summary(
            [made_trial(small_study, "iterative", 1).model_copy(update={"noise": None})], over_tcp=True
        )
        is None
    )


def test_softirq_rate_of_a_late_cpu_uses_the_trials_that_have_it(small_study: Study) -> None:
    one = made_trial(small_study, "iterative", 1)
    found = noise_summary([heard(one, [0.2], 0), heard(one, [0.2, 0.4], 0)], over_tcp=True)
    assert found is not None
    assert found.softirq_milliseconds_per_second == [100, 200]


def test_tidy_table_has_noise_by_trial(small_study: Study, tmp_path: Path) -> None:
    info = RunInfo(
        study=small_study.model_dump(mode="json"), digest="", seed=1, overrides=[], command=[],
        started="2025-01-02T03:04:05+00:00", version="0.1.0", machine={},
    )  # fmt: skip
    results = SavedRun(tmp_path, info, trials_of(small_study), None)
    frame = results.frame()
    assert frame[SOFTIRQ_RATES].to_list()[0] == [50.0, 0.0]
    assert frame["retransmitted"].to_list()[-1] == 3
    results.write_tidy()
    written = polars.read_csv(tmp_path / "trials.csv")
    assert json.loads(written[SOFTIRQ_RATES][0]) == [50.0, 0.0]
    without = SavedRun(tmp_path, info, trials_of(small_study, recorded=False), None).frame()
    assert without[SOFTIRQ_RATES].to_list()[0] is None, "not recorded is not nothing"


def test_noise_table_has_figures_or_the_reason(small_study: Study) -> None:
    view = noise_table(summary_of(small_study), ["prefork"])
    assert view is not None
    values = [cell.value for cell in rows(view)["prefork"]]
    assert values == ["100", "0: 100, 1: < 16.7", "2.0 %", "10.0 %", "2"]
    assert ONE_SIDED in view.notes

    view = noise_table(summary_of(small_study, recorded=False))
    assert view is not None
    assert [own[0].value for own in rows(view).values()] == ["-"] * 3
    assert any(NOT_RECORDED in line for line in view.notes)
    written = io.StringIO()
    print_table(view, Console(file=written, width=100))
    assert view.caption in written.getvalue()


def test_softirq_rate_of_few_ticks_is_shown_as_an_upper_limit(small_study: Study) -> None:
    """A tick in a window of 50 ms would be 200 ms in each second, or none at all."""
    short = Noise(
        steal_share=0.0, foreign_share=0.1, wall_seconds=0.05, machine_busy_seconds=0.05, throttled=0,
        softirq_seconds=[0.01, 0.0], retransmitted=0,
    )  # fmt: skip
    one = made_trial(small_study, "prefork", 1)

    def shown(ticking: int, silent: int) -> str:
        none = short.model_copy(update={"softirq_seconds": [0.0, 0.0]})
        noises = [short] * ticking + [none] * silent
        told = noise_summary([one.model_copy(update={"noise": each}) for each in noises], over_tcp=True)
        assert told is not None and told.softirq_resolution == pytest.approx(200 / len(noises))
        summary = summary_of(small_study)
        with_it = summary.contenders[0].model_copy(update={"noise": told})
        view = noise_table(summary.model_copy(update={"contenders": [with_it]}))
        assert view is not None
        assert HOW in view.notes
        return cells(view)[1].value

    assert shown(1, 0) == "0: < 2000, 1: < 2000"
    assert shown(9, 11) == "0: < 100, 1: < 100"
    assert shown(10, 10) == "0: 100, 1: < 100", "in most single trials there was one, or in most none"


def test_busiest_of_many_cpus_are_shown(small_study: Study) -> None:
    rates = [float(cpu) for cpu in range(64)]
    told = NoiseSummary(
        trials=1, softirq_milliseconds_per_second=rates, steal_share=0, foreign_share=0, retransmitted=0
    )
    summary = summary_of(small_study)
    one = summary.contenders[0].model_copy(update={"noise": told})
    view = noise_table(summary.model_copy(update={"contenders": [one]}))
    assert view is not None
    shown = cells(view)[1].value
    assert shown.startswith("56: 56") and shown.endswith(f"and {64 - CPUS_SHOWN} with less")
    assert cells(view)[0].value == "2016"


@pytest.mark.parametrize("recorded", [True, False])
def test_report_has_the_noise_table(small_study: Study, recorded: bool) -> None:
    html = render(summary_of(small_study, recorded=recorded))
    section = html.partition('<section id="noise">')[2].partition("</section>")[0]
    assert section.count('<th scope="row" class="who">') == 3
    assert '<th scope="col">Contender</th>' in section and ">Retransmitted</th>" in section, (
        "as in the terminal"
    )
    assert ("0: 100" in section) == recorded
    assert ("are missing" in section) != recorded


def test_a_lab_without_tcp_retransmits_nothing(small_study: Study) -> None:
    contenders = tuple(
        each.model_copy(update={"lab": each.lab.model_copy(update={"kind": "unix"})})
        for each in small_study.contenders
    )
    summary = summary_of(small_study.model_copy(update={"contenders": contenders}))
    for each in summary.contenders:
        assert each.noise is not None and each.noise.retransmitted is None
        assert each.noise.why[RETRANSMITTED] == NO_TCP
