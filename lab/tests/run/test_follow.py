"""`thunderherd watch`: follows a run from another process, on a terminal and in a pipe, until it ends."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from made.interrupted import STUDY
from made.paths import TESTS
from made.refusals import codes_printed, refused
from made.summaries.runs import info
from made.summaries.trials import made_trial

from thunderherd.cli.main import run_command
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records import directory
from thunderherd.records.directory import RunDirectory
from thunderherd.run.follow import Followed
from thunderherd.run.plan import next_in_block, plan
from thunderherd.run.watch import step_aside
from thunderherd.study.loading import Study

PROGRAM = [sys.executable, "-m", "thunderherd"]
WATCH = [*PROGRAM, "watch"]
COSTS = {"iterative": 20e-6, "fork_per_client": 100e-6, "prefork": 30e-6}
LIMIT = 240.0
"""A `watch` runs only when no other process wants a CPU, so on a busy machine it needs long."""


class Writer:
    """A run's directory with its lock held, to which trials are written as a run writes them."""

    def __init__(self, study: Study, path: Path) -> None:
        self.study, self.path = study, path
        self.directory = RunDirectory.create(path, info(study))

    def add(self, count: int) -> None:
        for _ in range(count):
            number = plan(self.study, self.directory.trials).number
            assert number is not None
            following = next_in_block(self.study, 1, number, self.directory.trials)
            assert following is not None
            cost = COSTS[following.contender] * (1 + 0.01 * (number % 3))
            self.directory.append(
                made_trial(self.study, following.contender, number, position=following.position, cost=cost)
            )

    def finish(self) -> None:
        trials = self.directory.trials
        self.directory.finish(summarise(self.study, trials, {}, seed=1), trials)
        self.directory.close()


@pytest.fixture
def writer(small_study: Study, tmp_path: Path) -> Writer:
    made = Writer(small_study, tmp_path / "run")
    made.add(4)
    return made


def read_until(descriptor: int, wanted: str, so_far: str = "") -> str:
    """Reads from a terminal until a text appears; everything if it ends first."""
    deadline = time.monotonic() + LIMIT
    while wanted not in so_far and time.monotonic() < deadline:
        if not select.select([descriptor], [], [], 0.5)[0]:
            continue
        try:
            came = os.read(descriptor, 65536)
        except OSError:  # EIO: the other end is closed (pty(7))
            break
        so_far += came.decode(errors="replace")
    assert wanted in so_far, so_far[-2000:]
    return so_far


@contextlib.contextmanager
def on_a_terminal(words: list[str]) -> Iterator[tuple[int, int]]:
    """Starts a program on its own terminal; yields its process and the other end of the terminal."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS="130", LINES="40", TERM="xterm-256color", PYTHONPATH=str(TESTS.parent))
        os.execv(words[0], words)
    try:
        yield pid, descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def watching(writer: Writer) -> Iterator[tuple[int, int]]:
    """A `watch` of the writer's run."""
    with on_a_terminal([*WATCH, str(writer.path)]) as found:
        yield found


def status_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# A terminal -------------------------------------------------------------------------------------------------


def test_a_terminal_sees_the_run_go_on_and_ends_with_it(writer: Writer, watching: tuple[int, int]) -> None:
    pid, terminal = watching
    text = read_until(terminal, "% of a CPU")
    assert "block 2/10 · trial 2/3 · 4 " in text and "Running: " in text and "This view " in text
    writer.add(2)
    text = read_until(terminal, "block 3/10 · trial 1/3 · 6 ", text)
    writer.add(24)
    writer.finish()
    text = read_until(terminal, "ended: 30 trials; see: thunderherd table", text)
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1
    assert status_of(pid) == 0


def test_ctrl_c_ends_the_view_and_not_the_run(writer: Writer, watching: tuple[int, int]) -> None:
    pid, terminal = watching
    text = read_until(terminal, "4 trials")
    os.write(terminal, b"\x03")
    text = read_until(terminal, "watch: ended; the run goes on", text)
    assert "Traceback" not in text and text.count("\x1b[?25h") == 1
    assert status_of(pid) == 130
    writer.add(26)
    writer.finish()


