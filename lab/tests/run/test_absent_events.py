"""A study that requests events which no machine has: it runs to its end, and each figure of them is
unavailable with the reason, everywhere. With the real engine."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from made.small_studies import head

from thunderherd.cli.main import run_command
from thunderherd.engine.client import catalogue
from thunderherd.records.extra_trials import WHAT_EXPLAINS
from thunderherd.records.summary import Summary
from thunderherd.run.counted import NOT_COUNTED
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.show.report.page import write_report
from thunderherd.show.sentences import tables
from thunderherd.study.loading import load_study

POINT, KEY = "no_such_subsystem:sched_swich", "software/no-such-event,umask=0x1/"
COUNTED = "syscalls:sys_enter_sned"
REASONS = {
    POINT: "no subsystem 'no_such_subsystem'",
    KEY: "'software' has no event and no key 'no-such-event'",
}
MEASURE = f'counters = ["cs", "{POINT}", "{KEY}", "task-clock"]\nnormalise_connections = 5000\n'
STUDY = (
    head("absent", measure=MEASURE, limits="300ms")
    + f"""\
[counting]
trials = 1
counters = ["{COUNTED}", "page-faults"]
[sizes.quick]
repetitions = 2
[sizes.full]
looks = [10]
alpha_split = [1.0]
[[contenders]]
name = "iterative"
design = "iterative"
[[contenders]]
name = "prefork"
design = "prefork"
settings = {{ pool = 3 }}
[[sweeps]]
name = "pool_size"
title = "Switches over the number of children"
key = "settings.pool"
values = [2, 3]
contenders = ["prefork"]
x_label = "children"
axis = "linear"
metric = "server.{POINT}_per_request"
metrics = ["server.context_switches", "client.{KEY}"]
[source_csv]
file = "original.csv"
sweeps = ["pool_size"]
[source_csv.columns]
who = {{ names = {{ prefork = "Pre" }} }}
switches = {{ metric = "server.{POINT}" }}
"""
)


@pytest.fixture(scope="module")
def ran(real_engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Summary, Path]]:
    """The study, run once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THUNDERHERD_ENGINE", str(real_engine))
        folder = tmp_path_factory.mktemp("absent")
        (folder / "absent.toml").write_text(STUDY)
        study = load_study(str(folder / "absent.toml"), "quick", [], catalogue())
        said = io.StringIO()
        summary = run_study(study, folder / "run", seed=1, show=PlainProgress(said))
        assert NOT_COUNTED not in said.getvalue(), said.getvalue()
        yield summary, folder / "run"


def test_the_run_ends_and_its_summary_has_the_reasons(ran: tuple[Summary, Path]) -> None:
    summary, _ = ran
    # On a busy machine a trial may be invalid, and is repeated. None is because of an event.
    assert summary.study.complete
    reasons = " ".join(summary.trials.invalid_reasons)
    assert not [name for name in REASONS if name in reasons]
    for side in ("server", "client"):
        for name, reason in REASONS.items():
            assert reason in summary.unavailable[f"{side}.{name}"]
    (sweep,) = summary.sweeps
    assert REASONS[POINT] in sweep.unavailable[f"server.{POINT}_per_request"]
    assert REASONS[KEY] in sweep.unavailable[f"client.{KEY}"]
    assert "server.context_switches" not in sweep.unavailable, "asked for as perf calls it"
    assert any(REASONS[POINT] in each for each in tables.warnings(summary))


def test_counted_trials_have_the_available_counters_and_the_reason(ran: tuple[Summary, Path]) -> None:
    counting = ran[0].counting
    assert counting is not None and counting.counters == [*WHAT_EXPLAINS, COUNTED]
    for contender in counting.contenders:
        server = contender.sides["server"]
        assert "page_faults" in server.counts
        assert COUNTED not in server.counts and "sys_enter_sned" in server.unavailable[COUNTED]


def test_tables_report_and_csv_have_the_reason(
    ran: tuple[Summary, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary, directory = ran
    assert run_command(["table", str(directory)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    page = write_report(summary, tmp_path / "report.html").read_text()
    source = (directory / "original.csv").read_text()
    for text in (shown, page, source):
        assert "no subsystem &#39;no_such" in text or REASONS[POINT] in text
    assert REASONS[KEY] in shown
    assert source.splitlines()[0] == "who,switches,remarks"
    assert source.splitlines()[1].startswith("Pre,,")


def test_explain_works_without_the_absent_event(
    ran: tuple[Summary, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["explain", str(ran[1]), "iterative", "prefork"]) == 0
    shown = capsys.readouterr().out
    assert "the rest" in shown and "system calls" in shown
