"""Requests that are not all alike in a study: sizes and recorded traffic, from its file to its trials."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from made.refusals import refused
from made.small_studies import head

from thunderherd.engine import client
from thunderherd.run import recordings
from thunderherd.run.runner import run_study
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.trial import run_trial

RECORDING = "gap_microseconds,bytes\n5000,100\n10000,200\n3000,600\n"

QUICK = """\
[sizes.quick]
repetitions = 1
[[contenders]]
name = "other"
design = "poll"
[[contenders]]
name = "one"
design = "epoll"
"""


def study_of(
    folder: Path, settings: str, *, kind: str = "open", processes: int = 1, server: str = "", more: str = ""
) -> Study:
    """A study with such settings of its load."""
    text = head("traffic", kind=kind, load=f"processes = {processes}\n", settings=settings) + QUICK
    if server:
        text += f"settings = {{ {server} }}\n"
    file = folder / "traffic.toml"
    file.write_text(text + more)
    return load_study(str(file), "quick", [], client.catalogue())


def test_paths_begin_at_the_studys_folder(use_engine: Path, tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("gap_microseconds,bytes\n1,200\n")
    settings = 'sizes = "file:there.csv", arrivals = "recorded", recording = "./there.csv", duration = "10ms"'
    load = study_of(tmp_path, settings).contender("one").load
    assert load.settings["sizes"] == "file:there.csv"
    assert load.engine_settings["sizes"] == f"file:{tmp_path / 'there.csv'}"
    assert load.engine_settings["recording"] == str(tmp_path / "there.csv")
    assert study_of(tmp_path, 'sizes = "fixed:1", duration = "10ms"').contender("one").load.files == {}


def test_a_recording_is_replayed_and_belongs_to_its_study(real_engine: Path, tmp_path: Path) -> None:
    """The trial finds the file from any directory, and the file's contents are part of the resolved study."""
    file = tmp_path / "recording.csv"
    file.write_text(RECORDING)
    settings = (
        'arrivals = "recorded", recording = "recording.csv", sizes = "file:recording.csv", clients = 4, '
        'connections = "kept", duration = "450ms"'
    )
    study = study_of(tmp_path, settings)
    contender = study.contender("one")
    assert contender.load.files == {"recording.csv": hashlib.sha256(RECORDING.encode()).hexdigest()}
    assert contender.load.settings["sizes"] == "file:recording.csv"
    assert not {"bytes", "rate"} & contender.load.settings.keys()
    trial = run_trial(study, contender, block=1, position=1, seed=1, engine=real_engine)
    (load,) = trial.loads
    assert load.tally.errors == {}, trial.invalid_reasons
    assert load.traffic is not None and load.traffic.sizes is not None
    assert load.traffic.sizes.mean_bytes == pytest.approx(300, abs=30)
    assert load.scheduled is not None
    assert load.scheduled.offered_per_second == pytest.approx(1e6 / 6000)
    assert load.scheduled.due == pytest.approx(75, abs=1)
    assert str(tmp_path) not in study.model_dump_json(exclude={"path"})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "recording.csv").write_text(RECORDING)
    assert study_of(elsewhere, settings).digest == study.digest
    (elsewhere / "recording.csv").write_text(RECORDING + "1,1\n")
    assert study_of(elsewhere, settings).digest != study.digest
    scaled = study_of(tmp_path, f"rate = 100, {settings}")
    assert scaled.contender("one").load.settings["rate"] == 100


