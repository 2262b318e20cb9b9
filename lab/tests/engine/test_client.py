"""The engine's client with fake engines that fail in every way for which there is a message."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from made.engines import processes_of
from made.fake_engine import BEFORE_A_CRASH, NO_SUCH_PORT
from made.refusals import refused

from thunderherd.engine import client, process
from thunderherd.engine.catalogue import Catalogue, TextSetting
from thunderherd.engine.client import EngineError, Server, catalogue, find_engine, setting_flags, start_load
from thunderherd.engine.lines import LoadResult
from thunderherd.engine.places import channel
from thunderherd.engine.places.failures import not_started
from thunderherd.engine.places.place import Place
from thunderherd.errors import Problem, Refusal, UserError

Fake = Callable[..., Path]

PATIENCE = 60.0
"""Seconds in which a busy machine lets processes start or end."""


def server(design: str = "prefork") -> Server:
    return Server(design, workload="bytes", settings={"drain": 100_000_000})


def is_gone(pid: int) -> bool:
    """Ended and reaped."""
    return not Path(f"/proc/{pid}").exists()


# Finding it


def test_the_environment_names_the_engine(fake_engine: Fake) -> None:
    path = fake_engine()
    assert find_engine() == path


def test_a_wrong_name_in_the_environment_is_the_users_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THUNDERHERD_ENGINE", "/nowhere/engine")
    (problem,) = refused(find_engine)
    assert problem.code == "engine.not_executable"
    assert "THUNDERHERD_ENGINE" in problem.message and "'/nowhere/engine'" in problem.message


def test_engine_is_searched_next_to_python_then_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("THUNDERHERD_ENGINE", raising=False)
    beside, on_path = tmp_path / "beside", tmp_path / "path"
    for directory in (beside, on_path):
        directory.mkdir()
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    monkeypatch.setenv("PATH", str(on_path))
    (problem,) = refused(find_engine)
    assert problem.code == "engine.not_found" and "`make build`" in problem.hint
    for directory in (on_path, beside):
        path = directory / "thunderherd-engine"
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        assert find_engine() == path


def test_the_catalogue_is_requested_once(fake_engine: Fake) -> None:
    fake_engine()
    assert catalogue() is catalogue()
    assert [design.name for design in catalogue().designs][:2] == ["iterative", "fork_per_client"]


def test_an_engine_that_cannot_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "engine"
    path.write_text("no program")
    path.chmod(0o755)
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(path))
    with pytest.raises(UserError) as of_server, server():
        pass
    for problems in (refused(catalogue), of_server.value.problems):
        assert [each.code for each in problems] == ["engine.not_started"]
        assert "`make build`" in problems[0].hint


AT_A_LIMIT = """
import os, resource, tempfile
from thunderherd.engine.client import output_of
from thunderherd.engine.places.channel import LocalChannel
from thunderherd.errors import UserError
tempfile.gettempdir()  # found by writing a file
hard, open_now = resource.getrlimit(resource.RLIMIT_NOFILE)[1], len(os.listdir("/proc/self/fd")) - 1
starts = [
    lambda: LocalChannel(["/bin/sleep", "60"], control=True).end(at_once=True),
    lambda: output_of(["/bin/true"], "true"),
]
# Downwards, since Popen of Python 3.11.2 keeps pipes that it could not use.
for spare in reversed(range(14)):
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + spare, hard))
    for start in starts:
        try:
            start()
            print("started")
        except UserError as error:
            print(*error.codes, error.problems[0].hint)
        except OSError as error:  # a file for its stderr
            print(error.strerror)
try:
    os.waitpid(-1, os.WNOHANG)
    print("a process is left")
except ChildProcessError:
    pass
