"""The study nginx: each of its servers answers wrk with the same number of bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from thunderherd.engine import client
from thunderherd.run.own_programs import prepared
from thunderherd.study.loading import load_study
from thunderherd.trial.trial import run_trial

BYTES = 4000
NAMES = ("nginx", "nginx_file_cache", "nginx_copy", "epoll")


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_a_server_answers_wrk_with_the_whole_file(
    name: str, use_engine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    study = load_study("nginx", "quick", (), client.catalogue())
    own = study.contender(name)
    prepared(study.model_copy(update={"contenders": (own,)}))
    trial = run_trial(study, own, block=1, position=1, seed=1)
    (load,) = trial.loads
    assert load.tally.errors == {}, trial.invalid_reasons
    assert load.tally.requests > 0
    if own.own_server is None:
        assert trial.summary is not None and trial.summary.tally is not None
        assert trial.summary.tally.bytes_sent >= BYTES * load.tally.requests
