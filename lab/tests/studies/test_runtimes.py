"""The study runtimes: each of its servers is built, and answers what our designs answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from thunderherd.cli.list import _studies
from thunderherd.engine import client
from thunderherd.run.own_programs import prepared
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.trial import run_trial

BUILT_SOON = ("c_threads", "node", "python_asyncio", "nginx", "haproxy", "apache", "lighttpd")
BUILT_LATER = ("go", "rust", "python_uvloop", "python_uvicorn", "java")
ECHO = "@echo=64"
NEEDS_NEWER = "need Java 21"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def study() -> Study:
    settings = ["load.settings.duration=500ms", "counting.trials=0"]
    return load_study("runtimes", "full", settings, client.catalogue())


def test_every_server_of_the_study_is_tested_here(use_engine: Path) -> None:
    named = {each.base for each in study().contenders if each.own_server} | {*study().absent}
    assert {name.partition("@")[0] for name in named} <= {*BUILT_SOON, *BUILT_LATER}


@pytest.mark.parametrize(
    "name", [*BUILT_SOON, *(pytest.param(name, marks=pytest.mark.thorough) for name in BUILT_LATER)]
)
def test_a_server_answers_http_and_echoes(name: str, use_engine: Path) -> None:
    whole = study()
    own = [each for each in whole.contenders if each.base == name]
    if not own:
        pytest.skip(whole.absent[name])
    prepared(whole.model_copy(update={"contenders": tuple(own)}))
    for contender in own:
        trial = run_trial(whole, contender, block=1, position=1, seed=1)
        if any(NEEDS_NEWER in reason for reason in trial.invalid_reasons):
            pytest.skip(trial.invalid_reasons[0])
        errors = [load.tally.errors for load in trial.loads]
        assert errors == [{}], trial.invalid_reasons
        assert trial.loads[0].tally.requests > 0
        assert trial.summary is not None and trial.summary.died is None


def test_the_list_names_each_command_of_the_study() -> None:
    (entry,) = [each for each in _studies() if each["name"] == "runtimes"]
    programs = {
        each.own_server.command[0]
        for each in study().contenders
        if each.own_server and not each.own_server.build
    }
    assert programs <= {command.split()[0] for command in entry["commands"]}
    (ours,) = [each for each in _studies() if each["name"] == "unp-ch30"]
    assert ours["commands"] == []
