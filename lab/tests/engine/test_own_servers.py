"""Servers that are not ours, run by real commands: what is known of them, and what is left of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made.interrupted import left_of

from thunderherd.engine.client import EngineError, OwnServer, catalogue

IMPORTS = "import os, signal, socket, sys, time\n"
LISTENS = f"""{IMPORTS}
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((os.environ["HOST"], int(os.environ["PORT"])))
listener.listen()
"""
WAITS = LISTENS + "signal.pause()\n"

pytestmark = pytest.mark.usefixtures("use_engine")


def python(code: str, **more: object) -> OwnServer:
    return OwnServer([sys.executable, "-c", code], name="own", **more)  # type: ignore[arg-type]


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """A text in the code of a test's servers, none of which is alive afterwards."""
    text = f"# {tmp_path.name} of {os.getpid()}\n"
    yield text
    deadline = time.monotonic() + 20
    while left_of(text.strip()) and time.monotonic() < deadline:  # a killed process takes a moment
        time.sleep(0.02)
    assert not left_of(text.strip())


def test_it_gets_its_address_and_is_counted_without_a_tally(mark: str) -> None:
    busy = WAITS.replace(
        "signal.pause()", "end = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"
    )
    with python(mark + busy + "signal.pause()\n", counters=["memory"]) as server:
        assert (
            server.ready.port
            and server.ready.design is None
            and server.ready.cpu_source in ("cgroup", "process_clocks")
        )
        deadline = time.monotonic() + 60
        while (server.snapshot().cpu_ns or 0) < 200_000_000 and time.monotonic() < deadline:
            time.sleep(0.05)
        now = server.snapshot()
        assert now.tally is None and (now.cpu_ns or 0) >= 200_000_000
        life = server.stop()
    assert life is not None and life.died is None and life.cpu_ns >= 200_000_000


def test_placeholders_are_in_its_arguments(mark: str) -> None:
    code = mark + LISTENS.replace('os.environ["PORT"]', "sys.argv[2]").replace(
        'os.environ["HOST"]', "sys.argv[1]"
    )
    server = OwnServer([sys.executable, "-c", code + "signal.pause()\n", "{host}", "{port}"], name="own")
    with server:
        with socket.create_connection(("127.0.0.1", server.ready.port or 0), 5):
            pass
        life = server.stop()
    assert life is not None and life.died is None


def test_it_may_say_when_it_is_ready(mark: str) -> None:
    late = LISTENS.replace(
        "listener.listen()", "listener.listen(); time.sleep(0.3); print('now at', 7, flush=True)"
    )
    began = time.monotonic()
    with python(mark + late + "signal.pause()\n", ready_line="now at") as server:
        assert time.monotonic() - began >= 0.3
        server.stop()


def test_directory_and_environment_are_its_own(mark: str, tmp_path: Path) -> None:
    code = mark + LISTENS + "assert os.getcwd() == os.environ['EXPECTED']\nsignal.pause()\n"
    with python(code, directory=tmp_path, environment={"EXPECTED": str(tmp_path)}) as server:
        life = server.stop()
    assert life is not None and life.died is None


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit('no configuration')", "no configuration"),
        (
            "import os\nif os.fork(): os._exit(0)\nos.setsid()\nimport time; time.sleep(60)",
            "processes running",
        ),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    ],
    ids=["fails", "forks away", "is killed"],
)
def test_a_server_that_ends_before_it_listens_is_an_error_with_its_output(
    code: str, said: str, mark: str
) -> None:
    with pytest.raises(EngineError, match=said), python(mark + code):
        pass


def test_a_missing_program_is_named() -> None:
    with pytest.raises(EngineError, match="no-such-server"), OwnServer(["no-such-server"], name="own"):
        pass


