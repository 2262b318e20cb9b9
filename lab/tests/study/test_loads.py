"""Loads that the engine would refuse are refused when their study is read, at the key to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.refusals import refused
from made.small_studies import head
from pydantic import ValidationError

from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
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


TIMED = 'duration = "100ms", clients = 2'
KEPT = f'{TIMED}, connections = "kept"'
NEEDS = "load.needs_another_setting"
ANEW = f'{TIMED}, connections = "per_request"'


@pytest.mark.parametrize(
    ("kind", "settings", "load", "code", "part"),
    [
        (
            "open",
            f"{ANEW}, pipeline = 2",
            "",
            NEEDS,
            "pipeline = 2 needs connections kept",
        ),
        (
            "closed_connections",
            f"{TIMED}, pipeline = 2",
            "",
            NEEDS,
            "connections kept",
        ),
        (
            "open",
            f"{ANEW}, requests_per_connection = 9",
            "",
            NEEDS,
            "connections kept",
        ),
        ("open", f"{TIMED}, threads = 3", "", "load.more_than_another_setting", "clients = 3"),
        (
            "open",
            f"{KEPT}, clients = 100000, pipeline = 1024".replace("clients = 2, ", ""),
            "",
            "load.product_too_large",
            "102400000",
        ),
        (
            "closed_connections",
            'loops = 5, warm_up = "5ms"',
            "",
            "load.warm_up_without_window",
            "warm_up",
        ),
        (
            "open",
            f'{KEPT}, pipeline = 2, check = "count"',
            'receive = "recv_truncate"\n',
            "fit.receive_and_pipeline",
            "recv_truncate",
        ),
        (
            "open",
            f'{TIMED}, back_end = "io_uring"',
            'primitive = "writev"\n',
            "load.primitive_without_part",
            "back_end io_uring",
        ),
    ],
)
def test_a_load_that_the_engine_refuses_is_refused_before_the_first_trial(
    real_engine: Path, tmp_path: Path, kind: str, settings: str, load: str, code: str, part: str
) -> None:
    (problem,) = (each for each in refused(written, tmp_path, kind, settings, load) if each.code == code)
    assert part in problem.message
    assert problem.message.startswith("every contender: ") and "loads.toml:" in problem.where


def test_schedule_needs_a_workload_with_one_reply_per_request(real_engine: Path, tmp_path: Path) -> None:
    (problem,) = refused(written, tmp_path, "open", TIMED, workload="stream")
    assert problem.code == "load.open_needs_replies"


def test_server_settings_that_the_engine_refuses_name_the_contender(
    real_engine: Path, tmp_path: Path
) -> None:
    """Only the contender with the setting is refused, at the one of both settings that it sets itself."""
    spare = '"prefork_dynamic"\nsettings = { maximum_spare = 3 }'
    (problem,) = refused(
        written, tmp_path, "closed", "loops = 1",
        contenders=CONTENDERS.replace('"thread_per_client"', spare),
    )  # fmt: skip
    lines = (tmp_path / "loads.toml").read_text().splitlines()
    assert problem.code == "pool.bounds_reversed" and problem.message.startswith("other: ")
    assert "maximum_spare" in lines[int(problem.where.rpartition(":")[2]) - 1]


def test_open_load_with_more_connections_than_workers_is_refused(real_engine: Path, tmp_path: Path) -> None:
    pooled = CONTENDERS.replace('"thread_per_client"', '"prethread"\nsettings = { pool = 5 }')
    settings = KEPT.replace("clients = 2", "clients = 6")
    (problem,) = refused(written, tmp_path, "open", settings, contenders=pooled)
    assert problem.code == "study.impossible_load" and problem.message.startswith("other: 6 ")
    assert "prethread" in problem.message and "5" in problem.message
    settings = KEPT.replace("clients = 2", "clients = 5")
    assert written(tmp_path, "open", settings, contenders=pooled).contenders
    closed = KEPT.replace("clients = 2", "clients = 6")
    assert written(tmp_path, "closed_connections", closed, contenders=pooled).contenders


def test_source_addresses_over_veth_are_refused(real_engine: Path, tmp_path: Path) -> None:
    settings = f"{TIMED}, source_addresses = 2"
    (problem,) = refused(written, tmp_path, "open", settings, lab='[lab]\nkind = "veth"\n')
    assert problem.code == "study.impossible_load" and "source_addresses = 2" in problem.message


def test_io_uring_load_without_a_zero_copy_primitive_has_metrics(real_engine: Path, tmp_path: Path) -> None:
    study = written(tmp_path, "closed_connections", f'{KEPT}, back_end = "io_uring"')
    contender = study.contender("one")
    assert not contender.load.own_way
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
    ("kind", "settings", "of_server", "spins"),
    [
        ("closed_connections", KEPT, "", [False, False]),
        ("closed_connections", f'{KEPT}, back_end = "polling"', "", [True, True]),
        ("open", f'{KEPT}, wait = "spin"', "", [True, True]),
        ("closed_connections", KEPT, 'settings = { wait = "spin" }\n', [True, False]),
    ],
)
def test_busy_polling_end_is_recognised(
    tmp_path: Path, kind: str, settings: str, of_server: str, spins: list[bool]
) -> None:
    """Machine limits of sleeping ends do not bound a busy-polling one."""
    contenders = CONTENDERS.replace('design = "epoll"\n', f'design = "epoll"\n{of_server}')
    study = written(tmp_path, kind, settings, contenders=contenders)
    assert [contender.spins for contender in study.contenders] == spins


def test_catalogue_lists_busy_polling_settings(some_catalogue: Catalogue, real_engine: Path) -> None:
    """A search for the knee takes a value of a setting from this list, which has no substitute."""
    told = some_catalogue.model_dump(by_alias=True)
    del told["never_sleeps"]
    with pytest.raises(ValidationError, match="never_sleeps"):
        Catalogue.model_validate(told)
    for catalogue in (some_catalogue, client.catalogue(real_engine)):
        assert WAIT in catalogue.never_sleeps


def test_cpu_time_of_a_polling_load_does_not_invalidate_its_trial(real_engine: Path, tmp_path: Path) -> None:
    """The server's rate is judged although the thread of the load never leaves its CPU."""
    study = written(tmp_path, "closed_connections", f'{KEPT}, back_end = "polling"')
    record = run_trial(study, study.contenders[0], block=1, position=1, seed=1)
    assert record.valid, record.invalid_reasons
