"""Counts the processes that hold a listener: parent and children, not threads or other processes."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from thunderherd.engine.client import Server
from thunderherd.trial import listener_holders
from thunderherd.trial.listener_holders import holders_of_listener, is_listening


@pytest.mark.parametrize(
    ("design", "pool", "expected"),
    [("prefork", 7, 8), ("prefork_file_lock", 1, 2), ("prethread", 7, 1), ("iterative", None, 1)],
)
def test_parent_and_children_hold_the_listener(design: str, pool: int | None, expected: int) -> None:
    settings = {} if pool is None else {"pool": pool}
    with Server(design, workload="bytes", settings=settings) as server:
        server.snapshot()
        # The pool may still be forked, on a busy machine for seconds.
        deadline = time.monotonic() + 30
        found: int | None = None
        while found != expected and time.monotonic() < deadline:
            found = holders_of_listener(server.ready.server_pid, server.ready.address)
        assert found == expected
        server.stop()


def test_threads_share_and_connections_are_no_listeners() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        release = threading.Event()
        threads = [threading.Thread(target=release.wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        with socket.create_connection(("127.0.0.1", port)):
            assert holders_of_listener(os.getpid(), f"127.0.0.1:{port}") == 1
        release.set()
        for thread in threads:
            thread.join()
    assert holders_of_listener(os.getpid(), f"127.0.0.1:{port}") is None


def test_listener_holders_are_none_if_proc_is_unreadable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(listener_holders, "PROC", tmp_path)
    assert holders_of_listener(1, "127.0.0.1:80") is None


def test_listening_process_is_found_without_connecting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert is_listening(os.getpid(), port)
        # A connection has the same port, and does not listen.
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert not is_listening(os.getpid(), client.getsockname()[1])
    assert not is_listening(os.getpid(), port)


def test_ended_process_is_not_listening() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        # One that has ended and was not waited for has no namespace any more.
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert not is_listening(child, port)
        os.waitpid(child, 0)
        assert not is_listening(child, port)
        assert is_listening(os.getpid()) and is_listening(os.getpid(), port)