"""


def test_at_a_limit_on_open_files_the_hint_names_the_limit() -> None:
    words = [sys.executable, "-c", AT_A_LIMIT]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert {*done.stdout.splitlines()} == {
        "engine.not_started raise the limit on open files (ulimit -n)", "Too many open files", "started",
    }, done.stdout  # fmt: skip


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.EMFILE, errno.ETXTBSY])
def test_only_a_program_that_is_not_there_or_is_none_is_built(number: int) -> None:
    is_built = number in (errno.ENOENT, errno.EACCES, errno.ENOEXEC)
    error = not_started("engine", OSError(number, os.strerror(number)))
    assert isinstance(error, UserError) and ("make build" in error.problems[0].hint) == is_built


def test_settings_become_flags(some_catalogue: Catalogue) -> None:
    assert setting_flags({"drain": 5_000_000, "nodelay": True, "check": "count"}, some_catalogue.of_ends) == [
        "--drain", "5ms", "--nodelay", "true", "--check", "count",
    ]  # fmt: skip


# A server


def test_a_text_is_visible_ascii_of_some_length() -> None:
    path = TextSetting(name="path", help="", kind="text", longest=4, default="/")
    assert all(path.accepts(right) for right in ("/", "/a?b", "%20~"))
    assert not any(path.accepts(wrong) for wrong in ("", "/a b", "/abcd", "/\u00e9", "/\n", 4, True))
    assert "1 to 4" in path.allowed()


def test_a_server_from_ready_to_summary(fake_engine: Fake) -> None:
    fake_engine()
    with server() as running:
        pid = running.ready.supervisor_pid
        assert running.snapshot().tally.requests == 0
        load = start_load("bytes", running.ready.address, settings={"children": 2, "loops": 30})
        result = load.wait(60)
        assert (result.tally.requests, result.tally.errors) == (60, {})
        now = running.snapshot()
        assert (now.tally.requests, now.workers, now.cpu_ns) == (60, [20, 20, 20], 60 * 40_000)
        summary = running.stop()
    assert summary.tally.connections == 60
    assert summary.died is None
    assert is_gone(pid)


def test_leaving_the_block_ends_the_server(fake_engine: Fake) -> None:
    fake_engine()
    with pytest.raises(ZeroDivisionError), server() as running:
        pid = running.ready.supervisor_pid
        raise ZeroDivisionError
    assert is_gone(pid)


def test_a_server_that_does_not_obey_is_killed(fake_engine: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_engine("stuck")
    monkeypatch.setattr(client, "STOP_SECONDS", 0.3)
    monkeypatch.setattr(channel, "KILL_SECONDS", 0.3)
    with pytest.raises(EngineError, match="server prefork"), server() as running:
        pid = running.ready.supervisor_pid
        running.stop()
    assert is_gone(pid)


def test_server_that_never_gets_ready_is_an_error(fake_engine: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_engine("mute")
    monkeypatch.setattr(client, "READY_SECONDS", 0.3)
    began = time.monotonic()
    with pytest.raises(EngineError, match="server prefork"), server():
        pass
    # Python alone starts late on a busy machine; the stand-in would be silent for 60 s.
    assert time.monotonic() - began < 30


def test_a_crash_is_reported_with_the_last_lines_of_stderr(fake_engine: Fake) -> None:
    fake_engine("crash")
    with pytest.raises(EngineError, match=f"SIGSEGV.*{' / '.join(BEFORE_A_CRASH)}"), server():
        pass


def test_exit_status_2_is_the_users_mistake_with_the_engines_code(fake_engine: Fake) -> None:
    fake_engine("no_such_port")
    with pytest.raises(Refusal) as refusal, server():
        pass
    assert refusal.value.problems == (Problem(*NO_SUCH_PORT),)


def test_a_refusal_behind_a_warning_keeps_its_code() -> None:
    printed = "thunderherd-engine: warning: slow\nthunderherd-engine: no [x] here [a.b_c]\nhint: try [y]\n"
    assert process.problem_in(printed) == Problem("no [x] here", "a.b_c", "try [y]")
    assert process.problem_in("thunderherd-engine: no code\n") == Problem("no code", "engine.refused")


def test_a_load_that_is_refused_has_the_engines_code(use_engine: Path) -> None:
    for more in ({}, {"whole_life": True}):
        load = start_load("bytes", "127.0.0.1:1", settings={"children": 0, "loops": 1}, **more)
        (problem,) = refused(load.wait, 60)
        assert problem.code == "setting.invalid_value" and "--children" in str(problem)


def test_an_engine_of_another_release_is_refused(fake_engine: Fake) -> None:
    fake_engine("newer")
    with pytest.raises(UserError) as refusal, server():
        pass
    assert refusal.value.codes == ("engine.other_version",) and " 99 " in str(refusal.value)


def test_a_server_that_died_is_reported_with_its_signal(fake_engine: Fake) -> None:
    fake_engine("dies")
    with server() as running:
        start_load("bytes", running.ready.address, settings={"children": 1, "loops": 1}).wait(60)
        with pytest.raises(EngineError, match=r"server prefork.*SIGKILL"):
            running.snapshot()


def test_a_line_that_is_no_json_is_shown(fake_engine: Fake) -> None:
    fake_engine("garbage")
    with server() as running, pytest.raises(EngineError, match=r"'\{oops'"):
        running.snapshot()


def test_only_the_main_thread_may_start_it(fake_engine: Fake) -> None:
    fake_engine()
    seen: list[BaseException] = []

    def start() -> None:
        try:
            with server():
                pass
        except RuntimeError as error:
            seen.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(seen[0])


# A load


def test_a_load_with_errors_still_gives_its_result(fake_engine: Fake) -> None:
    fake_engine("load_error")
    with server() as running:
        result = start_load("bytes", running.ready.address, settings={"children": 2, "loops": 5}).wait(60)
    assert (result.tally.requests, result.expected_requests) == (8, 10)
    assert (result.tally.errors, result.first_error) == ({"refused": 2}, "connect: refused")


def test_a_load_that_hangs_is_ended(fake_engine: Fake) -> None:
    fake_engine("load_hangs")
    with server() as running:
        load = start_load("bytes", running.ready.address, settings={"children": 2, "loops": 5})
        with pytest.raises(EngineError, match="load bytes"):
            load.wait(0.3)


# The engine itself


def test_the_real_engine_serves_and_loads(copied_engine: Path) -> None:
    with server() as running:
        result = start_load("bytes", running.ready.address, settings={"children": 2, "loops": 10}).wait(30)
        assert result.tally.requests == result.expected_requests == 20
        deadline = time.monotonic() + PATIENCE
        while running.snapshot().tally.requests < 20 and time.monotonic() < deadline:
            time.sleep(0.01)  # a client has its reply before the server has counted it
        now = running.snapshot()
        assert now.tally.requests == 20
        assert now.workers is not None and sum(now.workers) == 20
        summary = running.stop()
    assert summary.cpu_ns > 0
    assert processes_of(copied_engine) == {}


def test_the_real_engine_leaves_nothing_when_the_block_is_left(copied_engine: Path) -> None:
    with server() as running:
        deadline = time.monotonic() + PATIENCE
        while len(processes_of(copied_engine)) < 17 and time.monotonic() < deadline:
            time.sleep(0.01)  # `ready` says that it listens; the pool may still be forked
        assert len(processes_of(copied_engine)) == 17  # supervisor, parent and 15 children
        assert running.ready.supervisor_pid in processes_of(copied_engine)
    assert processes_of(copied_engine) == {}


def test_a_killed_supervisor_takes_its_server_with_it(copied_engine: Path) -> None:
    with server() as running:
        os.kill(running.ready.supervisor_pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="SIGKILL"):
            running.snapshot()
    deadline = time.monotonic() + PATIENCE
    while processes_of(copied_engine) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_of(copied_engine) == {}


@pytest.mark.parametrize("design", ["iterative", "fork_per_client", "prethread"])
def test_a_killed_server_is_reported_and_leaves_nothing(copied_engine: Path, design: str) -> None:
    with server(design) as running:
        os.kill(running.ready.server_pid, signal.SIGKILL)
        with pytest.raises(EngineError, match=f"server {design}.*SIGKILL"):
            while True:
                running.snapshot()
    assert processes_of(copied_engine) == {}


def test_a_killed_client_is_counted_and_leaves_nothing(copied_engine: Path) -> None:
    with server() as running:
        # So many that they still run when this test, on a busy machine, gets a CPU to look for them.
        load = start_load("bytes", running.ready.address, settings={"children": 2, "loops": 20_000})
        clients: list[int] = []
        deadline = time.monotonic() + PATIENCE
        while len(clients) < 3 and time.monotonic() < deadline:
            clients = [pid for pid, line in processes_of(copied_engine).items() if " load " in line]
        os.kill(max(clients), signal.SIGKILL)
        result = load.wait(240)
        assert result.tally.workers_lost == 1
        assert result.tally.requests < result.expected_requests
    assert processes_of(copied_engine) == {}


@pytest.mark.parametrize("whole_life", [False, True])
def test_a_load_that_awaits_a_reply_is_ended_at_once(copied_engine: Path, whole_life: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        load = start_load("bytes", address, settings={"children": 2, "loops": 5}, whole_life=whole_life)
        for _ in range(2):
            silent.accept()
        began = time.monotonic()
        load.end()
        # To await the reply would take ten seconds, and a kill may wait for a busy CPU.
        assert time.monotonic() - began < 7
    deadline = time.monotonic() + PATIENCE
    while processes_of(copied_engine) and time.monotonic() < deadline:
        time.sleep(0.02)  # what it had forked goes by the signal of its parent's death
    assert processes_of(copied_engine) == {}


READER = """
import subprocess, sys, time
listing = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, pipesize=4096)
time.sleep(60)
"""


def test_a_list_whose_reader_is_killed_ends(copied_engine: Path) -> None:
    """It is more than the pipe holds, so it is still being written when nobody is left to read it."""
    with subprocess.Popen([sys.executable, "-c", READER, copied_engine, "list", "--json"]) as reader:
        deadline = time.monotonic() + 30
        while not processes_of(copied_engine) and time.monotonic() < deadline:
            time.sleep(0.02)
        listed = processes_of(copied_engine)
        reader.kill()
    assert len(listed) == 1
    deadline = time.monotonic() + 30
    while processes_of(copied_engine) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_of(copied_engine) == {}


def test_the_real_engine_refuses_a_wrong_setting_as_the_users_mistake(use_engine: Path) -> None:
    with pytest.raises(Refusal) as refusal, Server("prefork", workload="bytes", settings={"backlog": -5}):
        pass
    assert refusal.value.codes == ("setting.invalid_value",) and "--backlog" in str(refusal.value)


# A start that several loads agree on


class FarPlace(Place):
    """This machine, with a call that is said to take so long, and takes what it takes."""

    def __init__(self, round_trip_ns: int, seconds: float = 0.0) -> None:
        super().__init__()
        self._round_trip_ns, self._seconds = round_trip_ns, seconds

    @property
    def round_trip_ns(self) -> int:
        return self._round_trip_ns

    def time_there(self, here_ns: int) -> int:
        time.sleep(self._seconds)
        return here_ns


def started_together(*places: Place) -> list[LoadResult]:
    """Starts a load at each place, and returns their results."""
    settings = {"clients": 1, "connections": "kept", "loops": 5}
    with Server("epoll", workload="echo") as listening, contextlib.ExitStack() as held:
        loads = []
        for place in places:
            loads.append(
                start_load(
                    "echo",
                    listening.ready.address,
                    kind="closed_connections",
                    settings=settings,
                    awaits_start=True,
                    place=place,
                )
            )
            held.callback(loads[-1].end)
        for each in loads:
            each.connected(PATIENCE)
        client.start_together(loads)
        return [each.wait(PATIENCE) for each in loads]


@pytest.mark.usefixtures("use_engine")
def test_loads_start_together_however_many_calls_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the time for the calls, the first load would start before the last knows of it."""
    monkeypatch.setattr(client, "START_AHEAD_NS", 100_000_000)
    places = [FarPlace(50_000_000, 0.06) for _ in range(4)]
    began = time.monotonic_ns()
    started = [each.started_monotonic_ns for each in started_together(*places)]
    assert min(started) - began >= client.start_ahead_ns([50_000_000] * 4)
    assert max(started) - min(started) < 100_000_000


@pytest.mark.usefixtures("use_engine")
def test_a_start_that_a_load_hears_of_too_late_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "START_AHEAD_NS", 10_000_000)
    with pytest.raises(EngineError, match="too late"):
        started_together(FarPlace(0), FarPlace(0, 0.05))
