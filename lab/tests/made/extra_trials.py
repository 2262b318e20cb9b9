"""Runs on invented trials with extra trials after the judged ones: counted or profiled."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made.summaries.trials import made_trial
from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import Refusal
from thunderherd.machine import description
from thunderherd.records.extra_trials import CountingSummary, ProfilingSummary
from thunderherd.records.summary import Summary, TrialMetrics, TrialRecord
from thunderherd.run import runner
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.study.loading import Contender, Study, load_study
from thunderherd.trial.trial import ProfileFiles

NAMES = {"iterative", "fork_per_client", "prefork"}

COUNTED: TrialMetrics = {
    "server.system_calls_per_request": 5, "server.system_calls_per_byte": 0.005,
    "server.system_calls.read_per_request": 5, "server.system_calls.read_per_byte": 0.005,
    "server.system_calls.clone_per_request": 0, "server.system_calls.clone_per_byte": 0,
    "server.bytes_sent_per_request": 1000, "server.bytes_received_per_request": 10,
    "server.bytes_not_copied_per_request": 0,
    "server_cpu_per_request": 1.0,
}  # fmt: skip
"""With a figure that no other trial has: it must not be found anywhere."""

USED = {"user_ns": 0, "system_ns": 12_000_000, "voluntary_switches": 0, "involuntary_switches": 0,
        "minor_faults": 0, "major_faults": 0}  # fmt: skip


def profile_lines(event: str = "cpu-clock", kernel_symbols: object = True) -> list[dict[str, Any]]:
    """A profile of 12 samples: 2 copy across, 1 in the program, 2 without interrupts, 1 of the sampling."""
    profile = {
        "line": "profile", "schema": 4, "event": event, "frequency_hertz": 1000, "samples": 12, "lost": 3,
        "why_not_cycles": None if event == "cycles" else "there is no PMU", "throttled": 0, "from_ns": 100,
        "to_ns": 2000, "kernel_symbols": kernel_symbols, "status": 0,
        "scope": "tree", "why_not_cpus": "perf_event_paranoid is 2", **USED,
    }  # fmt: skip
    stacks: list[tuple[list[str], list[str], list[int]]] = [
        (["main", "send"], ["tcp_sendmsg", "_copy_from_iter", "rep_movs_alternative"], [200, 500]),
        (["main", "__memmove_avx_unaligned_erms"], [], [300]),
        (["main", "send"], ["tcp_sendmsg", "sock_def_readable", "_raw_spin_unlock_irqrestore"], [400, 700]),
        (["main", "send"], ["__schedule", "__perf_event_task_sched_out"], [600]),
        (["main", "[libc.so.6]"], [], [800]),
        (["main"], [], [900, 1000, 1100, 1200, 1300]),
    ]
    return [
        profile,
        *(
            {
                "line": "stack",
                "frames": [*([name, "user"] for name in user), *([name, "kernel"] for name in kernel)],
                "command": "thunderherd-engine",
                "at_ns": at,
            }
            for user, kernel, at in stacks
        ),
    ]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    """Write a profile as the engine does."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


class ExtraRig(ABC):
    """A study on invented trials, which records its extra trials separately from the judged ones."""

    override: str
    """The override of the study that requests two extra trials of each contender."""
    file: str
    """The file of a run that has the extra trials."""

    def __init__(self, study: Study, directory: Path) -> None:
        self.study, self.directory = study, directory
        self.ran: list[tuple[str, int, int]] = []
        self.judged = 0
        self.stop_after = 10**9
        self.refusal: Refusal | None = None
        self.outcome: Callable[[Contender, int, int], dict[str, Any]] = lambda contender, block, attempt: {}
        self.said = io.StringIO()

    @abstractmethod
    def is_extra(self, study: Study, profiles: ProfileFiles | None) -> bool:
        """True if a trial is an extra trial."""

    @abstractmethod
    def finished(self, made: TrialRecord, profiles: ProfileFiles | None) -> TrialRecord:
        """Return an extra trial with its counts, or write its profile."""

    @abstractmethod
    def of(self, summary: Summary) -> CountingSummary | ProfilingSummary:
        """Return the part of the summary that has the extra trials."""

    def run_trial(self, study: Study, contender: Contender, **where: Any) -> TrialRecord:
        """Stand in for the runner's function of this name."""
        profiles: ProfileFiles | None = where.pop("profiles")
        del where["engine"], where["site"]
        name, block, attempt = contender.name, where["block"], where["attempt"]
        if not self.is_extra(study, profiles):
            self.judged += 1
            return made_trial(study, name, **where)
        if self.refusal is not None:
            raise self.refusal
        if len(self.ran) >= self.stop_after:
            raise KeyboardInterrupt
        self.ran.append((name, block, attempt))
        made = made_trial(study, name, **where, **self.outcome(contender, block, attempt))
        return self.finished(made, profiles)

    def run(self, **how: Any) -> Summary:
        """Run the study, or resume its run."""
        return run_study(self.study, self.directory, seed=5, show=PlainProgress(self.said), **how)


class CountedRig(ExtraRig):
    """Counted trials are recognised by their counters."""

    override, file = "counting.trials=2", "counted.jsonl"

    def is_extra(self, study: Study, profiles: ProfileFiles | None) -> bool:
        """True if the trial counts system calls."""
        return "system_calls" in study.measure.counters

    def finished(self, made: TrialRecord, profiles: ProfileFiles | None) -> TrialRecord:
        """Return the trial with its counts."""
        return made.model_copy(update={"metrics": {**(made.metrics or {}), **COUNTED}})

    def of(self, summary: Summary) -> CountingSummary:
        """Return the counts."""
        assert summary.counting is not None
        return summary.counting


class ProfiledRig(ExtraRig):
    """Profiled trials leave the files that the engine would write."""

    override, file = "profiling.trials=2", "profiles.jsonl"

    def __init__(self, study: Study, directory: Path) -> None:
        super().__init__(study, directory)
        self.lines = profile_lines()

    def is_extra(self, study: Study, profiles: ProfileFiles | None) -> bool:
        """True if the trial has files for a profile."""
        return profiles is not None

    def finished(self, made: TrialRecord, profiles: ProfileFiles | None) -> TrialRecord:
        """Write the profile of the server."""
        assert profiles is not None
        assert (profiles.frequency, profiles.event) == (self.study.profiling.frequency, "auto")
        write_lines(profiles.server, self.lines)
        return made

    def of(self, summary: Summary) -> ProfilingSummary:
        """Return the profiles."""
        assert summary.profiles is not None
        return summary.profiles


MakeRig = Callable[[type[Any]], Any]


@pytest.fixture
def make_rig(
    small_study_file: Path,
    some_catalogue: Catalogue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fake_engine: Callable[..., Path],
) -> MakeRig:
    """Makes the rig of a kind and puts its trials in the runner's place."""
    fake_engine()
    here = {"kernel": "Linux", "engine": {"sha256": "0"}, "cpu": {"model": "A CPU"}}
    monkeypatch.setattr(description, "describe", lambda engine=None: here)

    def make(kind: type[ExtraRig]) -> ExtraRig:
        study = load_study(str(small_study_file), "quick", [kind.override], some_catalogue)
        rig = kind(study, tmp_path / "run")
        monkeypatch.setattr(runner, "run_trial", rig.run_trial)
        return rig

    return make
