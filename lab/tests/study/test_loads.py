"""Loads that the engine would refuse are refused when their study is read, at the key to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made.refusals import refused
from made.small_studies import head
from pydantic import ValidationError

from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.load_requirements import Requirement
from thunderherd.records.summary import TrialRecord
from thunderherd.search.knee_study import WAIT
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.trial import run_trial

CONTENDERS = """\
[sizes.quick]
repetitions = 1
[[contenders]]
name = "one"
design = "epoll"
[[contenders]]
name = "other"
design = "thread_per_client"
"""


def written(
    folder: Path,
    kind: str,
    settings: str,
    load: str = "",
    workload: str = "bytes",
    lab: str = "",
    contenders: str = CONTENDERS,
) -> Study:
    """A study whose contenders have such a load."""
    file = folder / "loads.toml"
    beginning = head(
        "loads", metric="latency_p50_seconds", workload=workload, kind=kind,
        load=f"processes = 1\n{load}", settings=settings,
    )  # fmt: skip
    file.write_text(beginning + lab + contenders)
    return load_study(str(file), "quick", [], client.catalogue())


def impossible(*arguments: Any, **named: Any) -> list[str]:
    """The messages about a load that the engine would refuse."""
    problems = refused(written, *arguments, **named)
    assert {each.code for each in problems} == {"study.impossible_load"}
    return [each.message for each in problems]


TIMED = "milliseconds = 100, clients = 2"
KEPT = f'{TIMED}, connections = "kept"'
ANEW = f'{TIMED}, connections = "per_request"'


@pytest.mark.parametrize(
    ("kind", "settings", "load", "part"),
    [
        ("open", f"{ANEW}, pipeline = 2", "", 'connections = "kept"'),
        ("closed_connections", f"{TIMED}, pipeline = 2", "", 'connections = "per_request"'),
        ("open", f"{ANEW}, requests_per_connection = 9", "", "requests_per_connection"),
        ("open", f"{TIMED}, threads = 3", "", "threads = 3 and clients = 2"),
        ("open", f"{KEPT}, clients = 100000, pipeline = 1024".replace("clients = 2, ", ""), "", "102400000"),
        ("closed_connections", "loops = 5, warm_up_milliseconds = 5", "", "warm_up_milliseconds"),
        (
            "open",
            f'{KEPT}, pipeline = 2, check = "count"',
            'receive = "recv_truncate"\n',
            '"recv_truncate"',
        ),
        ("open", f'{TIMED}, back_end = "io_uring"', 'primitive = "writev"\n', "io_uring"),
    ],
)
def test_a_load_that_cannot_be_is_refused_before_the_first_trial(
    real_engine: Path, tmp_path: Path, kind: str, settings: str, load: str, part: str
) -> None:
    problems = refused(written, tmp_path, kind, settings, load)
    assert any(each.code == "study.impossible_load" and part in each.message for each in problems), problems
    assert all("loads.toml:" in each.where for each in problems)


def test_a_schedule_needs_requests_that_are_answered_one_by_one(real_engine: Path, tmp_path: Path) -> None:
    assert impossible(tmp_path, "open", TIMED, workload="stream")


def test_an_open_load_keeps_no_more_connections_than_are_served_at_a_time(
    real_engine: Path, tmp_path: Path
) -> None:
    pooled = CONTENDERS.replace('"thread_per_client"', '"prethread"\nsettings = { pool = 5 }')
    (message,) = impossible(tmp_path, "open", KEPT.replace("clients = 2", "clients = 6"), contenders=pooled)
    assert message.startswith("other: 6 ") and "prethread" in message and "5" in message
    settings = KEPT.replace("clients = 2", "clients = 5")
    assert written(tmp_path, "open", settings, contenders=pooled).contenders
    closed = KEPT.replace("clients = 2", "clients = 6")
    assert written(tmp_path, "closed_connections", closed, contenders=pooled).contenders


def test_sides_of_one_address_have_no_more_to_connect_from(real_engine: Path, tmp_path: Path) -> None:
    settings = f"{TIMED}, source_addresses = 2"
    (message,) = impossible(tmp_path, "open", settings, lab='[lab]\nkind = "veth"\n')
    assert "source_addresses = 2" in message


def test_completions_are_told_of_no_primitive(real_engine: Path, tmp_path: Path) -> None:
    study = written(tmp_path, "closed_connections", f'{KEPT}, back_end = "io_uring"')
    contender = study.contender("one")
    assert not contender.load.uses_primitives
    record: TrialRecord = run_trial(study, contender, block=1, position=1, seed=1)
    cannot = [reason for reason in record.invalid_reasons if "is not available on this machine" in reason]
    if cannot:
        pytest.skip(cannot[0])
    assert record.metrics is not None, record.invalid_reasons


def test_connections_have_the_ports_of_all_their_addresses(real_engine: Path, tmp_path: Path) -> None:
    each = 'connections = "kept", loops = 1, clients = 40000'
    (problem,) = refused(written, tmp_path, "closed_connections", each)
    assert problem.code == "study.too_few_ports"
    study = written(tmp_path, "closed_connections", f"{each}, source_addresses = 8")
    assert study.contender("one").load.sources == 8


@pytest.mark.parametrize(
    ("value", "other", "says"),
    [(1, 0, None), (2, 1, "other must be 2 or more"), (2, 2, None), (3, 2, "own = 3 and other = 2")],
)
def test_what_breaks_a_requirement(value: int, other: int, says: str | None) -> None:
    requirement = Requirement(setting="own", beyond=1, needs="as_many", other="other")
    found = requirement.broken({"own": value, "other": other})
    assert found is None if says is None else says in str(found)


@pytest.mark.parametrize(
    ("kind", "settings", "of_server", "spins"),
    [
        ("closed_connections", KEPT, "", [False, False]),
        ("closed_connections", f'{KEPT}, back_end = "polling"', "", [True, True]),
        ("open", f'{KEPT}, wait = "spin"', "", [True, True]),
        ("closed_connections", KEPT, 'settings = { wait = "spin" }\n', [True, False]),
    ],
)
def test_an_end_that_never_sleeps_is_known(
    tmp_path: Path, kind: str, settings: str, of_server: str, spins: list[bool]
) -> None:
    """Limits that are those of ends that sleep do not bound it."""
    contenders = CONTENDERS.replace('design = "epoll"\n', f'design = "epoll"\n{of_server}')
    study = written(tmp_path, kind, settings, contenders=contenders)
    assert [contender.spins for contender in study.contenders] == spins


def test_a_catalogue_says_what_never_sleeps(some_catalogue: Catalogue, real_engine: Path) -> None:
    """A search for the knee takes the word of a setting from it, which nothing can stand in for."""
    told = some_catalogue.model_dump(by_alias=True)
    del told["never_sleeps"]
    with pytest.raises(ValidationError, match="never_sleeps"):
        Catalogue.model_validate(told)
    for catalogue in (some_catalogue, client.catalogue(real_engine)):
        assert WAIT in catalogue.never_sleeps


def test_a_load_that_polls_is_run_and_its_cpu_is_not_held_against_it(
    real_engine: Path, tmp_path: Path
) -> None:
    """The other end's rate is judged, though the load's thread is never off its CPU."""
    study = written(tmp_path, "closed_connections", f'{KEPT}, back_end = "polling"')
    record = run_trial(study, study.contenders[0], block=1, position=1, seed=1)
    assert record.valid, record.invalid_reasons
