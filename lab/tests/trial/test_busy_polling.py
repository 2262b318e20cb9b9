"""Studies of busy-polling servers: metrics that include idle polling are not reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.small_studies import head
from made.summaries.trials import made_trial

import thunderherd
from thunderherd.cli.main import run_command
from thunderherd.engine.lines import LoadResult, Ready, Window
from thunderherd.judge.summary.summarise import summarise
from thunderherd.judge.why.pairs import why_no_difference
from thunderherd.records.summary import TrialRecord
from thunderherd.show.tables.main import pairs_legend
from thunderherd.study.loading import Study
from thunderherd.trial.busy_polling import BUSY_POLLS, ENDS_BY_TIME, beyond_load

COUNTERS = 'counters = ["task_clock"]\nbaseline = "epoll"\n'
COUNTED = head("awake", measure=COUNTERS)
TIMED = head(
    "awake",
    measure=COUNTERS,
    kind="closed_connections",
    load="processes = 1\n",
    # A busy machine reads the server later than in a tenth of a short window.
    settings='clients = 4, duration = "1s"',
)
CONTENDERS = """[sizes.quick]
repetitions = 1
[counting]
trials = 1
[[contenders]]
name = "epoll"
design = "epoll"
[[contenders]]
name = "spinning"
design = "epoll"
settings = { wait = "spin" }
[[contenders]]
name = "polling"
design = "polling"
settings = { pool = 2 }
"""


OF_WINDOW = {
    "server_cpu_seconds", "server_cpu_per_connection", "server_cpu_per_request", "server_cpu_per_byte",
    "server.task_clock", "server.task_clock_per_request", "server.cpus_utilized",
    "both.task_clock_per_request",
}  # fmt: skip
OF_MACHINE = {"machine_cpu_seconds", "machine_cpu_per_byte"}
STAYS = {
    "requests_per_second", "client_cpu_per_request", "client.task_clock", "server.send_calls_per_request",
    "empty_wakeups_per_connection",
}  # fmt: skip


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize(
    ("study", "left_out"), [(COUNTED, OF_WINDOW | OF_MACHINE), (TIMED, OF_MACHINE)], ids=["counted", "timed"]
)
def test_cpu_time_without_clients_is_not_reported(
    study: str, left_out: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = tmp_path / "awake.toml", tmp_path / "run"
    file.write_text(study + CONTENDERS)
    assert run_command(["run", str(file), "--out", str(folder), "--seed", "1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    results = thunderherd.load(folder)
    assert results.summary is not None
    # An invalid trial, on a busy machine, is repeated.
    trials = [each for each in results.trials if each.valid]
    assert sorted(each.contender for each in trials) == ["epoll", "polling", "spinning"], [
        each.invalid_reasons for each in results.trials
    ]
    sleeps = next(each.metrics or {} for each in trials if each.contender == "epoll")
    known = {name for name, value in sleeps.items() if value is not None}
    assert OF_MACHINE & known and {"server_cpu_per_request", "server.task_clock"} <= known
    for trial in trials:
        assert not any(BUSY_POLLS in each for each in trial.warnings)
        metrics = trial.metrics or {}
        unknown = {name for name in known if metrics[name] is None}
        is_awake = trial.contender != "epoll"
        assert unknown & (OF_WINDOW | OF_MACHINE | STAYS) == (left_out & known if is_awake else set())
        reasons = next(each.unknown for each in results.summary.contenders if each.name == trial.contender)
        assert left_out & unknown <= reasons.keys()
    timed = left_out == OF_MACHINE
    told = f"¹ unknown: {BUSY_POLLS}"
    assert (told in said) != timed
    assert results.summary.counting is not None
    for each in results.summary.counting.contenders:
        why = each.sides["server"].unavailable.get("system_calls", "")
        assert (BUSY_POLLS in why) == (not timed and each.contender != "epoll"), each
    ranks = {each.name: each.rank for each in results.summary.contenders}
    assert [name for name, rank in ranks.items() if rank] == ([*ranks] if timed else ["epoll"])


MORE = f"{BUSY_POLLS}; {ENDS_BY_TIME}"


def awake(trial: TrialRecord, cpu_source: str = "perf", **update: object) -> TrialRecord:
    """The same of a busy-polling server."""
    seen = trial.model_copy(
        update={"ready": Ready.model_construct(spins=True, cpu_source=cpu_source), **update}
    )
    told = {name: None if beyond_load(name, seen) else value for name, value in (trial.metrics or {}).items()}
    return seen.model_copy(update={"metrics": told})


def test_busy_polling_server_has_no_cpu_rank_or_verdict(small_study: Study) -> None:
    trials = [
        made_trial(small_study, name, block, cost=(10 + block % 3) * 1e-6)
        for block in range(1, 11)
        for name in ("iterative", "fork_per_client", "prefork")
    ]
    metrics = {"server_cpu_per_request": 1e-5}
    trials = [each.model_copy(update={"metrics": {**(each.metrics or {}), **metrics}}) for each in trials]
    trials = [awake(each) if each.contender == "prefork" else each for each in trials]
    summary = summarise(small_study, trials, {}, seed=1)
    found = next(each for each in summary.contenders if each.name == "prefork")
    assert (found.cpu_seconds, found.process_control_seconds, found.rank) == (None, None, None)
    assert found.connections_per_second is not None
    assert {each.rank for each in summary.contenders} == {1, 2, None}
    verdicts = {(each.a, each.b): (each.verdict, each.ratio) for each in summary.pairs}
    of_prefork = [verdict for pair, verdict in verdicts.items() if "prefork" in pair]
    assert of_prefork and set(of_prefork) == {("undecided", None)}
    assert [each for each in pairs_legend(summary) if MORE in each and "prefork" in each]
    for pair in (("prefork", "iterative"), ("iterative", "prefork")):
        why = why_no_difference(summary, *pair, "request")
        assert (why.code, why.message.endswith(MORE)) == ("explain.unknown_cpu_time", True)


def test_whole_life_cpu_reason_suggests_no_timed_load(small_study: Study) -> None:
    window = Window(started_monotonic_ns=0, ended_monotonic_ns=100_000_000, requests=9, connections=9)
    loads = [LoadResult.model_construct(window=window)]
    made = made_trial(small_study, "prefork", 1)
    in_window, of_life = awake(made, loads=loads), awake(made, "whole_life", loads=loads)
    assert beyond_load("server_cpu_seconds", in_window) is None
    why = beyond_load("server_cpu_seconds", of_life)
    assert why is not None and "ends by time" not in why, "it would not help"
    assert beyond_load("server.memory", awake(made), {"memory"}) is None
    assert beyond_load("server.memory", awake(made)) is not None
    assert beyond_load("server_cpu_seconds", made) is None
