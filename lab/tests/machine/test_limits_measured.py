"""Noise while the machine limits are measured: detected, measured again, reported."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made.machines import made_noise
from made.summaries.trials import made_trial

import thunderherd
from thunderherd.cli.main import run_command
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import catalogue
from thunderherd.machine import description, limits, noise
from thunderherd.machine.limits import limits_of_lines, measured_lines
from thunderherd.records.limits import LimitsNoise, MachineLimits
from thunderherd.records.summary import Noise
from thunderherd.run import runner
from thunderherd.run.progress import PlainProgress
from thunderherd.run.runner import run_study
from thunderherd.show.report.page import render
from thunderherd.study.file.tables import NoiseTable
from thunderherd.study.loading import load_study

QUIET, LOUD, LOUDER = made_noise(foreign=0.05), made_noise(foreign=0.45), made_noise(steal=0.6)

Hear = Callable[..., list[Noise]]


@pytest.fixture
def hear(monkeypatch: pytest.MonkeyPatch, fake_engine: Callable[..., Path]) -> Iterator[Hear]:
    """Sets the noise of each measurement of the limits; returns those not used yet."""
    fake_engine()
    monkeypatch.setattr(description, "describe", lambda engine=None: {"kernel": "Linux", "cpu": {}})

    def hears(*each: Noise) -> list[Noise]:
        left = list(each)
        monkeypatch.setattr(noise, "between", lambda *samples, server_seconds: left.pop(0))
        return left

    yield hears


def measured() -> MachineLimits:
    lines = measured_lines(allowed=NoiseTable())
    return limits_of_lines(lines, catalogue().limits)


def test_quiet_machine_is_measured_once(hear: Hear) -> None:
    left = hear(QUIET, LOUD)
    limits = measured()
    assert left == [LOUD] and limits.disturbed == ""
    assert limits.noise is not None and (limits.noise.measured, limits.noise.foreign_share) == (1, 0.05)


def test_disturbed_limits_are_measured_again(hear: Hear) -> None:
    left = hear(LOUD, QUIET, QUIET)
    limits = measured()
    assert left == [QUIET] and limits.disturbed == ""
    assert limits.noise is not None and limits.noise.measured == 2


@pytest.mark.parametrize("order", [(LOUD, LOUDER), (LOUDER, LOUD)], ids=["first", "second"])
def test_quieter_of_two_disturbed_measurements_is_used_and_marked(
    order: tuple[Noise, Noise], hear: Hear
) -> None:
    left = hear(*order, QUIET)
    limits = measured()
    assert left == [QUIET], "twice, and no more"
    assert noise.describe(LOUD, NoiseTable()) in limits.disturbed
    assert limits.noise is not None and limits.noise.measured == 2


def test_limits_of_an_earlier_version_have_no_noise(hear: Hear) -> None:
    hear(QUIET)
    lines = [each for each in measured_lines(allowed=NoiseTable()) if not LimitsNoise.is_line(each)]
    limits = limits_of_lines(lines, catalogue().limits)
    assert limits.noise is None and limits.disturbed == "" and limits.figures


def test_limits_command_prints_the_disturbance(hear: Hear, capsys: pytest.CaptureFixture[str]) -> None:
    hear(LOUD, LOUD)
    assert run_command(["limits"]) == 0
    assert noise.describe(LOUD, NoiseTable()) in " ".join(capsys.readouterr().out.split())
    hear(QUIET)
    assert run_command(["limits", "--json"]) == 0
    found = MachineLimits.model_validate_json(capsys.readouterr().out)
    assert found.noise is not None and found.noise.disturbed == ""


def test_run_shows_disturbed_limits_with_figures_and_explanations(
    hear: Hear,
    small_study_file: Path,
    some_catalogue: Catalogue,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = load_study(
        str(small_study_file), "quick", ["measure.limits=50ms", "noise.foreign=15%"],
        some_catalogue,
    )  # fmt: skip

    def run_trial(study: object, contender: object, **where: object) -> object:
        del where["engine"], where["site"], where["profiles"]
        return made_trial(study, contender.name, **where)  # type: ignore[arg-type, attr-defined]

    monkeypatch.setattr(runner, "run_trial", run_trial)
    hear(LOUD, LOUD)
    heard = noise.describe(LOUD, study.noise)
    said = io.StringIO()
    summary = run_study(study, tmp_path / "run", seed=5, show=PlainProgress(said))
    assert summary.limits is not None and heard in summary.limits.disturbed
    assert summary.limits.disturbed in summary.study.notes
    assert said.getvalue().count(heard) == 1, "said when they are measured again"
    assert heard in render(summary)
    hear()
    again = run_study(study, tmp_path / "run", seed=5, resume=True, show=PlainProgress(said))
    assert again.limits == summary.limits, "they are kept with what the machine did"
    assert thunderherd.load(tmp_path / "run").summary == again


def test_noise_of_limits_is_read_from_real_clocks(fake_engine: Callable[..., Path]) -> None:
    fake_engine()
    told = measured().noise
    assert told is not None and 0 <= told.foreign_share <= 1 and 0 <= told.steal_share <= 1
    assert limits.ATTEMPTS == 2
