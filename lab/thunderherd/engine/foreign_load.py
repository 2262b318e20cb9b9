"""Load generators that are not ours: one process tree, its output, its CPU time, and its end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import secrets
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from thunderherd.engine.client_outputs import ClientOutput, UnreadableError, parsed
from thunderherd.engine.line_base import SCHEMA
from thunderherd.engine.lines import Latency, LoadResult, Tally
from thunderherd.engine.outputs.base import Direction
from thunderherd.engine.process import EngineError, ending_in_words, one_line

LARGEST_OUTPUT = 1 << 20
"""The most bytes that a load generator may print."""
LONGEST_NOTE = 200
"""The most characters of an output in a message."""
SIGTERM_SECONDS = 1.0
"""The time between SIGTERM and SIGKILL."""
MARK = "THUNDERHERD_CLIENT"
"""The variable by which all processes of a load generator are found."""
ROUNDS = 20
"""How often the processes of a load generator are looked for until none is left."""
BYTES: Mapping[Direction | None, str] = {
    "to_server": "bytes_sent",
    "to_clients": "bytes_received",
    None: "bytes_received",
}
"""The direction of a stream, or none → the count of the clients that has its bytes."""
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class ClientError(EngineError):
    """A load generator that failed. The message ends with the code in brackets."""

    def __init__(self, message: str, code: str) -> None:
        self.code = code
        super().__init__(f"{message} [{code}]")


class ForeignLoad:
    """A running load generator. Call `wait()` once; `end()` may be called at any time. Main thread only."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        parser: str,
        workload: str,
        address: str,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        enter: Sequence[str] = (),
        cpus: Sequence[int] | None = None,
    ) -> None:
        self.command, self.parser = list(command), parser
        self._workload, self._address = workload, address
        self._name = f"load {Path(command[0]).name}"
        self._mark = secrets.token_hex(16)
        self._output = b""
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        self._ended = False
        self._started_ns = time.monotonic_ns()
        try:
            self._popen = subprocess.Popen(
                [*enter, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=directory,
                env={**os.environ, **(environment or {}), MARK: self._mark},
                start_new_session=True,
                preexec_fn=_prepare(cpus, os.getpid()),
            )
        except OSError as error:
            self._errors.close()
            raise ClientError(
                f"{self._name} cannot be started: {error.strerror}", "client.not_started"
            ) from None

    def wait(self, seconds: float) -> LoadResult:
        """Return its result; raise `ClientError` if it has none within `seconds`. Nothing is left running."""
        try:
            self._read(time.monotonic() + seconds, seconds)
            status, used = self._reaped(time.monotonic() + SIGTERM_SECONDS)
            ended_ns = time.monotonic_ns()
            if status != 0:
                raise ClientError(
                    f"{self._name} failed: {ending_in_words(status)}{self._note()}", "client.failed"
                )
            try:
                output = parsed(self.parser, self._output.decode(errors="replace"))
            except UnreadableError as error:
                raise ClientError(
                    f"{self._name}: {error} in its output{self._note()}", "client.unreadable_output"
                ) from None
            return self._result(output, ended_ns, used)
        finally:
            self.end()

    def _read(self, deadline: float, seconds: float) -> None:
        """Read its output to its end."""
        assert self._popen.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._popen.stdout, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ClientError(f"{self._name} did not end within {seconds:.0f} s", "client.not_ended")
                if selector.select(min(left, 0.1)):
                    piece = os.read(self._popen.stdout.fileno(), 65536)
                    if not piece:
                        return
                    self._output += piece
                if len(self._output) + os.fstat(self._errors.fileno()).st_size > LARGEST_OUTPUT:
                    raise ClientError(
                        f"{self._name} printed more than {LARGEST_OUTPUT >> 20} MiB",
                        "client.too_much_output",
                    )

    def _reaped(self, deadline: float) -> tuple[int, resource.struct_rusage]:
        """Return its status, and the use of it and of the children that it waited for."""
        while time.monotonic() < deadline:
            pid, status, used = os.wait4(self._popen.pid, os.WNOHANG)
            if pid:
                self._popen.returncode = os.waitstatus_to_exitcode(status)
                return self._popen.returncode, used
            time.sleep(0.001)
        raise ClientError(f"{self._name} closed its output and did not end", "client.not_ended")

    def _result(self, output: ClientOutput, ended_ns: int, used: resource.struct_rusage) -> LoadResult:
        """Return its result as one of our loads reports it. Its time ends with the process."""
        counts = {name: 0 for name in Tally.model_fields if name != "errors"}
        counts |= {"requests": output.requests or 0, BYTES[output.direction]: output.bytes or 0}
        errors = {"client": output.errors} if output.errors else {}
        return LoadResult.model_validate(
            {
                "schema": SCHEMA,
                "workload": self._workload,
                "address": self._address,
                "load": self.parser,
                "primitive": "",
                "receive": "",
                "measured_by": f"bytes_{output.direction}" if output.direction else "requests",
                "tally": Tally.model_validate({**counts, "errors": errors}),
                "elapsed_ns": round(output.seconds * 1e9),
                "started_monotonic_ns": ended_ns - round(output.seconds * 1e9),
                "ended_monotonic_ns": ended_ns,
                "counted_from_ns": self._started_ns,
                "counted_to_ns": ended_ns,
                "latency": _latency(output),
                "user_ns": round(used.ru_utime * 1e9),
                "system_ns": round(used.ru_stime * 1e9),
                "voluntary_switches": used.ru_nvcsw,
                "involuntary_switches": used.ru_nivcsw,
                "minor_faults": used.ru_minflt,
                "major_faults": used.ru_majflt,
            }
        )

    def _note(self) -> str:
        """Return the end of what it printed, for the end of a message."""
        size = os.fstat(self._errors.fileno()).st_size
        printed = os.pread(self._errors.fileno(), 4096, max(0, size - 4096)) or self._output[-4096:]
        text = one_line(printed.decode(errors="replace"))
        shown = "".join(each if each.isprintable() else "?" for each in text)[-LONGEST_NOTE:]
        return f": {shown}" if shown else ""

    def end(self) -> None:
        """End all of its processes, also those in other sessions: SIGTERM, then SIGKILL."""
        if self._ended:
            return
        self._ended = True
        try:
            if self._popen.poll() is None:
                self._popen.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._popen.wait(SIGTERM_SECONDS)
            if self._popen.poll() is None:
                self._popen.kill()
            self._popen.wait()
            for _ in range(ROUNDS):
                left = _marked(f"{MARK}={self._mark}".encode())
                if not left:
                    break
                for pid in left:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)
        finally:
            if self._popen.stdout is not None:
                self._popen.stdout.close()
            self._errors.close()


def _prepare(cpus: Sequence[int] | None, parent: int) -> Callable[[], None]:
    """Return what a process does before its program: get its CPUs, and end with its parent."""

    def run() -> None:
        if cpus:
            os.sched_setaffinity(0, cpus)
        LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return run


def _marked(mark: bytes) -> list[int]:
    """Return the processes with this variable in their environment."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _latency(output: ClientOutput) -> Latency | None:
    """Return its latencies; None if it reports none."""
    if not output.latency:
        return None
    whole = {
        f"{name}_ns": seconds * 1e9 if name == "mean" else round(seconds * 1e9)
        for name, seconds in output.latency.items()
    }
    return Latency.model_validate({"requests": output.requests or 0, "from": output.starts, **whole})