def test_a_run_keeps_what_it_replays(
    use_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger recordings are reported as not kept; a file that changes before the run begins stops it."""
    file = tmp_path / "recording.csv"
    file.write_text(RECORDING)
    settings = 'arrivals = "recorded", recording = "recording.csv", connections = "kept", duration = "60ms"'
    study = study_of(tmp_path, settings)
    summary = run_study(study, tmp_path / "run", seed=1)
    (copy,) = (tmp_path / "run" / recordings.FOLDER).iterdir()
    (digest,) = study.contender("one").load.files.values()
    assert copy.read_text() == RECORDING and copy.name == f"recording-{digest[:12]}.csv"
    assert not any(str(file) in note for note in summary.study.notes)
    monkeypatch.setattr(recordings, "LARGEST", 10)
    (note,) = recordings.not_kept(study)
    assert str(file) in note and f"{len(RECORDING)} bytes" in note and digest in note
    assert recordings.copies(study) == {}
    monkeypatch.undo()
    file.write_text(RECORDING + "1,1\n")
    (problem,) = refused(recordings.copies, study)
    assert str(file) in str(problem)


def test_load_processes_draw_different_request_sizes(real_engine: Path, tmp_path: Path) -> None:
    settings = 'sizes = "uniform:1..1000", children = 1, loops = 30, request_seed = 5'
    study = study_of(tmp_path, settings, kind="closed", processes=2)
    trial = run_trial(study, study.contender("one"), block=1, position=1, seed=1, engine=real_engine)
    assert trial.valid, trial.invalid_reasons
    seen = [load.traffic for load in trial.loads]
    assert [each.seed for each in seen if each] == [5, 6]
    means = [each.sizes.mean_bytes for each in seen if each and each.sizes]
    assert len(set(means)) == 2


def test_sizes_are_swept(real_engine: Path, tmp_path: Path) -> None:
    more = """\
[[sweeps]]
name = "spread"
title = "Even or uneven"
values = [
  { name = "even", set = { "load.settings.sizes" = "fixed:500" } },
  { name = "uneven", set = { "load.settings.sizes" = "lognormal:400,0.6" } },
]
contenders = ["one"]
"""
    study = study_of(tmp_path, "children = 2, loops = 20", kind="closed", more=more)
    for point in ("even", "uneven"):
        contender = study.contender(f"one@spread={point}")
        trial = run_trial(study, contender, block=1, position=1, seed=1, engine=real_engine)
        assert trial.valid, trial.invalid_reasons
        (load,) = trial.loads
        assert load.traffic is not None and load.traffic.sizes is not None
        assert load.traffic.sizes.mean_bytes == pytest.approx(500, rel=0.25)


def test_a_recording_is_not_replayed_by_several_processes_at_once(use_engine: Path, tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text(RECORDING)
    settings = 'arrivals = "recorded", recording = "there.csv", duration = "10ms"'
    problems = refused(study_of, tmp_path, settings, processes=2)
    assert [each.code for each in problems] == ["study.recording_in_processes"]


@pytest.mark.parametrize(
    ("kind", "settings", "code", "part"),
    [
        ("closed", 'bytes = 9, sizes = "fixed:9"', "workload.contradiction", "sizes and bytes"),
        ("closed", 'sizes = "uniform:9"', "sizes.invalid", "64..16384"),
        ("closed", 'sizes = "uniform:1..16385"', "study.contradicting_settings", "16385"),
        ("closed", 'sizes = "file:none.csv"', "recording.unreadable", "none.csv"),
        ("open", 'arrivals = "recorded", duration = "10ms"', "schedule.no_recording", "recording"),
        ("open", 'recording = "there.csv", duration = "10ms"', "schedule.not_recorded", "arrivals"),
        (
            "open",
            'arrivals = "recorded", recording = "x.csv", duration = "10ms"',
            "recording.unreadable",
            "x.csv",
        ),
        ("closed", 'sizes = "file:there.csv"', "study.contradicting_settings", "20000"),
        ("closed", 'sizes = "lognormal:4,.1,9000..9001"', "sizes.invalid", "LEAST..MOST"),
        ("closed", 'sizes = "file:bad.csv"', "recording.invalid_line", "bad.csv, line 3: bytes is 'x'"),
        (
            "open",
            'arrivals = "recorded", recording = "bad.csv", duration = "10ms"',
            "recording.invalid_line",
            "bad.csv, line 2: gap_microseconds is '-1'",
        ),
    ],
)
def test_impossible_traffic_is_refused(
    use_engine: Path, tmp_path: Path, kind: str, settings: str, code: str, part: str
) -> None:
    (tmp_path / "there.csv").write_text("gap_microseconds,bytes\n1,20000\n")
    (tmp_path / "bad.csv").write_text("gap_microseconds,bytes\n-1,1\n1,x\n")
    (problem,) = refused(study_of, tmp_path, settings, kind=kind)
    assert problem.code == code and part in f"{problem.message} {problem.hint}"
    assert problem.where.startswith(f"{tmp_path / 'traffic.toml'}:")
