"""The studies peers and generators: each program that is installed measures what its contender says."""

from __future__ import annotations

from pathlib import Path

import pytest

from thunderherd.cli.list import _studies
from thunderherd.engine import client
from thunderherd.run.own_programs import prepared
from thunderherd.study.loading import load_study
from thunderherd.trial.trial import run_trial

PROGRAMS = {
    "peers": (
        "netperf", "neper", "sockperf", "sockperf_busy", "iperf3", "iperf3_sendfile", "netperf_stream",
        "neper_stream", "neper_many", "neper_new", "netbench", "netbench_uring",
    ),
    "generators": ("wrk", "ab", "hey", "h2load", "oha", "wrk2", "vegeta", "oha_rate"),
}  # fmt: skip
BOTH = [(study, base) for study, names in PROGRAMS.items() for base in names]


@pytest.mark.parametrize("study", PROGRAMS)
def test_every_program_of_the_study_is_tested_here(study: str, use_engine: Path) -> None:
    found = load_study(study, "full", (), client.catalogue())
    named = {each.base for each in found.contenders if each.load.generator} | {*found.absent}
    assert {name.partition("@")[0] for name in named} <= {*PROGRAMS[study]}


@pytest.mark.parametrize(("study", "base"), BOTH)
def test_a_program_measures_its_contender(study: str, base: str, use_engine: Path) -> None:
    whole = load_study(study, "full", ["load.settings.duration=1s"], client.catalogue())
    own = [each for each in whole.contenders if each.base == base]
    if not own:
        pytest.skip(whole.absent[next(name for name in whole.absent if name.partition("@")[0] == base)])
    contender = own[0]
    prepared(whole.model_copy(update={"contenders": (contender,)}))
    for attempt in range(1, 4):
        found = run_trial(whole, contender, block=1, position=1, seed=1, attempt=attempt)
        if found.loads:
            break  # on a busy machine, a program may see too little to report anything
    assert [load.tally.errors for load in found.loads] == [{}], found.invalid_reasons
    assert found.summary is not None and found.summary.died is None
    assert ((found.metrics or {})[contender.metric] or 0) > 0


def test_the_list_names_the_commands_of_both_ends() -> None:
    (entry,) = [each for each in _studies() if each["name"] == "peers"]
    assert {"iperf3", "netserver", "netperf", "sockperf", "tcp_rr"} <= {
        word for command in entry["commands"] for word in command.split()
    }