@pytest.mark.usefixtures("use_engine")
def test_run_and_watch_end_cleanly_at_ctrl_c(tmp_path: Path) -> None:
    study, path = tmp_path / "small.toml", tmp_path / "run"
    study.write_text(STUDY.replace("repetitions = 1", "repetitions = 500"))
    with on_a_terminal([*PROGRAM, "run", str(study), "--out", str(path)]) as (run, terminal):
        text = read_until(terminal, "3 trials so far")
        assert "Running: " in text and "between trials" in text and "prefork" in text
        with on_a_terminal([*WATCH, str(path)]) as (watch, other):
            watched = read_until(other, "% of a CPU")
            os.write(terminal, b"\x03")
            text = read_until(terminal, "resume: ", text)
            watched = read_until(other, "ended: ", watched)
            assert status_of(watch) == 0
        assert status_of(run) == 130
    assert "stopped: " in text and "Traceback" not in text + watched
    assert text.count("\x1b[?25l") == 1


# A pipe -----------------------------------------------------------------------------------------------------


def test_a_pipe_gets_plain_lines(writer: Writer) -> None:
    process = subprocess.Popen(
        [*WATCH, str(writer.path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )

    assert process.stdout is not None
    first = process.stdout.readline()
    assert "seed 1" in first and "4 trials" in first
    writer.add(5)
    lines = [process.stdout.readline()]
    while lines[-1] and not lines[-1].startswith("block 3/10: 3 trials valid"):
        lines.append(process.stdout.readline())
    writer.directory.close()
    rest, _ = process.communicate(timeout=LIMIT)
    said = "".join(lines) + rest
    assert process.returncode == 0 and "\x1b" not in said
    assert re.findall(r"^block (\d+)/10: 3 ", said, re.MULTILINE) == ["2", "3"]
    assert len(re.findall(r"^so far, .*: .*prefork", said, re.MULTILINE)) >= 2
    assert "9 trials" in said.splitlines()[-1]


def test_watch_of_an_ended_run_prints_its_end(writer: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    writer.add(26)
    writer.finish()
    found = os.sched_getaffinity(0), os.sched_getscheduler(0)
    try:
        assert run_command(["watch", str(writer.path)]) == 0
    finally:
        os.sched_setaffinity(0, found[0])
        if found[1] != os.sched_getscheduler(0) and os.geteuid() == 0:
            os.sched_setscheduler(0, found[1], os.sched_param(0))
    assert "ended: 30 trials" in capsys.readouterr().out


def test_directory_without_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["watch", str(tmp_path)]) == 2
    assert codes_printed(capsys.readouterr().err) == ["results.no_run"]


# Following --------------------------------------------------------------------------------------------------


def test_incomplete_last_line_is_not_read(writer: Writer) -> None:
    followed = Followed(writer.path)
    assert len(followed.new_trials()) == 4 and followed.new_trials() == []
    line = (writer.path / "trials.jsonl").read_bytes().splitlines()[0]
    with (writer.path / "trials.jsonl").open("ab", buffering=0) as file:
        file.write(line[:100])
        assert followed.new_trials() == []
        file.write(line[100:] + b"\n")
        assert len(followed.new_trials()) == 1
        file.write(b"{}\n")
        (problem,) = refused(followed.new_trials)
        assert problem.code == "results.broken_line" and problem.where.endswith("trials.jsonl:6")
    writer.directory.close()


def test_the_study_is_that_of_the_run(writer: Writer) -> None:
    followed = Followed(writer.path)
    assert followed.study.model_dump(mode="json") == writer.study.model_dump(mode="json")
    assert plan(followed.study, writer.directory.trials) == plan(writer.study, writer.directory.trials)
    writer.directory.close()


def test_lock_shows_whether_the_run_is_active_without_blocking_it(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine, the thread below may lose its CPU while it holds the lock.
    monkeypatch.setattr(directory, "LOCK_SECONDS", 0.2)
    followed = Followed(writer.path)
    assert followed.is_running()
    writer.directory.close()
    assert not followed.is_running()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            followed.is_running()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(20):
            RunDirectory.resume(writer.path).close()
    finally:
        stop.set()
        thread.join()


def test_watch_leaves_the_measured_cpus(small_study: Study) -> None:
    """In a separate process, which cannot get back the CPUs that it gives up."""
    here = sorted(os.sched_getaffinity(0))
    if len(here) < 2:
        pytest.skip("one CPU alone is usable")
    lab = small_study.lab.model_copy(update={"server_cpus": (here[0],), "client_cpus": (here[0],)})
    study = small_study.model_copy(update={"lab": lab})
    pid = os.fork()
    if pid == 0:
        said = step_aside(study)
        left = os.sched_getaffinity(0)
        idle = os.sched_getscheduler(0) == os.SCHED_IDLE
        os._exit(0 if left == set(here[1:]) and "nothing is measured" in said and idle else 1)
    assert status_of(pid) == 0
