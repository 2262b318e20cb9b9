"""A swept setting without effect is refused with a suggestion, before anything is written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from made.refusals import codes_printed, refused
from made.summaries.crossed import study_of

from thunderherd.cli import main
from thunderherd.engine.client import catalogue
from thunderherd.search.crossover_effect import check_effect, first_sizes
from thunderherd.search.crossover_study import coarse_study
from thunderherd.search.request import CrossoverRequest

SENDERS, RECEIVERS = ("sendmsg", "send_each"), ("recv", "readv")
BACK = "load.settings.direction=to_client"


def printed(words: list[str], capsys: pytest.CaptureFixture[str], out: Path) -> str:
    """The refusal of the command, which leaves nothing behind."""
    assert main.run_command(["crossover", *words, "--out", str(out)]) == 2
    stderr = capsys.readouterr().err
    assert not out.exists() and ".toml" not in stderr, stderr
    return stderr


def swept_keys(
    pair: tuple[str, str], over: str, directory: Path, *fixed: str, side: str | None = None
) -> str:
    """The keys of a search that is not refused."""
    request, offered = CrossoverRequest(a=pair[0], b=pair[1], over=over, side=side, fixed=fixed), catalogue()
    tables = coarse_study(request, offered)
    study = study_of(first_sizes(tables), directory / "coarse.toml", *fixed, catalogue=offered)
    check_effect(tables, study, request, offered)
    key = study.sweeps[0].key
    return key if isinstance(key, str) else " ".join(key or ())


FILE, MEMFD = "load.settings.source=file", "server.settings.source=memfd"


@pytest.mark.parametrize(
    ("pair", "over", "fixed", "side", "key"),
    [
        (SENDERS, "message_size=1k..4k", (), None, "load.settings.message_size"),
        (SENDERS, "message_size=1k..4k", (BACK,), None, "settings.message_size"),
        (SENDERS, "message_size=1k..4k", (BACK,), "server", "settings.message_size"),
        (SENDERS, "receive_size=1k..64k", (), None, "settings.receive_size"),
        (RECEIVERS, "receive_size=1k..64k", (), None, "settings.receive_size"),
        (RECEIVERS, "receive_size=1k..64k", ("direction=to_client",), None, "load.settings.receive_size"),
        (RECEIVERS, "receive_size=1k..64k", (BACK,), "client", "load.settings.receive_size"),
        (RECEIVERS, "message_size=1k..64k", (), None, "load.settings.message_size"),
        (
            SENDERS,
            "source_size=196607..2MiB",
            ("load.settings.source=file",),
            None,
            "load.settings.source_size",
        ),
        (
            SENDERS,
            "source_size=1MiB..2MiB",
            (BACK, "server.settings.source=memfd"),
            None,
            "settings.source_size",
        ),
    ],
)
def test_swept_setting_belongs_to_the_end_that_uses_it(
    use_engine: Path, tmp_path: Path, pair: tuple[str, str], over: str, fixed: tuple[str, ...],
    side: str | None, key: str,
) -> None:  # fmt: skip
    assert swept_keys(pair, over, tmp_path, *fixed, side=side) == key


@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        (
            "recv readv --over receive_size=1KiB..64KiB --side client",
            "crossover.side_without_effect",
            [
                "crossover: --over receive_size=1KiB..64KiB: ",
                "receive_size of the client",
                'direction = "to_server"',
                "leave --side client out",
                f"--set {BACK}",
            ],
        ),
        (
            "sendmsg send_each --over load.settings.receive_size=1k..64k",
            "crossover.side_without_effect",
            ["type --over settings.receive_size=1000..64000"],
        ),
        (
            "sendmsg send_each --over message_size=64..4MiB --side server",
            "crossover.side_without_effect",
            ["message_size of the server", "leave --side server out"],
        ),
        (
            f"sendmsg send_each --over message_size=64..4MiB --side client --set {BACK}",
            "crossover.side_without_effect",
            ["message_size of the client", 'direction = "to_client"', "leave --side client out"],
        ),
        (
            "sendmsg send_each --over source_size=64..2MiB",
            "crossover.source_is_memory",
            ["sent from memory", "--set load.settings.source=file"],
        ),
        (
            "sendmsg send_each --over source_size=64..2MiB --set load.settings.source=file",
            "crossover.source_too_small",
            ["below 196607", "type --over source_size=196607..2097152"],
        ),
        (
            "sendmsg send_each --over source_size=64..100k --set load.settings.source=memfd",
            "crossover.source_too_small",
            ["above 196607", "--set load.settings.message_size=..."],
        ),
        (
            "sendmsg send_each --workload stream --over loops=1..10",
            "stream.no_end",
            ["stream_size"],
        ),
        (
            "sendmsg send_each --workload http --over clients=1..100000",
            "crossover.too_few_ports",
            ["type --over clients=1.."],
        ),
        (
            "sendmsg send_each --over bytes=1..100 --over loops=1..9",
            "crossover.over_repeated",
            ["2 times: bytes=1..100, loops=1..9"],
        ),
        (
            "design=prefork,pool=0 prefork --over bytes=1..100",
            "study.invalid_setting",
            ["crossover: design=prefork,pool=0: ", "pool = 0", "from 1 "],
        ),
    ],
)
def test_swept_key_without_effect_is_refused_with_a_suggestion(
    use_engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    words: str, code: str, facts: list[str],
) -> None:  # fmt: skip
    stderr = printed(shlex.split(words), capsys, tmp_path / "out")
    assert stderr.startswith("thunderherd: crossover: "), stderr
    assert codes_printed(stderr) == [code]
    assert [fact for fact in facts if fact not in stderr] == [], stderr


def test_suggested_range_is_accepted(use_engine: Path, tmp_path: Path) -> None:
    """As many clients as there are ports for."""
    (problem,) = refused(swept_keys, SENDERS, "clients=1..100000", tmp_path)
    over = problem.hint.partition("--over ")[2].partition(";")[0]
    assert swept_keys(SENDERS, over, tmp_path) == "load.settings.clients"
    most = int(over.rpartition("..")[2])
    (problem,) = refused(swept_keys, SENDERS, f"clients=1..{most + 1}", tmp_path)
    assert problem.code == "crossover.too_few_ports" and f"--over clients=1..{most};" in problem.hint