def test_a_server_at_another_port_is_not_ready_in_time(mark: str) -> None:
    """Its error names the address at which it listens instead."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        other = free.getsockname()[1]
    code = mark + WAITS.replace('int(os.environ["PORT"])', str(other))
    with pytest.raises(EngineError, match=f"listens at 127.0.0.1:{other}") as error, python(code):
        pass
    assert error.value.code == "host.not_listening" and "PORT" in error.value.hint


def test_a_server_that_is_not_ready_has_the_same_reason_if_its_calls_are_counted(mark: str) -> None:
    counters = [each.name for each in catalogue().counters if each.name == "system_calls"]
    code = mark + WAITS.replace('int(os.environ["PORT"])', "0")
    with pytest.raises(EngineError) as error, python(code, counters=counters):
        pass
    assert error.value.code == "host.not_listening"


def test_a_server_that_dies_is_an_error_of_the_next_snapshot(mark: str, tmp_path: Path) -> None:
    # It dies when it is told to, since on a busy machine it is ready late and its end is noticed late.
    told = tmp_path / "told"
    waits = f"while not os.path.exists({str(told)!r}): time.sleep(0.02)\n"
    with python(mark + LISTENS + waits + "os.kill(os.getpid(), 9)\n") as server:
        told.touch()
        deadline = time.monotonic() + 30
        with pytest.raises(EngineError, match="by itself"):
            while time.monotonic() < deadline:
                server.snapshot()
                time.sleep(0.05)


def test_a_server_that_ignores_sigterm_is_killed_and_said_to(mark: str) -> None:
    with python(
        mark
        + IMPORTS
        + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        + LISTENS
        + "while True: signal.pause()\n"
    ) as server:
        life = server.stop()
    assert life is not None and life.died is not None and "SIGTERM" in life.died


def test_a_slow_end_within_its_time_leaves_nothing(mark: str) -> None:
    """Also if nobody waits for its summary, as after conformance cases or Ctrl-C."""
    code = LISTENS + (
        "child = os.fork()\nif child == 0:\n    time.sleep(60); os._exit(0)\n"
        "def end(*_):\n    time.sleep(4); os.kill(child, 9); os.wait(); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nwhile True: signal.pause()\n"
    )
    with python(mark + code) as server:
        assert server.ready.port


def test_a_failing_end_is_said(mark: str) -> None:
    # It is ready as soon as it listens, so it must know by then how it ends.
    code = IMPORTS + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n" + LISTENS + "signal.pause()\n"
    with python(mark + code) as server:
        life = server.stop()
    assert life is not None and life.died is not None and "status 3" in life.died


def test_processes_in_sessions_of_their_own_are_ended(mark: str) -> None:
    # It says so when the last one has its session, on a busy machine after seconds.
    code = (
        LISTENS
        + "reads, writes = os.pipe()\n"
        + "for _ in range(50):\n    if os.fork() == 0:\n"
        + "        os.setsid(); os.write(writes, b'.'); time.sleep(60); os._exit(0)\n"
        + "for _ in range(50): os.read(reads, 1)\n"
        + "print('all are here', flush=True)\nsignal.pause()\n"
    )
    with python(mark + code, ready_line="all are here") as server:
        life = server.stop()
    assert life is not None and life.died is not None and life.died.startswith("50 ")


def test_a_server_that_prints_without_end_is_ended(mark: str) -> None:
    code = LISTENS + "while True: sys.stdout.write('x' * 65536)\n"
    with python(mark + code) as server:
        deadline = time.monotonic() + 60
        with pytest.raises(EngineError, match="MiB"):
            while time.monotonic() < deadline:
                server.snapshot()
                time.sleep(0.05)


FORKS = LISTENS + (
    "for is_orphan in (False, True):\n"
    "    if os.fork() == 0:\n"
    "        if is_orphan and (os.setsid() or os.fork()): os._exit(0)\n"
    "        time.sleep(600); os._exit(0)\n"
    "signal.pause()\n"
)
"""A server with two more processes: a child, and an orphan in a session of its own."""


@pytest.mark.parametrize(
    ("victim", "said"),
    [("keeper", "outlived its first"), ("supervisor", "SIGKILL"), ("first process", "SIGKILL")],
)
def test_nothing_outlives_a_kill_of_any_process_above_it(victim: str, said: str, mark: str) -> None:
    with python(mark + FORKS) as server:
        supervisor, first = server.ready.supervisor_pid, server.ready.server_pid
        assert first is not None
        chain = {"keeper": parent_of(supervisor), "supervisor": supervisor, "first process": first}
        # Keeper and supervisor have the code in their arguments, too.
        wait_until(lambda: len(left_of(mark.strip())) == 5)
        os.kill(chain[victim], 9)
        wait_until(lambda: not left_of(mark.strip()))
        with pytest.raises(EngineError, match=said):
            server.snapshot()
    assert not groups_of(supervisor)


def test_nothing_outlives_a_killed_lab(mark: str) -> None:
    code = (
        "import sys\nfrom thunderherd.engine.client import OwnServer\n"
        f"with OwnServer([sys.executable, '-c', {mark + FORKS!r}], name='own'):\n"
        "    print('ready', flush=True)\n    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as lab:
        assert lab.stdout is not None and lab.stdout.readline() == b"ready\n"
        wait_until(lambda: len(left_of(mark.strip())) == 6)
        lab.kill()
    wait_until(lambda: not left_of(mark.strip()))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def groups_of(supervisor: int) -> list[str]:
    """The control groups that a supervisor made."""
    names = [name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders]
    return [name for name in names if name.startswith("thunderherd-") and name.endswith(f"-{supervisor}")]


# A server that is running -----------------------------------------------------------------------------------


@pytest.fixture
def running(mark: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "HOST": "127.0.0.1", "PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-c", mark + WAITS], env=environment)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.02)
    try:
        yield process, port
    finally:
        process.kill()
        process.wait()


def test_a_running_server_is_watched_and_left_running(running: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = running
    with OwnServer(name="own", address=f"127.0.0.1:{port}", counters=["memory"]) as server:
        assert server.ready.server_pid == process.pid
        assert server.ready.cpu_source == "process_clocks" and server.ready.counters["memory"]
        now = server.snapshot()
        assert now.tally is None and (now.cpu_ns or 0) > 0
        assert server.stop() is None
    assert process.poll() is None


def test_a_running_server_that_ends_is_an_error(running: tuple[subprocess.Popen[bytes], int]) -> None:
    process, port = running
    with OwnServer(name="own", address=f"127.0.0.1:{port}") as server:
        process.kill()
        process.wait()
        with pytest.raises(EngineError, match="has ended"):
            server.snapshot()


def test_where_nothing_listens_there_is_no_server_to_watch() -> None:
    from thunderherd.errors import UserError

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(UserError) as caught, OwnServer(name="own", address=f"127.0.0.1:{port}"):
        pass
    assert [problem.code for problem in caught.value.problems] == ["host.not_running"]
