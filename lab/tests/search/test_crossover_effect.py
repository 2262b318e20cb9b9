"""What a search sweeps has an effect: refused otherwise, with what to type, before anything is written."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from made.summaries.crossed import study_of

from thunderherd.cli import main
from thunderherd.engine.client import catalogue
from thunderherd.errors import UserError
from thunderherd.search.crossover_effect import PART, PERIOD, check_effect, first_sizes, least_source_bytes
from thunderherd.search.crossover_study import Asked, coarse_study, range_of

SENDERS, RECEIVERS = ("sendmsg", "send_each"), ("recv", "readv")
BACK = "load.settings.direction=to_client"


def refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: Path
) -> str:
    """What the command says on stderr, in one line; it leaves nothing behind."""
    command = ["crossover", *words, "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["thunderherd", *command])
    assert main.run_command(command) == 2
    said = capsys.readouterr().err
    assert not out.exists() and said.count("\n") == 1 and ".toml" not in said, said
    return said.strip()


def swept_keys(
    pair: tuple[str, str], over: str, directory: Path, *fixed: str, side: str | None = None
) -> str:
    """The keys of a search that is not refused."""
    asked, offered = Asked(*pair, over, side=side), catalogue()
    text = coarse_study(asked, offered, fixed)
    study = study_of(first_sizes(text), directory / "coarse.toml", *fixed, catalogue=offered)
    check_effect(text, study, over, range_of(asked, offered), side, offered)
    key = study.sweeps[0].key
    return key if isinstance(key, str) else " ".join(key or ())


FILE, MEMFD = "load.settings.source=file", "server.settings.source=memfd"


@pytest.mark.parametrize(
    ("pair", "over", "fixed", "side", "key"),
    [
        (SENDERS, "message_bytes=1k..4k", (), None, "load.settings.message_bytes"),
        (SENDERS, "message_bytes=1k..4k", (BACK,), None, "settings.message_bytes"),
        (SENDERS, "message_bytes=1k..4k", (BACK,), "server", "settings.message_bytes"),
        (SENDERS, "receive_bytes=1k..64k", (), None, "settings.receive_bytes"),
        (RECEIVERS, "receive_bytes=1k..64k", (), None, "settings.receive_bytes"),
        (RECEIVERS, "receive_bytes=1k..64k", ("direction=to_client",), None, "load.settings.receive_bytes"),
        (RECEIVERS, "receive_bytes=1k..64k", (BACK,), "client", "load.settings.receive_bytes"),
        (RECEIVERS, "message_bytes=1k..64k", (), None, "load.settings.message_bytes"),
        (
            SENDERS,
            "source_bytes=196607..2MiB",
            ("load.settings.source=file",),
            None,
            "load.settings.source_bytes",
        ),
        (
            SENDERS,
            "source_bytes=1MiB..2MiB",
            (BACK, "server.settings.source=memfd"),
            None,
            "settings.source_bytes",
        ),
    ],
)
def test_it_is_of_the_end_that_makes_use_of_it(
    use_engine: Path, tmp_path: Path, pair: tuple[str, str], over: str, fixed: tuple[str, ...],
    side: str | None, key: str,
) -> None:  # fmt: skip
    assert swept_keys(pair, over, tmp_path, *fixed, side=side) == key


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "recv readv --over receive_bytes=1KiB..64KiB --side client",
            "receive_bytes=1KiB..64KiB: receive_bytes of the client would have no effect: the stream "
            'goes to the server (direction = "to_server"), and the client receives nothing of it; leave '
            f"--side client out, or, for a stream the other way, add --set {BACK}",
        ),
        (
            "sendmsg send_each --over load.settings.receive_bytes=1k..64k",
            "type --over settings.receive_bytes=1000..64000, or",
        ),
        (
            "sendmsg send_each --over message_bytes=64..4MiB --side server",
            "message_bytes of the server would have no effect: .* sends nothing of it; leave --side",
        ),
        (
            f"sendmsg send_each --over message_bytes=64..4MiB --side client --set {BACK}",
            '(direction = "to_client"), and the client sends nothing of it; leave',
        ),
        (
            "sendmsg send_each --over source_bytes=64..2MiB",
            'sent from memory (source = "memory"); add --set load.settings.source=file, or memfd',
        ),
        (
            "sendmsg send_each --over source_bytes=64..2MiB --set load.settings.source=file",
            "below 196607 all sizes would be the same file, .*; type --over source_bytes=196607..2097152",
        ),
        (
            "sendmsg send_each --over source_bytes=64..100k --set load.settings.source=memfd",
            "go beyond that, or lower it by --set load.settings.message_bytes=...",
        ),
        (
            "sendmsg send_each --workload stream --over loops=1..10",
            "a stream has to end, .*--set load.settings.stream_bytes=10000000",
        ),
        ("sendmsg send_each --workload http --over clients=1..100000", "; type --over clients=1.."),
        (
            "sendmsg send_each --over bytes=1..100 --over loops=1..9",
            "--over is given 2 times: bytes=1..100, and loops=1..9; leave all out but one",
        ),
        (
            "design=prefork,pool=0 prefork --over bytes=1..100",
            "crossover: pool = 0; allowed: a whole number from 1",
        ),
    ],
)
def test_what_would_have_none_is_refused_with_what_to_type(
    use_engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: str, said: str,
) -> None:  # fmt: skip
    told = refused(shlex.split(words), monkeypatch, capsys, tmp_path / "out")
    assert told.startswith("thunderherd: crossover: "), told
    assert re.search(".*".join(map(re.escape, said.split(".*"))), told), told


def test_what_is_typed_instead_is_not_refused(use_engine: Path, tmp_path: Path) -> None:
    """As many clients as there are ports for; a stream with an end."""
    with pytest.raises(UserError) as caught:
        swept_keys(SENDERS, "clients=1..100000", tmp_path)
    over = str(caught.value).rpartition("--over ")[2]
    assert swept_keys(SENDERS, over, tmp_path) == "load.settings.clients"
    most = int(over.rpartition("..")[2])
    with pytest.raises(UserError, match=f"type --over clients=1..{most}"):
        swept_keys(SENDERS, f"clients=1..{most + 1}", tmp_path)


def test_the_least_file_is_the_engines() -> None:
    engine = Path(__file__).parents[3] / "engine" / "src"
    assert f"const PERIOD: usize = {PERIOD >> 10} << 10;" in (engine / "workloads/stream/reel.rs").read_text()
    assert f"const PART: usize = {PART >> 10} * 1024;" in (engine / "transfer/outbox.rs").read_text()
    assert [least_source_bytes(each) for each in (1, 1000, 131_072)] == [131_071, 130_535, 196_607]
